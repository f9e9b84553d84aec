#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <stdexcept>

#include "tests/unit/ops/module_operators.h"
#include "tests/unit/ops/outcome.h"
#include "tests/unit/ops/small_kernels.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"
#include "titan/ops/nki_op.h"
#include "titan/ops/operator.h"

// What operators of a module do wrong, and what they are told.
namespace titan::testing {
namespace {

using at::Tensor;

// Code that throws.

enum class Throws : int64_t { number, out_of_range, torch_error, value_error };

void throw_one(int64_t kind) {
  if (kind == static_cast<int64_t>(Throws::number)) throw 42;
  if (kind == static_cast<int64_t>(Throws::out_of_range)) throw std::out_of_range("map::at");
  if (kind == static_cast<int64_t>(Throws::torch_error)) at::ones({2}).add(at::ones({3}));
  throw ValueError("the length is 3");
}

const auto throwing = nki_op("test_refusals::throwing", [](const Tensor& x, int64_t kind) {
  throw_one(kind);
  return x.clone();
});

int64_t backward_throws = 0, setup_throws = -1;
const auto backward_throwing =
    nki_op("test_refusals::backward_throwing", [](const Tensor& x) { return x.clone(); })
        .register_autograd(
            [](OpContext&, const Tensor& grad) {
              throw_one(backward_throws);
              return grad;
            },
            {.setup_context = [](OpContext&, OpValues, OpValues) {
              if (setup_throws >= 0) throw_one(setup_throws);
            }});

// Bodies that write.

/// Writes its argument and returns something else.
nki::Tensor clobbering(nki::Tensor x) {
  nki::Tensor copy = scaled(x, {.factor = 2});
  scale_into(x, x, {.factor = 0});
  return copy;
}
const auto wrapped_clobbering = wrap_nki(clobbering);
const auto clobber_by_kernel =
    nki_op("test_refusals::clobber_by_kernel", [](const Tensor& x) { return wrapped_clobbering[2](x); },
           {.arguments = {"query"}});
const auto clobber_by_view = nki_op("test_refusals::clobber_by_view",
                                    [](const Tensor& x, const std::vector<Tensor>& outs) {
                                      outs[1].view({-1, 4}).narrow(1, 0, 2).zero_();
                                      return x * 2;
                                    },
                                    {.arguments = {"x", "outs"}});
const auto double_into = nki_op("test_refusals::double_into",
                                [](const Tensor& x, Tensor out) { wrapped_into[1](x, out, {.factor = 2}); },
                                {.arguments = {"x", "out"}, .mutates_args = {"out"}});
const auto clobber_by_operator = nki_op("test_refusals::clobber_by_operator",
                                        [](const Tensor& x, Tensor out) {
                                          double_into(x, out);
                                          return x * 3;
                                        },
                                        {.arguments = {"x", "out"}});

// Bodies whose results are not the caller's own.

const auto same_twice =
    nki_op("test_refusals::same_twice", [](const Tensor& x) {
      const Tensor y = x * 2;
      return std::tuple(y, y);
    }).register_autograd([](OpContext&, const Tensor& a, const Tensor& b) { return a * 2 + b * 2; });
const auto two_views = nki_op("test_refusals::two_views", [](const Tensor& x) {
  const Tensor y = x * 2;
  return std::vector<Tensor>{y.narrow(1, 0, 2), y.narrow(1, 2, 2)};
});
nki::Tensor kernel_twice_of(const nki::Tensor& x) { return scaled(x, {.factor = 2}); }
std::pair<nki::Tensor, nki::Tensor> kernel_twice(nki::Tensor x) {
  const nki::Tensor y = kernel_twice_of(x);
  return {y, y};
}
const auto wrapped_twice = wrap_nki(kernel_twice);
const auto kernel_result_twice =
    nki_op("test_refusals::kernel_result_twice", [](const Tensor& x) { return wrapped_twice[1](x); });

Tensor buffer;
int64_t buffer_form = 0;  ///< 0: the buffer itself, 1: a view, 2: a copy
const auto buffered =
    nki_op("test_refusals::buffered", [](const Tensor& x) {
      if (!buffer.defined()) buffer = at::empty_like(x);
      buffer.copy_(x);
      return buffer_form == 0 ? buffer : buffer_form == 1 ? buffer.view({-1}) : buffer.clone();
    }).register_autograd([](OpContext&, const Tensor& grad) { return grad.clone(); });
const auto view_of_its_own = nki_op("test_refusals::view_of_its_own", [](const Tensor& x) {
                               return (x * 2).narrow(1, 0, 2);
                             }).register_autograd([](OpContext&, const Tensor& grad) {
  Tensor all = at::zeros({grad.size(0), 4}, grad.options());
  all.narrow(1, 0, 2).add_(grad, 2);
  return all;
});

const auto total = nki_op("test_refusals::total",
                          [](at::TensorList list, std::optional<Tensor> bias, int64_t) {
                            return list.empty() ? bias->clone() : list[0] * 2;
                          },
                          {.arguments = {"list", "bias", "count"}});
/// A backward that takes what it is given for its own.
const auto scratching = nki_op("test_refusals::scratching", [](const Tensor& x, int64_t) { return x * 1; })
                            .register_autograd(
                                [](OpContext& ctx, const Tensor& grad) {
                                  const Tensor result = grad * 1;
                                  const int64_t what = ctx.saved_data.at("what").toInt();
                                  if (what == 1) grad.mul_(2);
                                  if (what == 2) ctx.saved_tensors()[0].mul_(2);
                                  return std::tuple(result, Tensor());
                                },
                                [](OpContext& ctx, OpValues inputs, OpValues results) {
                                  ctx.save_for_backward(results[0]);
                                  ctx.saved_data["what"] = inputs[1];
                                });

const auto copied = nki_op("test_refusals::copied", [](const Tensor& x) { return x.clone(); });

}  // namespace

TEST_CASE("What a body throws names the operator, whatever it is") {
  load_operators();
  const auto error = [](Throws kind) {
    return error_of([&] { throwing(at::ones({2}), static_cast<int64_t>(kind)); });
  };
  CHECK(mentions(error(Throws::number), {"nki_op test_refusals::throwing failed", "no std::exception"}));
  CHECK(error(Throws::out_of_range) == "nki_op test_refusals::throwing failed: map::at");
  CHECK(mentions(error(Throws::torch_error), {"size of tensor a", "(in nki_op test_refusals::throwing)"}));
  CHECK(error(Throws::value_error) == "the length is 3");
  CHECK_THROWS_AS(throwing(at::ones({2}), 0), ValueError);
  CHECK_THROWS_AS(throwing(at::ones({2}), static_cast<int64_t>(Throws::torch_error)), c10::Error);
}

TEST_CASE("What a backward throws names the operator, also on the device's own thread") {
  load_operators();
  const auto error = [](Throws kind) {
    backward_throws = static_cast<int64_t>(kind);
    return error_of([] { backward(backward_throwing(leaf({2}, 1)).sum()); });
  };
  const std::string who = "the backward of test_refusals::backward_throwing";
  CHECK(mentions(error(Throws::number), {who + " failed", "no std::exception"}));
  CHECK(error(Throws::out_of_range) == who + " failed: map::at");
  CHECK(mentions(error(Throws::torch_error), {"size of tensor a", "(in " + who + ")"}));
  CHECK(error(Throws::value_error) == "the length is 3");
}

TEST_CASE("What a setup_context throws names the operator") {
  load_operators();
  setup_throws = static_cast<int64_t>(Throws::number);
  CHECK(mentions(error_of([] { backward_throwing(leaf({2}, 1)); }),
                 {"the setup_context of test_refusals::backward_throwing failed"}));
  setup_throws = -1;
}

TEST_CASE("A body that writes an argument which is not named is refused, by kernel, operator or view") {
  load_operators();
  const Tensor x = normal({8, 4}, 1), y = normal({8, 4}, 2);
  CHECK(mentions(error_of([&] { clobber_by_kernel(x); }),
                 {"test_refusals::clobber_by_kernel", "writes query", "mutates_args", ".clone()"}));
  CHECK(mentions(error_of([&] { clobber_by_view(x, {x.clone(), y}); }), {"writes outs"}));
  CHECK(mentions(error_of([&] { clobber_by_operator(x, y); }),
                 {"test_refusals::clobber_by_operator", "writes out"}));
  CHECK_THROWS_AS(clobber_by_kernel(x), ValueError);
}

TEST_CASE("On shapes alone a body that writes an argument is refused too") {
  load_operators();
  const Tensor x = at::zeros({8, 4}, at::TensorOptions().device(at::kMeta));
  CHECK(mentions(error_of([&] { clobber_by_kernel(x); }), {"writes query"}));
  CHECK(mentions(error_of([&] { clobber_by_operator(x, x.clone()); }), {"writes out"}));
}

TEST_CASE("An argument that is given twice may be written where it is named") {
  load_operators();
  const Tensor x = normal({8, 4}, 1), before = x.clone(), both = normal({16, 4}, 2);
  double_into(x, x);
  CHECK(x.equal(before * 2));
  double_into(both.narrow(0, 0, 8), both.narrow(0, 8, 8));
  CHECK(both.narrow(0, 8, 8).equal(both.narrow(0, 0, 8) * 2));
}

TEST_CASE("Results that share memory are refused") {
  load_operators();
  for (const bool records : {true, false}) {
    const Tensor x = normal({8, 4}, 1).requires_grad_(records);
    CHECK(mentions(error_of([&] { same_twice(x); }),
                   {"test_refusals::same_twice", "[8, 4]", "shares memory", ".clone()"}));
    CHECK(mentions(error_of([&] { two_views(x); }), {"test_refusals::two_views", "[8, 2]", "shares memory"}));
    CHECK(mentions(error_of([&] { kernel_result_twice(x); }), {"shares memory"}));
  }
}

TEST_CASE("A result that the body keeps is refused, before anybody has lost its gradient") {
  load_operators();
  for (const int64_t form : {0, 1}) {
    buffer.reset();
    buffer_form = form;
    CHECK(mentions(error_of([] { buffered(leaf({8, 4}, 1)); }),
                   {"test_refusals::buffered", "keeps a result", "static", ".clone()"}));
    CHECK(mentions(error_of([] { buffered(normal({8, 4}, 1)); }), {"keeps a result"}));
  }
  buffer_form = 2;
  const Tensor x = leaf({8, 4}, 2), y = leaf({8, 4}, 3);
  backward((buffered(x) + buffered(y)).sum());
  CHECK(x.grad().equal(at::ones({8, 4})));
  CHECK(y.grad().equal(at::ones({8, 4})));
  buffer.reset();
}

TEST_CASE("A view of what the body has made is a result like another") {
  load_operators();
  const Tensor x = leaf({8, 4}, 1);
  const Tensor y = view_of_its_own(x);
  CHECK_FALSE(y.is_view());
  CHECK(y.detach().equal(x.detach().narrow(1, 0, 2) * 2));
  Tensor z = y * 1;
  backward((view_of_its_own(x).mul_(3) + z).sum());
  CHECK(x.grad().narrow(1, 0, 2).equal(at::ones({8, 2}) * 8));
  CHECK(x.grad().narrow(1, 2, 2).equal(at::zeros({8, 2})));
}

TEST_CASE("A backward that writes what it is given is refused: others read it too") {
  load_operators();
  const auto error = [](int64_t what) {
    return error_of([&] { backward(scratching(leaf({3, 4}, 1), what), at::ones({3, 4})); });
  };
  CHECK(error(0) == "");
  CHECK(mentions(error(1), {"nki_op test_refusals::scratching", "its backward writes a gradient", "[3, 4]"}));
  CHECK(mentions(error(2), {"its backward writes a saved tensor"}));
}

TEST_CASE("A call without a tensor says which arguments give none") {
  load_operators();
  const std::string message = error_of([] { total({}, std::nullopt, 3); });
  CHECK(message ==
        "nki_op test_refusals::total is given no tensor, and so has no device to run on: list is an empty "
        "list, "
        "bias is missing");
  CHECK(mentions(error_of([] { total({Tensor()}, Tensor(), 3); }),
                 {"list is a list of undefined tensors, bias is an undefined tensor"}));
  CHECK(
      mentions(error_of([] { copied(Tensor()); }), {"test_refusals::copied", "arg0 is an undefined tensor"}));
  CHECK_THROWS_AS(copied(Tensor()), ValueError);
  CHECK(total({}, at::ones({2}), 3).equal(at::ones({2})));
}

TEST_CASE(
    "Words of torch's schema language name no operator and no argument, and the others are registered") {
  load_operators();
  const auto body = [](const Tensor& x) { return x.clone(); };
  const auto refusal = [] { return error_of([] { register_recorded_operators("my_module.cpp"); }); };
  for (const std::string word :
       {"in",  "as",     "is",   "with",  "not",  "or",   "and",   "if",     "for",   "def",
        "del", "global", "pass", "class", "None", "True", "False", "return", "while", "else"}) {
    INFO(word);
    nki_op("test_words::" + word, body);
    nki_op("test_words::f_" + word, body, {.arguments = {word}});
    nki_op("test_words::after_" + word, body);
    const std::string fact =
        "'" + word + "' is a word of torch's schema language: choose another name for the ";
    CHECK(refusal() == "my_module.cpp: nki_op test_words::" + word + ": " + fact +
                           "operator\nmy_module.cpp: nki_op test_words::f_" + word + ": " + fact +
                           "argument");
    CHECK(c10::Dispatcher::singleton().findSchema({"test_words::after_" + word, ""}));
  }
  for (const std::string word :
       {"self", "out", "Tensor", "int", "x", "input", "dtype", "generator", "lambda"}) {
    nki_op("test_words::" + word, body, {.arguments = {word}});
    CHECK(refusal() == "");
  }
  nki_op("in::copy", body);
  CHECK(refusal() == "");
  CHECK(find_operator<Tensor(const Tensor&)>("in::copy").call(at::ones({2})).equal(at::ones({2})));
}

}  // namespace titan::testing
