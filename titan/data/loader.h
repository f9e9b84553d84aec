#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/json.h"
#include "titan/data/data_loader_config.h"

namespace titan {

class Tokenizer;

/// The label of a token that does not count in the loss.
inline constexpr int64_t kIgnoredLabel = -100;

/// Rows of packed documents. Every vector is row-major [rows, seq_len].
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;
  std::vector<int64_t> input_ids;
  /// The target of each token, already shifted; kIgnoredLabel where there is none.
  std::vector<int64_t> labels;
  /// Position in the document: 0 where a document (or a row) begins.
  std::vector<int64_t> positions;

  /// Number of labels that count in the loss.
  int64_t valid_tokens() const;
};

/// Turns the text of a document into its tokens, with begin and end tokens. Called from one thread at a time.
using DocumentEncoder = std::function<std::vector<int32_t>(std::string_view text)>;

/// The encoder of training text: begin and end tokens are added where the tokenizer has them and does not add
/// them itself.
DocumentEncoder document_encoder(std::shared_ptr<const Tokenizer> tokenizer);

/// The shape of a batch and the place of this reader among the data-parallel ranks.
struct LoaderOptions {
  int64_t seq_len = 2048;
  int64_t local_batch_size = 1;
  int64_t dp_rank = 0;
  int64_t dp_world = 1;
  /// The section of the configuration that this is, for messages: the validator's is "validator.dataloader".
  std::string section = "dataloader";
};

/// Reads, tokenises and packs the documents of a data set into batches; see [Note: rows and lanes] in
/// row_stream.h.
///
/// Global row g is the same for every number of ranks; rank r of n reads rows r, r + n, r + 2n, ... Batches
/// are made ahead on a thread. Errors in the data name the file and the line and come out of the constructor
/// (files, broken lines) or of next() (files that vanish).
class DataLoader {
 public:
  DataLoader(const DataLoaderConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
             const LoaderOptions& options);
  DataLoader(const DataLoaderConfig& config, DocumentEncoder encode, const LoaderOptions& options);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  /// The next batch. Without `infinite`: nothing once this rank's lanes are read to the end; lanes that ended
  /// earlier give padding (labels ignored), so that every token of the set is returned exactly once over all
  /// ranks. Ranks may end at different calls: those that ended go on with padding_batch() until no rank has a
  /// valid token.
  std::optional<Batch> next();

  /// A batch without a valid token.
  Batch padding_batch() const;

  /// Goes back to the first row (validation reads the same set every round).
  void rewind();

  /// Where the batches returned so far end, for the lanes that this rank reads. Taken at the same step on all
  /// ranks, the states merge into that of the whole run.
  Json state() const;

  /// One state for all lanes from the states of all data-parallel ranks.
  static Json merge_states(std::span<const Json> states);

  /// Continues behind a merged state, whatever the number of ranks, the batch size and the sequence length
  /// were. ValueError when the data, the lanes or the seed are others.
  void restore(const Json& merged_state);

  /// Documents in the data set.
  int64_t num_documents() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
