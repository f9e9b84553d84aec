#include <ATen/ops/zeros.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"
#include "titan/nn/placement.h"
#include "titan/ops/embedding.h"

namespace titan {

TEST_CASE("parts of a table give the table's rows or zeros, and the gradients of their rows") {
  constexpr int64_t kEntries = 2047;
  const at::Tensor table = normal({kEntries, 19}, 1);
  at::Tensor ids = integers({2, 40}, 2, kEntries);
  ids.mutable_data_ptr<int64_t>()[3] = kEntries - 1;
  ids.mutable_data_ptr<int64_t>()[4] = ids.mutable_data_ptr<int64_t>()[5];
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Outcome whole = outcome([&](const auto& in) { return embedding(in[0], ids, dtype); }, {table});
    for (const int64_t ranks : {1, 2, 4}) {
      at::Tensor sum = at::zeros(whole.result.sizes(), whole.result.options());
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Range mine = chunk_of(kEntries, ranks, rank);
        const Outcome part =
            outcome([&](const auto& in) { return embedding(in[0], ids, dtype, {mine.begin, kEntries}); },
                    {table.narrow(0, mine.begin, mine.count)});
        sum += part.result;
        CHECK(part.grads[0].equal(whole.grads[0].narrow(0, mine.begin, mine.count)));
      }
      CHECK(sum.equal(whole.result));
    }
  }
}

TEST_CASE("an id outside the whole vocabulary is refused by every part of the table") {
  at::Tensor ids = integers({4}, 2, 5);
  ids.mutable_data_ptr<int64_t>()[2] = 11;
  for (const int64_t first : {0, 6}) {
    CHECK_THROWS_WITH_AS(embedding(normal({5, 3}, 1), ids, at::kFloat, {first, 11}),
                         "embedding: token 2 has id 11, but the vocabulary has 11 entries", ValueError);
  }
  CHECK_THROWS_WITH_AS(embedding(normal({5, 3}, 1), ids, at::kFloat, {7, 11}),
                       "embedding: the weight holds 5 rows from row 7 on, but the vocabulary has 11 entries",
                       ValueError);
}

}  // namespace titan
