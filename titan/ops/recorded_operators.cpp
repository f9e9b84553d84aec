#include "titan/ops/recorded_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/nki_op_kernels.h"
#include "titan/ops/op_values.h"

namespace titan {

struct RegisteredOperator {
  c10::OperatorHandle handle;
};

namespace {

/// Namespaces of torch's operators and of titan's own.
constexpr std::string_view kTakenNamespaces[] = {"aten",        "prim",     "prims",    "_",      "torch",
                                                 "torchvision", "c10d",     "profiler", "mkldnn", "quantized",
                                                 "_quantized",  "inductor", "titan",    "neuron"};

struct Recorded {
  std::mutex mutex;
  std::vector<std::shared_ptr<OperatorRecord>> operators;  ///< that wait for register_recorded_operators()
  std::vector<std::string> problems;
  std::map<std::string, std::string> modules;  ///< of the operators that are registered, by name
};

/// Made on first use, since modules and other files' initialisers record, and never destroyed, since modules
/// are not either.
Recorded& recorded() {
  static auto& all = *new Recorded;
  return all;
}

bool is_identifier(std::string_view text) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, is_word);
}

/// Whether torch reads a schema with these names: its language has words of its own, such as in and None.
bool reads_schema(std::string_view name, std::string_view argument) {
  try {
    torch::jit::parseSchema(format("{}(Tensor {}) -> Tensor", name, argument));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

constexpr std::string_view kSchemaWord =
    "'{}' is a word of torch's schema language: choose another name for {}";

bool is_tensor_type(std::string_view type) { return type.starts_with("Tensor"); }

/// The names of the arguments, given or made.
std::vector<std::string> argument_names(const OperatorRecord& record) {
  std::vector<std::string> names = record.arguments;
  for (size_t i = names.size(); i < record.argument_types.size() && record.arguments.empty(); ++i) {
    names.push_back(format("arg{}", i));
  }
  return names;
}

/// "rope(Tensor query, Tensor(a!) out, int[] sizes) -> (Tensor, Tensor)", without its namespace.
std::string schema_of(const OperatorRecord& record) {
  const auto names = argument_names(record);
  std::vector<std::string> arguments;
  char alias = 'a';
  for (size_t i = 0; i < names.size(); ++i) {
    std::string type = record.argument_types[i];
    if (std::ranges::count(record.mutates_args, names[i]) > 0) {
      type.insert(std::string_view("Tensor").size(), format("({}!)", alias++));
    }
    arguments.push_back(format("{} {}", type, names[i]));
  }
  const std::string results = join(record.result_types, ", ");
  return format("{}({}) -> {}", record.name.substr(record.name.find("::") + 2), join(arguments, ", "),
                record.result_types.size() == 1 ? results : "(" + results + ")");
}

/// Why the operator cannot have its name; "" when it can.
std::string problem_of_name(const std::string& name) {
  const size_t colons = name.find("::");
  if (colons == name.npos || !is_identifier(name.substr(0, colons)) ||
      !is_identifier(name.substr(colons + 2))) {
    return "its name is not of the form ns::name, two words of letters, digits and _";
  }
  const std::string name_space = name.substr(0, colons), own_name = name.substr(colons + 2);
  if (!reads_schema(own_name, "x")) return format(kSchemaWord, own_name, "the operator");
  if (std::ranges::find(kTakenNamespaces, name_space) != std::end(kTakenNamespaces)) {
    return format("the namespace {} is torch's or titan's own: choose another", name_space);
  }
  if (!c10::Dispatcher::singleton().findSchema({name, ""})) return "";
  const auto& modules = recorded().modules;
  const auto found = modules.find(name);
  return format("an operator of that name is there already{}",
                found == modules.end() ? "" : ", registered by " + found->second);
}

/// Why its arguments are wrong; "" when they are not.
std::string problem_of_arguments(const OperatorRecord& record) {
  const auto names = argument_names(record);
  if (names.size() != record.argument_types.size()) {
    return format("{} argument name(s) for a function of {}", names.size(), record.argument_types.size());
  }
  if (std::ranges::none_of(record.argument_types, is_tensor_type)) {
    return "it takes no tensor, and so has no device to run on";
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!is_identifier(names[i])) return format("'{}' is no name for an argument", names[i]);
    if (!reads_schema("f", names[i])) return format(kSchemaWord, names[i], "the argument");
    if (std::ranges::count(names, names[i]) > 1) return format("two arguments are called {}", names[i]);
  }
  for (const std::string& written : record.mutates_args) {
    const auto found = std::ranges::find(names, written);
    if (found == names.end()) {
      return format("mutates_args names {}, which is no argument{}", written, did_you_mean(written, names));
    }
    const std::string& type = record.argument_types[static_cast<size_t>(found - names.begin())];
    if (!is_tensor_type(type))
      return format("mutates_args names {}, which is no tensor but {}", written, type);
  }
  return "";
}

std::string problem_of(const OperatorRecord& record) {
  if (auto problem = problem_of_name(record.name); !problem.empty()) return problem;
  if (auto problem = problem_of_arguments(record); !problem.empty()) return problem;
  if (record.num_backwards > 1) return format("it has {} backwards", record.num_backwards);
  if (record.num_backwards == 1 && !record.mutates_args.empty()) {
    return "it writes its arguments, and so cannot have a backward: return new tensors instead";
  }
  return "";
}

template <class Kernel>
torch::CppFunction boxed(c10::DispatchKey key, std::unique_ptr<Kernel> kernel) {
  return torch::dispatch(key, torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
}

void register_operator(const std::shared_ptr<OperatorRecord>& record, std::string_view module) {
  const size_t colons = record->name.find("::");
  const std::string name_space = record->name.substr(0, colons), name = record->name.substr(colons + 2);
  // Never destroyed: that would take the operators away.
  auto& library = *new torch::Library(torch::Library::FRAGMENT, name_space, std::nullopt, __FILE__, __LINE__);
  library.def(schema_of(*record).c_str());
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::Meta}) {
    library.impl(name.c_str(), boxed(key, std::make_unique<OpBodyKernel>(record)));
  }
  if (!record->mutates_args.empty()) {
    library.impl(name.c_str(),
                 boxed(c10::DispatchKey::ADInplaceOrView, std::make_unique<OpMutationKernel>()));
  }
  library.impl(name.c_str(), boxed(c10::DispatchKey::Autograd, std::make_unique<OpAutogradKernel>(record)));
  record->module = module;
  record->registered = std::make_shared<const RegisteredOperator>(
      RegisteredOperator{c10::Dispatcher::singleton().findSchemaOrThrow(record->name.c_str(), "")});
  recorded().modules[record->name] = module;
}

