// Who shares memory with whom is the same on the device as on the CPU: each case runs on both, and everything
// that it saw is compared.
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// What a case saw on one device.
class Seen {
 public:
  explicit Seen(at::Device device) : device_(device) {}

  at::TensorOptions options(at::ScalarType dtype = at::kFloat) const {
    return at::TensorOptions(device_).dtype(dtype);
  }
  /// 0, 1, 2, ... in `sizes`.
  Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) const {
    return at::arange(c10::multiply_integers(sizes), options(dtype)).view(sizes);
  }

  void tensor(const Tensor& tensor) {
    tensors.push_back(tensor);
    facts.insert(facts.end(),
                 {tensor._version(), static_cast<int64_t>(tensor.storage().nbytes()), tensor.storage_offset(),
                  tensor.is_conj(), tensor.is_neg(), tensor.is_view(), tensor.requires_grad()});
  }
  /// Whether two tensors share a storage, and the same bytes.
  void share(const Tensor& a, const Tensor& b) {
    facts.push_back(a.is_alias_of(b));
    facts.push_back(a.storage().data() == b.storage().data());
    facts.push_back(a.const_data_ptr() == b.const_data_ptr());
  }
  void error(const std::function<void()>& work) {
    try {
      work();
      errors.emplace_back("none");
    } catch (const c10::Error& error) {
      std::string text = error.what_without_backtrace();
      constexpr std::string_view kThere = "neuronFloat";
      if (const size_t at = text.find(kThere); at != text.npos) text.replace(at, kThere.size(), "CPUFloat");
      errors.push_back(std::move(text));
    }
  }

  Tensors tensors;
  std::vector<int64_t> facts;
  std::vector<std::string> errors;

 private:
  at::Device device_;
};

void check_same_tensor(const Tensor& there, const Tensor& here) {
  REQUIRE(there.defined() == here.defined());
  if (!here.defined()) return;
  CHECK(there.is_privateuseone());
  REQUIRE((there.scalar_type() == here.scalar_type()));
  REQUIRE(there.sizes() == here.sizes());
  CHECK(there.strides() == here.strides());
  CHECK(at::allclose(there.cpu(), here, 0, 0, /*equal_nan=*/true));
}

using AliasCase = void (*)(Seen&);

void same_on_both(AliasCase run) {
  Seen there(neuron()), here(at::kCPU);
  run(there);
  run(here);
  CHECK(there.facts == here.facts);
  CHECK(there.errors == here.errors);
  REQUIRE(there.tensors.size() == here.tensors.size());
  for (size_t i = 0; i < here.tensors.size(); ++i) {
    CAPTURE(i);
    check_same_tensor(there.tensors[i], here.tensors[i]);
  }
}

}  // namespace

TEST_CASE(
    "an out variant writes its output where that lies: same size, other size, a view, an empty tensor") {
  same_on_both([](Seen& seen) {
    const Tensor a = seen.numbers({2, 3});
    Tensor same = at::zeros({2, 3}, seen.options());
    const Tensor alias = same.view({6});
    seen.share(at::add_out(same, a, a), alias);
    seen.tensor(same);
    seen.tensor(alias);
    // To a part of a larger tensor.
    const Tensor whole = at::zeros({4, 3}, seen.options());
    Tensor part = whole.narrow(0, 1, 2);
    seen.share(at::mul_out(part, a, a), whole);
    seen.tensor(whole);
    Tensor columns = whole.t().narrow(0, 0, 2).narrow(1, 0, 2);
    at::mm_out(columns, a, a.t());
    seen.tensor(whole);
    // An empty tensor and one that is too small get room; what shared the small one's memory sees it.
    Tensor empty = at::empty({0}, seen.options());
    at::mul_out(empty, a, a);
    seen.tensor(empty);
    Tensor small = at::zeros({0, 2}, seen.options());
    const Tensor beside = small.detach();
    at::cat_out(small, {a, a});
    seen.share(small, beside);
    seen.tensor(small);
    seen.tensor(beside);
  });
}

