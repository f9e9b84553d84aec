#include <algorithm>
#include <array>

#include "titan/base/error.h"
#include "titan/nki/cost.h"
#include "titan/nki/cost_constants.h"
#include "titan/nki/memory_times.h"

// [Note: timeline]
// Each engine runs its instructions in program order, and begins one when its operands are there: after what
// wrote them, and after who still reads or writes what it overwrites. A result is there some cycles after
// the engine has gone on (kAccessLatency and its like). TensorE loads the stationary operand of each
// nc_matmul before it multiplies, at kWeightColumnsPerCycle; whether the chip hides that behind the
// multiplication before is not published, so it does not. A DMA is spread over as many of the 16 queues as it
// has rows (partitions on chip), from the next queue on in turn. It joins them when its operands are there,
// so that one that waits holds up nobody, and is complete kDmaLatency after its last byte has left.
// Transposing halves the rate. Barriers cost nothing but the wait; a sendrecv begins when both cores are
// there. The two cores' HBM accesses are otherwise taken as independent: barriers order them. Not modelled,
// for want of numbers: issuing DMAs from an engine's own queue, conflicts over banks of PSUM and the bus that
// VectorE and GpSimdE share, short rows, launching the kernel.

namespace titan::nki {
namespace {

/// A DMA queue: the times at which it moves bytes, in order, those that touch merged.
class QueueTimes {
 public:
  /// Takes `duration` of what is free from `ready` on; calls `visit(begin, end)` for each piece. Returns the
  /// last end.
  template <class Visit>
  double take(double ready, double duration, const Visit& visit) {
    auto it = std::upper_bound(busy_.begin(), busy_.end(), ready,
                               [](double time, const Piece& piece) { return time < piece.end; });
    double begin = ready;
    while (true) {
      if (it != busy_.end() && it->begin <= begin) {
        begin = std::max(begin, it->end);
        ++it;
        continue;
      }
      const double room = it == busy_.end() ? duration : std::min(duration, it->begin - begin);
      const double end = begin + room;
      visit(begin, end);
      it = insert(it, {begin, end});
      duration -= room;
      begin = end;
      if (duration <= 0) return end;
    }
  }

 private:
  struct Piece {
    double begin, end;
  };
  /// Puts a piece before `at`, merged with those it touches; returns where it is.
  std::vector<Piece>::iterator insert(std::vector<Piece>::iterator at, Piece piece) {
    const bool joins_left = at != busy_.begin() && std::prev(at)->end >= piece.begin;
    const bool joins_right = at != busy_.end() && at->begin <= piece.end;
    if (joins_left && joins_right) {
      std::prev(at)->end = at->end;
      return std::prev(busy_.erase(at));
    }
    if (joins_left) {
      std::prev(at)->end = piece.end;
      return std::prev(at);
    }
    if (joins_right) {
      at->begin = piece.begin;
      return at;
    }
    return busy_.insert(at, piece);
  }

  std::vector<Piece> busy_;
};

/// Seconds from an engine's end of an instruction until its results are there.
double result_latency(Engine engine, Generation generation) {
  const double cycles = engine == Engine::vector                                     ? kVectorLatency
                        : engine == Engine::scalar && generation == Generation::trn1 ? kScalarLatencyOfTrn1
                                                                                     : kAccessLatency;
  const double rate = clock_rate(engine, generation);
  return rate > 0 ? cycles / rate : 0;
}

double seconds_on_engine(const Instruction& instruction, Generation generation) {
  const double rate = clock_rate(instruction.engine, generation);
  if (rate == 0) return 0;
  double cycles = busy_cycles(instruction, generation);
  if (std::holds_alternative<Matmul>(instruction.attributes))
    cycles += static_cast<double>(instruction.sources[0].free_size()) / kWeightColumnsPerCycle;
  return cycles / rate;
}

/// Rows that a DMA's work can be divided by.
int64_t divisible_rows(const Instruction& instruction) {
  if (is_on_chip(instruction.dst.buffer())) return instruction.dst.partitions();
  const Tensor& source = instruction.sources[0];
  if (is_on_chip(source.buffer())) return source.partitions();
  return source.numel() / source.size(source.ndim() - 1);
}

bool joins_cores(const Instruction& instruction) {
  return std::holds_alternative<CoreBarrier>(instruction.attributes) ||
         std::holds_alternative<SendRecv>(instruction.attributes);
}

/// One core's engines while the record is walked through.
class CoreClock {
 public:
  CoreClock(const CoreRecord& record, Generation generation) : record_(record), generation_(generation) {}

