#include "titan/data/data_loader_config.h"

#include "titan/base/error.h"

namespace titan {

void DataLoaderConfig::validate() const {
  if (text_key.empty())
    throw ConfigError("dataloader.text_key is empty; give the key that holds the text, for example text");
  if (dataset_path && dataset_path->empty())
    throw ConfigError("dataloader.dataset_path is empty; give a file, a folder or a glob, or leave it out");
  constexpr int64_t kMostLanes = 65536;
  if (lanes && (*lanes < 1 || *lanes > kMostLanes))
    throw ConfigError("dataloader.lanes {} must be between 1 and {}", *lanes, kMostLanes);
  constexpr int64_t kMostBatchesAhead = 1024;
  if (prefetch_factor && (*prefetch_factor < 0 || *prefetch_factor > kMostBatchesAhead))
    throw ConfigError("dataloader.prefetch_factor {} must be between 0 and {}", *prefetch_factor,
                      kMostBatchesAhead);
}

}  // namespace titan