TEST_CASE("out variants of several results write each where it lies") {
  same_on_both([](Seen& seen) {
    const Tensor a = seen.numbers({3, 4}).sin();
    Tensor values = at::zeros({3, 2}, seen.options()), indices = at::empty({0}, seen.options(at::kLong));
    const Tensor values_alias = values.view({6});
    const auto topk = at::topk_out(values, indices, a, 2, 1);
    seen.share(std::get<0>(topk), values_alias);
    seen.share(std::get<1>(topk), indices);
    seen.tensor(values_alias);
    seen.tensor(indices);
    // Values into a part of a larger tensor.
    const Tensor whole = at::zeros({5, 4}, seen.options());
    Tensor sorted = whole.narrow(0, 1, 3), order = at::empty({0}, seen.options(at::kLong));
    at::sort_out(sorted, order, a, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    seen.tensor(whole);
    seen.tensor(order);
    Tensor largest = at::zeros({3}, seen.options()), where = at::zeros({3}, seen.options(at::kLong));
    const auto max = at::max_out(largest, where, a, 1);
    seen.share(std::get<0>(max), largest);
    seen.share(std::get<1>(max), where);
    seen.share(largest, where);
    seen.tensor(largest);
    seen.tensor(where);
  });
}

TEST_CASE("writing in place reaches every view, and is counted in each version") {
  same_on_both([](Seen& seen) {
    const Tensor base = seen.numbers({4, 4});
    const Tensor row = base[1], column = base.select(1, 2), corner = base.narrow(0, 2, 2).narrow(1, 2, 2);
    seen.share(row.add_(10), base);
    seen.share(column.mul_(2), base);
    corner.zero_();
    base.t().sub_(1);
    row.fill_(0.5);
    row.copy_(column);
    at::_foreach_mul_({row, corner}, 3);
    corner.index_put_({at::tensor({0}, seen.options(at::kLong))}, at::ones({2}, seen.options()));
    base.transpose(0, 1).sigmoid_();
    corner.masked_fill_(corner > 0, -1);
    for (const Tensor& tensor : {base, row, column, corner}) seen.tensor(tensor);
  });
}

TEST_CASE("results that are their input, or lie in it, share its storage") {
  same_on_both([](Seen& seen) {
    const Tensor a = seen.numbers({4, 6}), complex = at::view_as_complex(seen.numbers({3, 2}));
    const Tensors results = {a.contiguous(),
                             a.reshape({6, 4}),
                             a.reshape({-1}).t(),
                             a.detach(),
                             a.to(at::kFloat),
                             a.unfold(1, 3, 2),
                             a.expand({2, 4, 6}),
                             a.view(at::kInt),
                             a.diagonal(),
                             a.as_strided({2, 2}, {3, 1}, 2),
                             a.flatten(),
                             a.unbind(0)[2],
                             a.split(2, 1)[1],
                             a.squeeze(),
                             a.alias(),
                             a.view_as(a),
                             at::broadcast_tensors({a, at::zeros({2, 1, 1}, seen.options())})[0]};
    for (const Tensor& result : results) {
      seen.share(result, a);
      seen.tensor(result);
    }
    // These have memory of their own.
    for (const Tensor& result : {a.clone(), a.t().contiguous(), a.t().reshape({24}), a.to(at::kHalf)}) {
      seen.share(result, a);
      seen.tensor(result);
    }
    const Tensor pairs = at::view_as_real(complex);
    seen.share(pairs, complex);
    results[1].view({24}).narrow(0, 3, 4).add_(100);
    pairs.select(1, 1).neg_();
    seen.share(at::real(complex), complex);
    for (const Tensor& tensor : {a, results[5], results[6], results[9], complex, pairs}) seen.tensor(tensor);
  });
}

TEST_CASE("autograd refuses what it refuses on the CPU, and differentiates through writes to views") {
  same_on_both([](Seen& seen) {
    const Tensor leaf = seen.numbers({2, 3}).add(1).requires_grad_();
    seen.error([&] { leaf.add_(1); });
    seen.error([&] { leaf.view({6}).mul_(2); });
    const Tensor squares = leaf.exp();
    const Tensor loss = squares.sum();
    squares.mul_(2);
    seen.error([&] { backward(loss); });
    seen.error([&] { at::unbind(leaf.mul(1))[0].add_(1); });
    Tensor out = at::empty({2, 3}, seen.options());
    seen.error([&] { at::mul_out(out, leaf, leaf); });
    // A write to a view of a result, and one to its base.
    const Tensor product = leaf.mul(3);
    const Tensor row = product.narrow(0, 0, 1);
    row.mul_(leaf.narrow(0, 1, 1));
    product.add_(leaf);
    seen.tensor(row);
    backward(row.pow(2).sum() + product.sum());
    seen.tensor(leaf.grad());
    const Tensor detached = product.detach();
    seen.share(detached, product);
    detached.zero_();
    seen.tensor(product);
  });
}

TEST_CASE("a tensor that is resized through one alias is seen through the other") {
  same_on_both([](Seen& seen) {
    const Tensor a = seen.numbers({4});
    const Tensor alias = a.detach(), part = a.narrow(0, 1, 2);
    a.resize_({50});
    a.narrow(0, 4, 46).fill_(7);
    for (const Tensor& other : {alias, part}) seen.share(a, other);
    alias.mul_(10);
    part.add_(1);
    seen.tensor(a);
    seen.tensor(part);
    a.resize_({2});
    seen.share(a, alias);
    seen.tensor(a);
    seen.tensor(alias);
    const Tensor like = at::empty({0}, seen.options()).resize_as_(alias);
    seen.facts.push_back(like.numel());
    // A storage that set_ shares grows for all of its tensors too.
    const Tensor b = seen.numbers({3}), c = at::empty({0}, seen.options());
    c.set_(b.storage(), 1, {10}, {1});
    c.fill_(5);
    seen.share(b, c);
    seen.tensor(b);
    seen.tensor(c);
    seen.tensor(at::empty({3}, seen.options()).set_(b));
    seen.facts.push_back(at::empty({3}, seen.options()).set_().numel());
    seen.facts.push_back(static_cast<int64_t>(at::empty({3}, seen.options()).set_(c.storage()).numel()));
  });
}

TEST_CASE("conjugated and negated views stay lazy, share memory and count in results") {
  same_on_both([](Seen& seen) {
    const Tensor z = at::view_as_complex(seen.numbers({3, 2}).add(1));
    const Tensor conjugate = z.conj(), negative = at::imag(conjugate);
    seen.share(conjugate, z);
    seen.share(negative, z);
    for (const Tensor& tensor : {conjugate, negative}) seen.tensor(tensor);
    seen.tensor(conjugate * z);
    seen.tensor(negative + 1);
    seen.tensor(conjugate.resolve_conj());
    seen.tensor(negative.resolve_neg());
    seen.tensor(conjugate.clone());
    seen.tensor(at::view_as_real(conjugate.resolve_conj()));
    seen.tensor(conjugate.mul(at::ones({3, 1}, seen.options())).sum(0));
    conjugate.add_(1);
    negative.mul_(2);
    conjugate[0].fill_(c10::complex<double>(4, 5));
    negative.narrow(0, 1, 1).zero_();
    seen.tensor(z);
    seen.facts.push_back(negative[0].item<int64_t>());
    seen.tensor(at::zeros({3}, seen.options(at::kComplexFloat)).copy_(conjugate));
    seen.tensor(at::zeros({3}, seen.options()).copy_(negative));
  });
}

TEST_CASE("lazy views cross the link") {
  const Tensor z = at::view_as_complex(at::arange(6, at::kFloat).view({3, 2}));
  const Tensor there = z.to(neuron());
  CHECK(there.conj().cpu().equal(z.conj()));
  CHECK(at::imag(there.conj()).cpu().equal(at::imag(z.conj())));
  CHECK(z.conj().to(neuron()).cpu().equal(z.conj()));
  CHECK(at::imag(z.conj()).to(neuron()).cpu().equal(at::imag(z.conj())));
  CHECK(at::zeros({3}, there.options()).copy_(z.conj()).cpu().equal(z.conj()));
}

TEST_CASE(
    "numbers, tensors without dimensions and tensors without elements keep the rules of types and shapes") {
  same_on_both([](Seen& seen) {
    const Tensor whole = seen.numbers({2}, at::kInt), half = seen.numbers({2}, at::kBFloat16),
                 bytes = seen.numbers({2}, at::kByte), scalar = at::full({}, 2.5, seen.options(at::kDouble));
    seen.tensor(whole + 1.5);
    seen.tensor(whole * true);
    seen.tensor(half * 2.5);
    seen.tensor(half + scalar);
    seen.tensor(half + at::scalar_tensor(1.5, at::kDouble));
    seen.tensor(bytes - 3);
    seen.tensor(scalar + half[0]);
    seen.tensor(at::where(whole > 0, half, 2.0));
    seen.tensor(at::pow(2, whole));
    seen.tensor(scalar.sum(0));
    seen.tensor(scalar.expand({2}).clone());
    seen.tensor(scalar.clone().fill_(3));
    const Tensor none = at::zeros({0, 3}, seen.options());
    seen.tensor(none + 1);
    seen.tensor(none.sum(0));
    seen.tensor(none.mm(seen.numbers({3, 2})));
    seen.tensor(at::cat({none, seen.numbers({1, 3})}));
    seen.tensor(none.t().contiguous());
    seen.tensor(none.clone().zero_());
    seen.tensor(none.view({3, 0}));
    seen.tensor(none.to(at::kLong));
    seen.tensor(seen.numbers({3}).index({at::zeros({0}, seen.options(at::kLong))}));
    seen.error([&] { none.max(); });
    seen.error([&] { none.item(); });
    seen.error([&] { none.add_(at::zeros({2, 3}, seen.options())); });
  });
}

TEST_CASE("lists with gaps, optional tensors and channels_last go through as they are") {
  same_on_both([](Seen& seen) {
    const Tensor a = seen.numbers({2, 4, 3, 3}), at_ends = at::tensor({0, 2}, seen.options(at::kLong));
    c10::List<std::optional<Tensor>> gaps({std::nullopt, at_ends});
    seen.tensor(at::index(a, gaps));
    Tensor put = a.clone();
    seen.share(put.index_put_(gaps, at::ones({}, seen.options())), put);
    seen.tensor(put);
    const Tensor weight = seen.numbers({4});
    for (const bool given : {false, true}) {
      const auto optional = given ? std::optional(weight) : std::nullopt;
      const auto [normal, mean, deviation] = at::native_group_norm(a, optional, optional, 2, 4, 9, 2, 1e-5);
      for (const Tensor& tensor : {normal, mean, deviation}) seen.tensor(tensor);
      seen.tensor(at::batch_norm(a, optional, optional, {}, {}, true, 0.1, 1e-5, false));
    }
    const Tensor last = a.contiguous(at::MemoryFormat::ChannelsLast);
    seen.share(last, a);
    seen.tensor(last);
    seen.tensor(last + 1);
    seen.tensor(at::empty_like(last).fill_(2));
    seen.tensor(at::empty({2, 4, 3, 3}, seen.options(), at::MemoryFormat::ChannelsLast).zero_());
    seen.tensor(last.to(at::kHalf));
    seen.share(last.contiguous(at::MemoryFormat::ChannelsLast), last);
    seen.tensor(last.mean({2, 3}, true));
  });
}

TEST_CASE("a host tensor is not written by an operator of the device") {
  const Tensor there = at::ones({2}, at::TensorOptions(neuron())), here = at::zeros({2}),
               number = at::zeros({});
  CHECK_THROWS(here.add_(there));
  CHECK_THROWS(number.add_(there[0]));
  Tensor out = at::zeros({2});
  CHECK_THROWS(at::add_out(out, there, there));
  CHECK_THROWS(here.index_put_({at::zeros({1}, there.options().dtype(at::kLong))}, there[0]));
  CHECK(out.sum().item<float>() == 0);
}

}  // namespace titan
