#include "titan/train/kernel_check_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

using at::Tensor;

std::string padded_set(std::string text) {
  constexpr size_t kWidth = 25;
  if (text.size() < kWidth) text.resize(kWidth, ' ');
  return text;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value == 0 ? "0.0" : "%.3g", value);
  return text.data();
}

double largest_size(const Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
}

/// |x| + |rotate_half(x)| of each element: what the roundings of a rotation of x are parts of.
Tensor rotation_scale(const Tensor& x) {
  const Tensor size = x.to(at::kDouble).abs();
  return size + size.roll(size.size(-1) / 2, -1);
}

/// The element that is furthest beyond its bound.
std::string furthest_beyond(const Tensor& difference, const Tensor& bounds) {
  const Tensor off = difference.abs().flatten(), allowed = bounds.flatten();
  const int64_t worst = (off - allowed).argmax().item<int64_t>();
  return format("off by {} where {} is allowed", short_number(off[worst].item<double>()),
                short_number(allowed[worst].item<double>()));
}

std::string form_text(const Tensor& tensor) {
  return format("{} {}", tensor.sizes(), c10::toString(tensor.scalar_type()));
}

}  // namespace

CheckTable::CheckTable(std::string name, std::string heading, bool is_strict)
    : name_(std::move(name)), is_strict_(is_strict), lines_{std::move(heading)} {
  row("input set", "tensor", "max |difference|", "max |reference|", "allowed", "");
}

void CheckTable::compare(const std::string& set, at::ScalarType dtype, const CheckRun& reference,
                         const CheckRun& run) {
  if (!reference.error.empty()) return fail(set, format("what is replaced fails: {}", reference.error));
  for (const std::string& input : run.written)
    fail(set, format("{} is written: a module only reads its inputs and weights", input));
  if (!run.error.empty()) return fail(set, run.error);
  for (size_t i = 0; i < reference.values.size(); ++i)
    compare_values(set, dtype, reference.values[i], run.values.at(i));
}

void CheckTable::note(const std::string& set, const std::string& what) {
  lines_.push_back("  " + padded_set(set) + what);
}

void CheckTable::fail(const std::string& set, const std::string& what) {
  has_unwritten_ = has_unwritten_ || what.find(kReadsUnwritten) != what.npos;
  note(set, "FAILED: " + what);
  refuse(set, what);
}

void CheckTable::tell_unwritten() {
  if (!has_unwritten_) note("unwritten memory", "none is read");
}

KernelCheckReport CheckTable::report() && {
  const bool passed = first_failure_.empty();
  lines_.push_back(passed ? format("{}: passed", name_)
                          : format("{}: FAILED, first shown by {}", name_, first_failure_));
  return {std::move(lines_), passed};
}

void CheckTable::row(const std::string& set, const std::string& tensor, const std::string& difference,
                     const std::string& reference, const std::string& allowed, const std::string& verdict) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "  %-24s %-24s %16s %16s %12s  %s", set.c_str(), tensor.c_str(),
                difference.c_str(), reference.c_str(), allowed.c_str(), verdict.c_str());
  std::string line = text.data();
  line.erase(line.find_last_not_of(' ') + 1);
  lines_.push_back(std::move(line));
}

void CheckTable::refuse(const std::string& set, const std::string& what) {
  if (first_failure_.empty()) first_failure_ = format("{}: {}", set, what);
}

void CheckTable::compare_values(const std::string& set, at::ScalarType dtype, const CheckedValue& reference,
                                const CheckedValue& value) {
  if (!reference.tensor.defined()) return;
  if (!value.tensor.defined()) return fail(set, value.name + ": there is none");
  if (value.tensor.sizes() != reference.tensor.sizes() ||
      value.tensor.scalar_type() != reference.tensor.scalar_type()) {
    return fail(set, format("{} is {}, where {} is replaced", value.name, form_text(value.tensor),
                            form_text(reference.tensor)));
  }
  const Tensor a = value.tensor.to(at::kDouble), b = reference.tensor.to(at::kDouble);
  const int64_t unwritten = a.isnan().sum().item<int64_t>();
  const double difference = largest_size(a - b), scale = largest_size(b);
  const double part = dtype != at::kFloat ? kBfloat16Tolerance : is_strict_ ? 0 : kFloat32Tolerance;
  const double allowed = part * std::max(scale, kSmallestScale);
  has_unwritten_ = has_unwritten_ || unwritten > 0;
  const bool by_element = dtype != at::kFloat && reference.rotated.defined();
  const Tensor bounds = by_element ? rotation_scale(reference.rotated) * part : Tensor();
  const bool fits =
      by_element ? ((a - b).abs() <= bounds).all().item<bool>() : difference <= allowed;  // not for NaN
  const std::string wrong =
      unwritten > 0 ? format("{} of {} numbers are NaN or were never written", unwritten, a.numel())
      : by_element  ? furthest_beyond(a - b, bounds)
                    : "off by " + short_number(difference);
  row(set, value.name, short_number(difference), short_number(scale),
      by_element ? "by element" : short_number(allowed),
      fits                          ? "ok"
      : unwritten > 0 || by_element ? "FAILED: " + wrong
                                    : "FAILED");
  if (!fits) refuse(set, format("{}: {}", value.name, wrong));
}

}  // namespace titan
