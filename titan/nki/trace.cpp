#include <map>

#include "titan/base/json.h"
#include "titan/base/strings.h"
#include "titan/nki/cost.h"
#include "titan/nki/cost_constants.h"

namespace titan::nki {
namespace {

constexpr int64_t kFirstQueueThread = 16;  // engines take the threads below

int64_t thread_of(const Span& span) {
  return span.engine == Engine::dma ? kFirstQueueThread + span.queue : static_cast<int64_t>(span.engine);
}

/// One event a line, as the array of a trace.
class TraceEvents {
 public:
  void add(const Json& event) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += event.dump();
  }
  void add_name(std::string_view kind, int64_t process, int64_t thread, std::string name) {
    Json event = Json::object();
    event.set("name", kind);
    event.set("ph", "M");
    event.set("pid", process);
    event.set("tid", thread);
    event.set("args", Json::object()).set("name", std::move(name));
    add(event);
  }
  std::string take() {
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + std::move(text_) + "\n]}\n";
  }

 private:
  std::string text_;
};

Json arguments_of(const Instruction& instruction, Generation generation) {
  Json arguments = Json::object();
  arguments.set("instruction", instruction.describe());
  arguments.set("line", format("{}:{}", instruction.where.file_name(), int64_t{instruction.where.line()}));
  arguments.set("cycles", busy_cycles(instruction, generation));
  arguments.set("bytes", dma_bytes(instruction));
  return arguments;
}

/// Names of the core and of the threads that it uses.
void add_names(TraceEvents& events, int64_t core, const std::vector<Span>& spans) {
  events.add_name("process_name", core, 0, format("NeuronCore {}", core));
  std::map<int64_t, std::string> threads;
  for (const Span& span : spans) {
    std::string& name = threads[thread_of(span)];
    if (!name.empty()) continue;
    name = span.engine == Engine::dma ? format("dma queue {}", span.queue)
                                      : std::string(engine_name(span.engine));
  }
  for (const auto& [thread, name] : threads) events.add_name("thread_name", core, thread, name);
}

}  // namespace

std::string chrome_trace(const KernelRun& run, const Prediction& prediction) {
  TraceEvents events;
  for (size_t core = 0; core < run.cores.size(); ++core) {
    const std::vector<Instruction>& instructions = run.cores[core].instructions;
    add_names(events, static_cast<int64_t>(core), prediction.cores[core].spans);
    int64_t last = -1;
    Json arguments;  // of instruction `last`: a DMA has a span on each of its queues
    for (const Span& span : prediction.cores[core].spans) {
      const Instruction& instruction = instructions[static_cast<size_t>(span.instruction)];
      if (span.instruction != last) arguments = arguments_of(instruction, run.options.generation);
      last = span.instruction;
      Json event = Json::object();
      event.set("name", instruction.name());
      event.set("cat", engine_name(span.engine));
      event.set("ph", "X");
      event.set("ts", span.begin * 1e6);
      event.set("dur", (span.end - span.begin) * 1e6);
      event.set("pid", static_cast<int64_t>(core));
      event.set("tid", thread_of(span));
      event.set("args", arguments);
      events.add(event);
    }
  }
  return events.take();
}

}  // namespace titan::nki
