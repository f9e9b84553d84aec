#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/distributed/fsdp_subjects.h"

// What fully sharded training costs: bytes on the wire and bytes held, counted and computed.

using namespace titan;
using tests::MakeSubject;
using tests::Outcome;
using tests::RunOptions;

namespace {

/// Elements of a unit's weights.
struct UnitSize {
  int64_t whole = 0, whole_trained = 0;
  int64_t own = 0, own_trained = 0;  ///< of one rank's shards
};

std::vector<UnitSize> unit_sizes(const MakeSubject& make, int64_t shards, int64_t index) {
  const auto subject = make();
  shard_parameters(subject->module(), shards, index);
  std::vector<UnitSize> sizes;
  for (const ShardingUnit& unit : subject->units()) {
    UnitSize& size = sizes.emplace_back();
    for (const Module* module : unit.modules) {
      for (const auto& [name, parameter] : module->named_parameters()) {
        size.whole += parameter->numel();
        size.own += parameter->shard_block.numel();
        if (!parameter->trainable) continue;
        size.whole_trained += parameter->numel();
        size.own_trained += parameter->shard_block.numel();
      }
    }
  }
  return sizes;
}

int64_t numel_of(const MakeSubject& make, const std::string& name) {
  const auto subject = make();
  for (const auto& [found, parameter] : subject->module().named_parameters()) {
    if (found == name) return parameter->numel();
  }
  throw std::logic_error(name);
}

/// How the weights' pages come and go.
enum class Reshard { by_default, always, never };

FsdpOptions reshard_options(Reshard reshard) {
  return {.reshard_after_forward = reshard != Reshard::never,
          .reshard_last_after_forward = reshard == Reshard::always};
}

/// all-gathers of a unit in a micro-batch.
int64_t gathers(Reshard reshard, bool last) {
  return reshard == Reshard::always || (reshard == Reshard::by_default && !last) ? 2 : 1;
}

/// The unit that a forward pass uses last: the tied table and head, or the head.
size_t last_unit(bool tied, size_t units) { return tied ? 0 : units - 1; }

}  // namespace

TEST_CASE("bytes on the wire are two all-gathers and one reduce-scatter of the weights per micro-batch") {
  for (const bool tied : {false, true}) {
    const auto subject = tests::small_qwen3({.tied = tied, .vocab_size = 97, .frozen = {"wk"}});
    for (const Reshard reshard : {Reshard::by_default, Reshard::always, Reshard::never}) {
      for (const int64_t micro_batches : {1, 3}) {
        const Outcome outcome = tests::train(
            subject, {.shards = 4, .accumulation = micro_batches, .options = reshard_options(reshard)});
        for (int64_t rank = 0; rank < 4; ++rank) {
          int64_t received = 0, sent = 0, calls = 0;
          const auto sizes = unit_sizes(subject, 4, rank);
          for (size_t i = 0; i < sizes.size(); ++i) {
            const int64_t times = gathers(reshard, i == last_unit(tied, sizes.size()));
            calls += times;
            received += times * (sizes[i].whole - sizes[i].own) * 4;
            sent += (sizes[i].whole_trained - sizes[i].own_trained) * 4;
          }
          const GroupCounters& counters = outcome.shard_group[static_cast<size_t>(rank)];
          const int64_t passes = tests::kSteps * micro_batches;
          CHECK(counters.all_gathers == passes * calls);
          CHECK(counters.all_gather_bytes == passes * received);
          CHECK(counters.reduce_scatters == passes * static_cast<int64_t>(sizes.size()));
          CHECK(counters.reduce_scatter_bytes == passes * sent);
          CHECK(outcome.replicate_group[static_cast<size_t>(rank)].all_reduces == 0);
        }
      }
    }
  }
}

TEST_CASE("a forward without gradients gathers each unit once") {
  const auto subject = tests::small_qwen3({.vocab_size = 97});
  const Outcome plain = tests::train(subject, {.shards = 2});
  const Outcome validated = tests::train(subject, {.shards = 2, .validate = true});
  int64_t received = 0;
  for (const UnitSize& size : unit_sizes(subject, 2, 0)) received += (size.whole - size.own) * 4;
  CHECK(validated.shard_group[0].all_gather_bytes - plain.shard_group[0].all_gather_bytes ==
        tests::kSteps * received);
  CHECK(validated.shard_group[0].reduce_scatters == plain.shard_group[0].reduce_scatters);
}