  /// Runs up to the next instruction that waits for the other core; false at the end.
  bool advance() {
    for (; next_ < record_.instructions.size(); ++next_) {
      if (joins_cores(current())) return true;
      run(memory_.ready(current()));
    }
    return false;
  }

  /// When this core is ready for the instruction that joins the cores.
  double arrival() {
    const double operands = memory_.ready(current());
    return current().engine == Engine::dma ? operands : std::max(operands, engine_free(current().engine));
  }
  /// Runs that instruction, the cores having met at `time`.
  void meet(double time) {
    if (current().engine == Engine::dma) {
      run_dma(time);
    } else {
      finish(arrival(), time, time);
    }
    ++next_;
  }

  CoreTimeline take() { return std::move(timeline_); }

 private:
  const Instruction& current() const { return record_.instructions[next_]; }
  double engine_free(Engine engine) const { return engine_free_[static_cast<size_t>(engine)]; }

  void run(double ready) {
    const Instruction& instruction = current();
    if (instruction.engine == Engine::dma) return run_dma(ready);
    const double begin = std::max(ready, engine_free(instruction.engine));
    const double end = begin + seconds_on_engine(instruction, generation_);
    finish(begin, end, end + result_latency(instruction.engine, generation_));
  }

  void finish(double begin, double end, double visible) {
    const Engine engine = current().engine;
    engine_free_[static_cast<size_t>(engine)] = end;
    timeline_.spans.push_back({static_cast<int64_t>(next_), engine, 0, begin, end});
    note(end, visible);
  }

  void run_dma(double ready) {
    const Instruction& instruction = current();
    const int64_t parts = std::clamp<int64_t>(divisible_rows(instruction), 1, kDmaQueues);
    const bool is_transpose = std::holds_alternative<DmaTranspose>(instruction.attributes);
    const double rate = dma_queue_rate(generation_) * (is_transpose ? 0.5 : 1);
    const double duration = static_cast<double>(dma_bytes(instruction)) / static_cast<double>(parts) / rate;
    double end = ready;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t queue = next_queue_;
      next_queue_ = (next_queue_ + 1) % kDmaQueues;
      end = std::max(end,
                     queues_[static_cast<size_t>(queue)].take(ready, duration, [&](double from, double to) {
                       timeline_.spans.push_back({static_cast<int64_t>(next_), Engine::dma, queue, from, to});
                     }));
    }
    note(end, end + kDmaLatency);
  }

  void note(double end, double visible) {
    memory_.note({current().engine, end, visible});
    timeline_.seconds = std::max(timeline_.seconds, visible);
  }

  const CoreRecord& record_;
  Generation generation_;
  size_t next_ = 0;
  MemoryTimes memory_;
  std::array<double, 7> engine_free_{};
  std::array<QueueTimes, kDmaQueues> queues_;
  int64_t next_queue_ = 0;
  CoreTimeline timeline_;
};

}  // namespace

Prediction predict(const KernelRun& run) {
  std::vector<CoreClock> clocks;
  for (const CoreRecord& record : run.cores) {
    if (record.instructions.empty() && record.num_instructions > 0)
      throw ValueError("a kernel's time is predicted from its record: run it with RunOptions::record");
    clocks.emplace_back(record, run.options.generation);
  }
  while (true) {
    int64_t waiting = 0;
    for (CoreClock& clock : clocks) waiting += clock.advance() ? 1 : 0;
    if (waiting == 0) break;
    check(waiting == 2, "the cores of a recorded run meet at the same instructions");
    const double time = std::max(clocks[0].arrival(), clocks[1].arrival());
    for (CoreClock& clock : clocks) clock.meet(time);
  }
  Prediction prediction;
  for (CoreClock& clock : clocks) {
    prediction.cores.push_back(clock.take());
    prediction.seconds = std::max(prediction.seconds, prediction.cores.back().seconds);
  }
  return prediction;
}

}  // namespace titan::nki
