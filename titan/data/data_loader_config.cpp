#include "titan/data/data_loader_config.h"

#include "titan/base/error.h"

namespace titan {

void DataLoaderConfig::validate() const {
  if (text_key.empty())
    throw ConfigError("dataloader.text_key is empty; give the key that holds the text, for example text");
  if (dataset_path && dataset_path->empty())
    throw ConfigError("dataloader.dataset_path is empty; give a file, a folder or a glob, or leave it out");
  if (lanes && *lanes < 1) throw ConfigError("dataloader.lanes {} must be at least 1", *lanes);
  if (prefetch_factor && *prefetch_factor < 0)
    throw ConfigError("dataloader.prefetch_factor {} must be 0 or more", *prefetch_factor);
}

}  // namespace titan
