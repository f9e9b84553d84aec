#include "titan/data/loader.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <string>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/data/ahead.h"
#include "titan/data/corpus.h"
#include "titan/data/datasets.h"
#include "titan/data/lane.h"
#include "titan/data/loader_state.h"
#include "titan/data/row_stream.h"
#include "titan/data/tokenizer.h"

namespace titan {

namespace {

constexpr int64_t kDefaultPrefetch = 2;

const LoaderOptions& checked(const LoaderOptions& options) {
  if (options.seq_len < 1) throw ConfigError("training.seq_len {} must be at least 1", options.seq_len);
  if (options.local_batch_size < 1)
    throw ConfigError("training.local_batch_size {} must be at least 1", options.local_batch_size);
  check(options.dp_world >= 1 && options.dp_rank >= 0 && options.dp_rank < options.dp_world,
        "0 <= dp_rank < dp_world");
  return options;
}

LaneSource open_source(const DataLoaderConfig& config, DocumentEncoder encode, const std::string& section) {
  Dataset dataset = find_dataset(config, section);
  log_info("Preparing {} dataset from {}", dataset.name, dataset.shown_path);
  LaneSource source{.name = format("{}: the data set {} ({})", section, dataset.name, dataset.shown_path),
                    .corpus = Corpus(std::move(dataset.files), config.text_key, section + ".text_key"),
                    .encode = std::move(encode),
                    .num_lanes = 1,
                    .seed = config.seed,
                    .infinite = config.infinite};
  source.num_lanes = config.lanes.value_or(default_lanes(source.corpus.num_documents()));
  log_info("{} holds {} documents in {} lanes{}{}", dataset.about.empty() ? dataset.shown_path : dataset.name,
           with_commas(source.corpus.num_documents()), source.num_lanes, dataset.about.empty() ? "" : ": ",
           dataset.about);
  return source;
}

}  // namespace

struct DataLoader::Impl {
  struct Item {
    std::optional<Batch> batch;
    StreamPosition behind;
  };

  Impl(const DataLoaderConfig& config, DocumentEncoder encode, const LoaderOptions& shape)
      : options(checked(shape)),
        dataset(config.dataset),
        depth(static_cast<size_t>(config.prefetch_factor.value_or(kDefaultPrefetch))),
        source(open_source(config, std::move(encode), options.section)),
        stream(source, options),
        start(stream.position()),
        behind(start) {
    if (stream.packing_cost() > 1 && options.dp_rank == 0) {
      log_warning(
          "{}.lanes: {} lanes with text do not divide by {} data-parallel ranks, so each rank packs "
          "{} lanes, {} "
          "times the rows it trains on; a multiple of {} costs nothing more",
          options.section, stream.num_active_lanes(), options.dp_world, stream.num_own_lanes(),
          stream.packing_cost(), options.dp_world);
    }
  }

  std::optional<Batch> next() {
    if (!ahead) {
      ahead.emplace(depth, [this] {
        auto batch = stream.next();
        return Item{std::move(batch), stream.position()};
      });
    }
    Item item = ahead->next();
    behind = std::move(item.behind);
    return std::move(item.batch);
  }

  void go_to(const StreamPosition& position) {
    ahead.reset();  // the thread uses the stream
    stream.seek(position);
    behind = position;
  }

  LoaderState state() const {
    return {.dataset = dataset,
            .fingerprint = source.corpus.fingerprint(),
            .num_documents = source.corpus.num_documents(),
            .num_lanes = source.num_lanes,
            .seed = source.seed,
            .position = behind};
  }

  LoaderOptions options;
  std::string dataset;
  size_t depth;
  LaneSource source;
  RowStream stream;
  StreamPosition start;
  StreamPosition behind;  ///< the batches that the reader has
  std::optional<Ahead<Item>> ahead;
};

int64_t Batch::valid_tokens() const {
  return std::ssize(labels) - std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

DocumentEncoder document_encoder(std::shared_ptr<const Tokenizer> tokenizer) {
  return [tokenizer = std::move(tokenizer)](std::string_view text) {
    return tokenizer->encode(text, {.add_bos = true, .add_eos = true});
  };
}

DataLoader::DataLoader(const DataLoaderConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
                       const LoaderOptions& options)
    : DataLoader(config, document_encoder(std::move(tokenizer)), options) {}

DataLoader::DataLoader(const DataLoaderConfig& config, DocumentEncoder encode, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(config, std::move(encode), options)) {}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

std::optional<Batch> DataLoader::next() { return impl_->next(); }

Batch DataLoader::padding_batch() const {
  const LoaderOptions& options = impl_->options;
  const auto size = static_cast<size_t>(options.local_batch_size * options.seq_len);
  Batch batch{.rows = options.local_batch_size,
              .seq_len = options.seq_len,
              .input_ids = std::vector<int64_t>(size, 0),
              .labels = std::vector<int64_t>(size, kIgnoredLabel),
              .positions = std::vector<int64_t>(size)};
  for (auto row = batch.positions.begin(); row != batch.positions.end(); row += options.seq_len)
    std::iota(row, row + options.seq_len, int64_t{0});
  return batch;
}

void DataLoader::rewind() { impl_->go_to(impl_->start); }

Json DataLoader::state() const { return to_json(impl_->state()); }

Json DataLoader::merge_states(std::span<const Json> states) { return merge_loader_states(states); }

void DataLoader::restore(const Json& merged_state) {
  const LoaderState saved = loader_state_from(merged_state);
  require_same_data(saved, impl_->state());
  impl_->go_to(saved.position);
}

int64_t DataLoader::num_documents() const { return impl_->source.corpus.num_documents(); }

}  // namespace titan