TEST_CASE("bfloat16 weights and gradients take half the bytes, deferred gradients those of the shards") {
  const auto subject = tests::small_qwen3({.vocab_size = 97, .compute = at::kBFloat16});
  int64_t received = 0, sent = 0, whole = 0;
  const auto sizes = unit_sizes(subject, 3, 0);
  for (const UnitSize& size : sizes) {
    received += (&size == &sizes.back() ? 1 : 2) * (size.whole - size.own) * 2;
    sent += (size.whole_trained - size.own_trained) * 2;
    whole += size.whole_trained * 4;
  }
  RunOptions run{.shards = 3, .accumulation = 3, .options = {.param_dtype = at::kBFloat16}};
  const Outcome each_time = tests::train(subject, run);
  CHECK(each_time.shard_group[0].all_gather_bytes == tests::kSteps * 3 * received);
  CHECK(each_time.shard_group[0].reduce_scatter_bytes == tests::kSteps * 3 * sent);
  run.options.defer_reduce = true;
  const Outcome once = tests::train(subject, run);
  CHECK(once.shard_group[0].all_gather_bytes == tests::kSteps * 3 * received);
  CHECK(once.shard_group[0].reduce_scatter_bytes == tests::kSteps * 2 * sent);
  CHECK(once.deferred_bytes == whole);
  CHECK(once.memory[0].peak_unsharded_gradients == whole);
}

TEST_CASE("replicas exchange the shards' gradients once a step, in one all-reduce a unit") {
  const auto subject = tests::small_qwen3({.vocab_size = 97});
  for (const int64_t shards : {1, 2}) {
    for (const int64_t micro_batches : {1, 3}) {
      const Outcome outcome =
          tests::train(subject, {.shards = shards, .replicas = 2, .accumulation = micro_batches});
      int64_t reduced = 0;
      const auto sizes = unit_sizes(subject, shards, 0);
      for (const UnitSize& size : sizes) reduced += size.own_trained * 4;
      CHECK(outcome.replicate_group[0].all_reduce_bytes == tests::kSteps * reduced);
      CHECK(outcome.replicate_group[0].all_reduces == tests::kSteps * static_cast<int64_t>(sizes.size()));
    }
  }
}

TEST_CASE("at most two neighbouring units are gathered at once, one without prefetch") {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    for (const bool tied : {false, true}) {
      for (const bool prefetch : {true, false}) {
        const auto subject = tests::small_qwen3({.tied = tied, .recompute = recompute});
        const auto sizes = unit_sizes(subject, 3, 0);
        // The tied unit is there all the time, so the layers count on top of it.
        const size_t begin = tied ? 1 : 0;
        int64_t expected = 0;
        for (size_t i = begin; i < sizes.size(); ++i) {
          const bool pair = prefetch && i + 1 < sizes.size();
          expected = std::max(expected, sizes[i].whole + (pair ? sizes[i + 1].whole : 0));
        }
        if (tied) expected += sizes[0].whole;
        for (const bool last : {true, false}) {
          const FsdpOptions options{.reshard_last_after_forward = last, .prefetch = prefetch};
          const Outcome outcome = tests::train(subject, {.shards = 3, .options = options, .validate = true});
          for (const FsdpMemory& memory : outcome.memory) {
            CHECK(memory.peak_unsharded == 4 * expected);
            CHECK(memory.unsharded == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("without resharding after forward every unit is gathered at once") {
  const auto subject = tests::small_qwen3({.vocab_size = 97});
  int64_t whole = 0;
  for (const UnitSize& size : unit_sizes(subject, 2, 0)) whole += size.whole;
  const Outcome outcome = tests::train(subject, {.shards = 2, .options = reshard_options(Reshard::never)});
  CHECK(outcome.memory[0].peak_unsharded == 4 * whole);
  CHECK(outcome.memory[0].unsharded == 0);
}

TEST_CASE("whole gradients are one unit's and the first one of the next, without prefetch one unit's") {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const bool tied : {false, true}) {
      for (const bool prefetch : {true, false}) {
        const auto subject = tests::small_qwen3({.tied = tied, .recompute = recompute});
        const auto sizes = unit_sizes(subject, 3, 0);
        const int64_t w2 = numel_of(subject, "layers.0.feed_forward.w2.weight"),
                      table = numel_of(subject, "tok_embeddings.weight"), layer = sizes[1].whole,
                      norm = numel_of(subject, "norm.weight");
        // In the order of backward: the head, the layers beginning with w2, the table. The tied unit's norm
        // has its gradient first and waits for the table's.
        int64_t expected = 0;
        if (prefetch) {
          expected = layer + std::max(w2, table) + (tied ? norm : 0);
          if (!tied) expected = std::max(expected, sizes.back().whole + w2);
        } else {
          expected = tied ? std::max(table + norm, layer + norm) : std::max(table, sizes.back().whole);
        }
        const Outcome outcome = tests::train(
            subject, {.shards = 3, .replicas = 2, .accumulation = 2, .options = {.prefetch = prefetch}});
        for (const FsdpMemory& memory : outcome.memory) {
          CHECK(memory.peak_unsharded_gradients == 4 * expected);
          CHECK(memory.unsharded_gradients == 0);
        }
      }
    }
  }
}
