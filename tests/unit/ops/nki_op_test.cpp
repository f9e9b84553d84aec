#include "titan/ops/nki_op.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <optional>
#include <sstream>
#include <thread>

#include "tests/unit/ops/module_operators.h"
#include "tests/unit/ops/outcome.h"
#include "tests/unit/ops/small_kernels.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"
#include "titan/ops/device.h"
#include "titan/ops/operator.h"

namespace titan::testing {
namespace {

using at::Tensor;

// x * y * factor with a gradient, as a module has it.

const auto product = nki_op("test_nki::product",
                            [](const Tensor& x, const Tensor& y, double factor) {
                              return wrapped[2](x.contiguous(), {.factor = factor, .by = y.contiguous()});
                            },
                            {.arguments = {"x", "y", "factor"}});

std::thread::id backward_thread;
std::vector<bool> needed;

void keep_factors(OpContext& ctx, OpValues inputs, OpValues) {
  ctx.save_for_backward(inputs[0], inputs[1]);
  ctx.saved_data["factor"] = inputs[2];
}

std::vector<Tensor> product_backward(OpContext& ctx, const Tensor& grad) {
  backward_thread = std::this_thread::get_id();
  needed = {ctx.needs_input_grad(0), ctx.needs_input_grad(1), ctx.needs_input_grad(2)};
  const auto& saved = ctx.saved_tensors();
  const double factor = ctx.saved_data.at("factor").toDouble();
  return {product(grad, saved[1], factor), product(grad, saved[0], factor), {}};
}

const auto product_autograd = product.register_autograd(product_backward, {.setup_context = keep_factors});

// Every type that a schema may have.

using Everything = std::tuple<Tensor, std::vector<Tensor>, Tensor>;
const auto everything =
    nki_op("test_nki::everything",
           [](const Tensor& x, std::optional<Tensor> bias, at::TensorList list, int64_t count, bool negate,
              const std::string& mode, std::optional<int64_t> limit) {
             Tensor sum = x + (bias ? *bias : at::zeros({1}, x.options()));
             for (const Tensor& tensor : list) sum += tensor;
             std::vector<Tensor> copies;
             for (int64_t i = 0; i < count; ++i) copies.push_back(negate ? -x : x.clone());
             const Tensor marks = at::zeros({limit.value_or(1)}, x.options().dtype(at::kLong));
             return Everything(mode == "twice" ? sum * 2 : sum, copies, marks);
           });

std::tuple<Tensor, Tensor, std::vector<Tensor>, Tensor, Tensor, Tensor, Tensor> everything_backward(
    OpContext&, const Tensor& grad_sum, const std::vector<Tensor>& grad_copies, const Tensor& grad_marks) {
  CHECK((grad_marks.scalar_type() == at::kLong));
  Tensor grad_x = grad_sum.clone();
  for (const Tensor& grad : grad_copies) grad_x += grad;
  return {grad_x, grad_sum.sum().reshape({1}), {grad_sum * 1, grad_sum * 1}, {}, {}, {}, {}};
}
const auto everything_autograd = everything.register_autograd(everything_backward);

const auto add_into = nki_op(
    "test_nki::add_into",
    [](Tensor sum, const Tensor& x, const Tensor& scratch) { wrapped_into[1](x, sum, {.by = scratch}); },
    {.arguments = {"sum", "x", "scratch"}, .mutates_args = {"sum"}});

const auto exponential =
    nki_op("test_nki::exponential", [](const Tensor& x) { return x.exp(); })
        .register_autograd(
            [](OpContext& ctx, const Tensor& grad) {
              return std::vector<Tensor>{grad * ctx.saved_tensors()[0]};
            },
            [](OpContext& ctx, OpValues, OpValues outputs) { ctx.save_for_backward(outputs[0]); });

const auto halves = nki_op("test_nki::halves", [](const Tensor& x) {
                      return std::pair(x.narrow(1, 0, 2).clone(), x.narrow(1, 2, 2).clone());
                    }).register_autograd([](OpContext&, const Tensor& left, const Tensor& right) {
  return at::cat({left, right}, 1);
});

const auto without_backward = nki_op("test_nki::without_backward", [](const Tensor& x) { return x * 2; });
const auto too_few =
    nki_op("test_nki::too_few", [](const Tensor& x, const Tensor& y) {
      return x * y;
    }).register_autograd([](OpContext&, const Tensor& grad) { return std::vector<Tensor>{grad}; });
const auto wrong_list = nki_op("test_nki::wrong_list", [](std::vector<Tensor> list) {
                          return list[0] + list[1];
                        }).register_autograd([](OpContext&, const Tensor& grad) {
  return std::tuple<std::vector<Tensor>>(std::vector<Tensor>{grad});
});
const auto identity = nki_op("test_nki::identity", [](const Tensor& x) { return x.view({-1}); });

/// What the host does when it has loaded a module.
std::string schema(const char* name) {
  std::ostringstream text;
  text << c10::Dispatcher::singleton().findSchemaOrThrow(name, "").schema();
  return text.str();
}

/// What registering complains about.
std::string load_error() {
  return error_of([] { register_recorded_operators("my_module.cpp"); });
}

}  // namespace

TEST_CASE("The schema follows from the function's type, its names from the options") {
  load_operators();
  CHECK(schema("test_nki::product") == "test_nki::product(Tensor x, Tensor y, float factor) -> Tensor");
  CHECK(schema("test_nki::everything") ==
        "test_nki::everything(Tensor arg0, Tensor? arg1, Tensor[] arg2, int arg3, bool arg4, str arg5, int? "
        "arg6) -> "
        "(Tensor, Tensor[], Tensor)");
  CHECK(schema("test_nki::add_into") == "test_nki::add_into(Tensor(a!) sum, Tensor x, Tensor scratch) -> ()");
}

TEST_CASE("An operator is called through torch's dispatcher, under its name") {
  load_operators();
  static std::vector<std::string> seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        seen.emplace_back(call.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const Tensor x = normal({16, 4}, 1), y = normal({16, 4}, 2);
  const Tensor given = product(x, y, 2);
  at::removeCallback(handle);
  CHECK(std::ranges::count(seen, "test_nki::product") >= 1);
  const auto op = find_operator<Tensor(const Tensor&, const Tensor&, double)>("test_nki::product");
  CHECK(op.call(x, y, 2).equal(given));
  CHECK(given.equal(x * 2 * y));
  CHECK((given.device() == x.device()));
}

TEST_CASE("Optional tensors, lists, numbers and texts arrive in the body") {
  load_operators();
  const Tensor x = normal({3, 4}, 1), bias = normal({1}, 2);
  const auto [sum, copies, marks] = everything(x, bias, {x, x}, 2, true, "twice", 5);
  CHECK(sum.allclose((x * 3 + bias) * 2));
  REQUIRE(copies.size() == 2);
  CHECK(copies[1].equal(-x));
  CHECK(marks.numel() == 5);
  const auto [plain, none, one] = everything(x, std::nullopt, {}, 0, false, "", std::nullopt);
  CHECK(plain.equal(x));
  CHECK(none.empty());
  CHECK(one.numel() == 1);
}

TEST_CASE("Gradients are those of the same maths") {
  load_operators();
  const Function fused = [](const auto& in) { return product(in[0], in[1], 3); };
  const Function parts = [](const auto& in) { return in[0] * in[1] * 3; };
  check_against(fused, parts, {normal({128, 6}, 1), normal({128, 6}, 2)}, kFloatBound);
  check_against([](const auto& in) { return exponential(in[0]); }, [](const auto& in) { return in[0].exp(); },
                {normal({8, 4}, 3)}, kFloatBound);
}

TEST_CASE("A backward gets lists, zeros where no gradient arrived, and gives lists") {
  load_operators();
  const Tensor x = leaf({3, 4}, 1), bias = leaf({1}, 2), a = leaf({3, 4}, 3), b = leaf({3, 4}, 4);
  const auto [sum, copies, marks] = everything(x, bias, {a, b}, 2, false, "", std::nullopt);
  CHECK(copies[0].requires_grad());
  CHECK_FALSE(marks.requires_grad());
  backward((sum * 2 + copies[1] * 5).sum());
  CHECK(x.grad().equal(at::ones({3, 4}) * 7));
  CHECK(bias.grad().item<float>() == 24);
  CHECK(a.grad().equal(at::ones({3, 4}) * 2));
  CHECK(b.grad().equal(a.grad()));

  const Tensor z = leaf({2, 4}, 5);
  backward(halves(z).second.sum());
  CHECK(z.grad().equal(at::cat({at::zeros({2, 2}), at::ones({2, 2})}, 1)));
}

TEST_CASE("A backward is told which gradients are wanted, and runs on the device's thread") {
  load_operators();
  const Tensor x = leaf({8, 4}, 1), y = normal({8, 4}, 2);
  backward(product(x, y, 2).sum());
  CHECK(needed == std::vector<bool>{true, false, false});
  CHECK(x.grad().equal(y * 2));
  CHECK_FALSE(y.grad().defined());
  CHECK((backward_thread != std::this_thread::get_id()) == tests::test_device().is_privateuseone());
}

TEST_CASE("Nothing is recorded where no gradient is wanted") {
  load_operators();
  CHECK_FALSE(product(normal({8, 4}, 1), normal({8, 4}, 2), 2).requires_grad());
  const NoGrad guard;
  CHECK_FALSE(product(leaf({8, 4}, 1), leaf({8, 4}, 2), 2).requires_grad());
}

TEST_CASE("An argument that is written has a new version, and new numbers") {
  load_operators();
  const Tensor sum = at::zeros({8, 4}), x = normal({8, 4}, 1), by = normal({8, 4}, 2);
  const auto before = sum._version(), before_x = x._version();
  add_into(sum, x, by);
  CHECK(sum.equal(x * by));
  CHECK(sum._version() > before);
  CHECK(x._version() == before_x);
  const NoGrad guard;
  const auto between = sum._version();
  add_into(sum, by, by);
  CHECK(sum._version() > between);
}

TEST_CASE("Writing what a backward needs is an error, and so is writing what requires a gradient") {
  load_operators();
  const Tensor x = leaf({8, 4}, 1), saved = x * 1;
  const Tensor y = product(saved, normal({8, 4}, 2), 2);
  {
    const NoGrad guard;
    add_into(saved, normal({8, 4}, 3), normal({8, 4}, 4));
  }
  CHECK(mentions(error_of([&] { backward(y.sum()); }), {"modified by an inplace operation"}));
  const Tensor plain = normal({8, 4}, 5);
  CHECK(mentions(error_of([&] { add_into(leaf({8, 4}, 6), plain, plain); }),
                 {"test_nki::add_into", "requires a gradient", "NoGrad"}));
}

TEST_CASE("On Meta the body is the shape function") {
  load_operators();
  const auto meta = at::TensorOptions().device(at::kMeta);
  const Tensor x = at::empty({128, 6}, meta).requires_grad_(), y = at::empty({128, 6}, meta);
  const Tensor result = product(x, y, 2);
  CHECK(result.is_meta());
  CHECK((result.sizes() == x.sizes()));
  CHECK(result.requires_grad());
  CHECK_THROWS_AS(product(at::empty({129, 6}, meta), at::empty({129, 6}, meta), 2), ValueError);
}

TEST_CASE("On neuron a new shape of an operator is a compilation under its name") {
  load_operators();
  if (!tests::test_device().is_privateuseone()) return;
  const Tensor x = normal({8, 28}, 1);
  const double before = device_count("total_compilations");
  product(x, x, 2);
  const double once = device_count("total_compilations");
  product(x, x, 2);
  CHECK(once == before + 1);
  CHECK(device_count("total_compilations") == once);
}

TEST_CASE("A missing backward and a wrong number of gradients name the operator") {
  load_operators();
  const Tensor x = leaf({2, 4}, 1), y = leaf({2, 4}, 2);
  CHECK(mentions(error_of([&] { backward(without_backward(x).sum()); }),
                 {"test_nki::without_backward", "no backward", ".register_autograd"}));
  CHECK(mentions(error_of([&] { backward(too_few(x, y).sum()); }),
                 {"test_nki::too_few", "1 gradients", "2 arguments"}));
  CHECK(mentions(error_of([&] { backward(wrong_list({x, y}).sum()); }),
                 {"test_nki::wrong_list", "1 gradient(s)", "argument 0", "2 tensor(s)"}));
  CHECK_THROWS_AS(backward(too_few(x, y).sum()), ValueError);
}

TEST_CASE("A second derivative is refused by name") {
  load_operators();
  const Tensor x = leaf({8, 4}, 1);
  const Tensor sum = product(x, x, 2).sum();
  CHECK(mentions(error_of([&] { sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true); }),
                 {"test_nki::product", "no second derivative"}));
}

TEST_CASE("A result that is an argument is refused") {
  load_operators();
  CHECK(mentions(error_of([] { identity(normal({2, 2}, 1)); }),
                 {"test_nki::identity", "one of its arguments", ".clone()", "mutates_args"}));
}

TEST_CASE("Names that are wrong or taken are reported with their module, all at once") {
  load_operators();
  const auto body = [](const Tensor& x) { return x.clone(); };
  for (const char* name : {"rope", "ns:rope", "::rope", "ns::", "ns::ro-pe", "ns::a::b", "ns::2"}) {
    nki_op(name, body);
    CHECK(mentions(load_error(), {"my_module.cpp: ", name, "ns::name"}));
  }
  for (const char* name : {"aten::rope", "prim::rope", "titan::other_rope"}) {
    nki_op(name, body);
    CHECK(mentions(load_error(), {"my_module.cpp: ", name, "own"}));
  }
  nki_op("test_nki::product", body);
  nki_op("test_nki::fresh", body);
  nki_op("test_nki::fresh", body);
  const std::string message = load_error();
  CHECK(mentions(message, {"my_module.cpp: nki_op test_nki::product: ", "registered by the tests",
                           "nki_op test_nki::fresh: ", "registered by my_module.cpp"}));
  CHECK(c10::Dispatcher::singleton().findSchema({"test_nki::fresh", ""}));
  CHECK_NOTHROW(register_recorded_operators("my_module.cpp"));
}

TEST_CASE("Options that do not fit the function are reported") {
  load_operators();
  const auto body = [](const Tensor& x, int64_t n) { return x * n; };
  const auto write = [](const Tensor& x) { x.zero_(); };
  const auto refuses = [](const std::vector<std::string>& parts) { CHECK(mentions(load_error(), parts)); };
  nki_op("test_nki::a", body, {.arguments = {"x"}});
  refuses({"test_nki::a", "1 argument name(s) for a function of 2"});
  nki_op("test_nki::a", body, {.arguments = {"x", "x"}});
  refuses({"two arguments are called x"});
  nki_op("test_nki::a", body, {.arguments = {"x", "the n"}});
  refuses({"'the n' is no name"});
  nki_op("test_nki::a", body, {.arguments = {"query", "n"}, .mutates_args = {"qury"}});
  refuses({"mutates_args names qury", "did you mean query?"});
  nki_op("test_nki::a", body, {.arguments = {"x", "n"}, .mutates_args = {"n"}});
  refuses({"mutates_args names n", "no tensor but int"});
  nki_op("test_nki::a", [](int64_t n) { return at::zeros({n}); });
  refuses({"takes no tensor"});
  const auto gradient = [](OpContext&) { return Tensor(); };
  nki_op("test_nki::a", write, {.arguments = {"x"}, .mutates_args = {"x"}}).register_autograd(gradient);
  refuses({"writes its arguments", "cannot have a backward"});
  nki_op("test_nki::a", write).register_autograd(gradient).register_autograd(gradient);
  refuses({"has 2 backwards"});
}

TEST_CASE("Recording throws nothing, and an operator is not there before its module is loaded") {
  load_operators();
  const auto early = nki_op("test_nki::early", [](const Tensor& x) { return x.clone(); });
  CHECK(mentions(error_of([&] { early(at::ones({1})); }), {"test_nki::early", "before it is registered"}));
  register_recorded_operators("my_module.cpp");
  CHECK(early(at::ones({1})).numel() == 1);
}

}  // namespace titan::testing