/// Why an argument of a tensor type gives no tensor.
std::string_view missing_tensor(const c10::IValue& argument) {
  if (argument.isNone()) return "missing";
  if (!argument.isTensorList()) return "an undefined tensor";
  return argument.toTensorList().empty() ? "an empty list" : "a list of undefined tensors";
}

/// Torch finds the device by the tensors. ValueError that says of each argument why it gives none.
void check_gives_tensor(const OperatorRecord& record, OpValues arguments) {
  if (std::ranges::any_of(tensors_of(arguments), [](const at::Tensor& t) { return t.defined(); })) return;
  const auto names = argument_names(record);
  std::vector<std::string> facts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_tensor_type(record.argument_types[i]))
      facts.push_back(format("{} is {}", names[i], missing_tensor(arguments[i])));
  }
  throw ValueError("nki_op {} is given no tensor, and so has no device to run on: {}", record.name,
                   join(facts, ", "));
}

}  // namespace

void OpContext::save(const std::vector<c10::IValue>& tensors) {
  saved_.clear();
  for (const c10::IValue& value : tensors) {
    if (!value.isNone() && !value.isTensor()) {
      throw ValueError("save_for_backward keeps tensors, not {}: put other values into saved_data",
                       value.tagKind());
    }
    saved_.push_back(value.isNone() ? at::Tensor() : value.toTensor());
  }
}

std::shared_ptr<OperatorRecord> record_operator(OperatorRecord record) {
  auto kept = std::make_shared<OperatorRecord>(std::move(record));
  const std::lock_guard lock(recorded().mutex);
  recorded().operators.push_back(kept);
  return kept;
}

void record_load_problem(std::string problem) {
  const std::lock_guard lock(recorded().mutex);
  recorded().problems.push_back(std::move(problem));
}

std::vector<c10::IValue> call_operator(const OperatorRecord& record, std::vector<c10::IValue> arguments) {
  if (!record.registered) {
    throw ValueError(
        "nki_op {} is called before it is registered, which happens once its module is loaded: call it "
        "in functions, not in the initialisation of variables at namespace scope",
        record.name);
  }
  check_gives_tensor(record, arguments);
  record.registered->handle.callBoxed(&arguments);
  return arguments;
}

void register_recorded_operators(std::string_view module) {
  Recorded& all = recorded();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> problems;
  for (std::string& problem : std::exchange(all.problems, {})) problems.push_back(std::move(problem));
  for (const auto& record : std::exchange(all.operators, {})) {
    const std::string problem = problem_of(*record);
    if (problem.empty()) {
      register_operator(record, module);
    } else {
      problems.push_back(format("nki_op {}: {}", record->name, problem));
    }
  }
  if (!problems.empty()) throw ConfigError("{}: {}", module, join(problems, format("\n{}: ", module)));
}

}  // namespace titan

/// What titan/config calls, without torch, when it has loaded a module.
extern "C" void titan_register_recorded_operators(const char* module) {
  titan::register_recorded_operators(module);
}
