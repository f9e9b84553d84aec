#include <span>
#include <string>
#include <string_view>

#include "titan/base/strings.h"
#include "titan/neuron/rt/cost.h"
#include "titan/neuron/rt/cost_classes.h"

namespace titan::neuron {

namespace {

struct TableDtype {
  DeviceDtype dtype;
  std::string_view name;
};
constexpr TableDtype kProductDtypes[] = {{DeviceDtype::bfloat16, "bfloat16, float16"},
                                         {DeviceDtype::float8, "float8"},
                                         {DeviceDtype::float32, "float32, others"}};
constexpr TableDtype kVectorDtypes[] = {{DeviceDtype::bfloat16, "of 16 bits"},
                                        {DeviceDtype::float32, "others"}};
constexpr TableDtype kAnyDtype[] = {{DeviceDtype::float32, "all"}};

struct TableClass {
  OperatorClass operator_class;
  std::string_view name;
  std::span<const TableDtype> dtypes;
  std::string_view scalar_unit;  // of what ScalarE works on; empty: it does nothing
};

std::span<const TableClass> table_classes() {
  using enum OperatorClass;
  static constexpr TableClass kClasses[] = {
      {matmul, "matmul", kProductDtypes, ""},
      {attention, "attention", kProductDtypes, "scores"},
      {loss, "loss", kProductDtypes, "logits"},
      {elementwise, "elementwise", kVectorDtypes, ""},
      {transcendental, "transcendental", kAnyDtype, "elements"},
      {normalisation, "normalisation", kVectorDtypes, "rows"},
      {reduction, "reduction", kVectorDtypes, ""},
      {gather, "gather", kAnyDtype, ""},
      {copy, "copy", kAnyDtype, ""},
      {optimizer, "optimizer", kVectorDtypes, "elements"},
  };
  return kClasses;
}

/// A rate per second as a number of `unit` times 10^12 or 10^9.
std::string shown_rate(double rate, double scale, std::string_view unit) {
  return format("{} {}/s", fixed(rate / scale, 1), unit);
}

std::string table_row(const TableClass& row, const TableDtype& dtype, const Rates& rates) {
  const ClassPasses passes = passes_of(row.operator_class);
  const bool products = row.dtypes.data() == kProductDtypes;
  const std::string tensor = products ? shown_rate(rates.matmul_flops(dtype.dtype), 1e12, "TFLOP") : "-";
  const std::string vector =
      passes.vector > 0 ? shown_rate(rates.vector_elements(dtype.dtype) / passes.vector, 1e9, "G elements")
                        : "-";
  const std::string scalar = row.scalar_unit.empty()
                                 ? "-"
                                 : shown_rate(rates.scalar_elements(), 1e9, format("G {}", row.scalar_unit));
  return format("| {} | {} | {} | {} | {} | {} |\n", row.name, dtype.name, tensor, vector, scalar,
                shown_rate(rates.hbm_bytes(), 1e9, "GB"));
}

}  // namespace

std::string cost_table(int64_t lnc) {
  const Rates rates(lnc);
  std::string table =
      "| operator class | dtype | TensorE | VectorE | ScalarE | HBM |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const TableClass& row : table_classes()) {
    for (const TableDtype& dtype : row.dtypes) table += table_row(row, dtype, rates);
  }
  return table;
}

}  // namespace titan::neuron
