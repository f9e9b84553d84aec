#include "titan/checkpoint/safetensors_dtype.h"

#include <algorithm>
#include <span>

namespace titan {
namespace {

struct DtypeRow {
  SafetensorsDtype dtype;
  std::string_view name;
  int64_t bits;
};

std::span<const DtypeRow> dtype_rows() {
  using enum SafetensorsDtype;
  static constexpr DtypeRow kRows[] = {
      {f64, "F64", 64},
      {f32, "F32", 32},
      {f16, "F16", 16},
      {bf16, "BF16", 16},
      {f8_e4m3, "F8_E4M3", 8},
      {f8_e5m2, "F8_E5M2", 8},
      {f8_e8m0, "F8_E8M0", 8},
      {f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
      {f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
      {f6_e2m3, "F6_E2M3", 6},
      {f6_e3m2, "F6_E3M2", 6},
      {f4, "F4", 4},
      {c64, "C64", 64},
      {i64, "I64", 64},
      {i32, "I32", 32},
      {i16, "I16", 16},
      {i8, "I8", 8},
      {u64, "U64", 64},
      {u32, "U32", 32},
      {u16, "U16", 16},
      {u8, "U8", 8},
      {boolean, "BOOL", 8},
  };
  return kRows;
}

const DtypeRow& dtype_row(SafetensorsDtype dtype) {
  return *std::ranges::find(dtype_rows(), dtype, &DtypeRow::dtype);
}

}  // namespace

std::string_view dtype_name(SafetensorsDtype dtype) { return dtype_row(dtype).name; }

std::optional<SafetensorsDtype> find_dtype(std::string_view name) {
  const auto found = std::ranges::find(dtype_rows(), name, &DtypeRow::name);
  if (found == dtype_rows().end()) return {};
  return found->dtype;
}

int64_t dtype_bits(SafetensorsDtype dtype) { return dtype_row(dtype).bits; }

bool is_plain_float(SafetensorsDtype dtype) {
  using enum SafetensorsDtype;
  return dtype == f64 || dtype == f32 || dtype == f16 || dtype == bf16;
}

bool is_float8(SafetensorsDtype dtype) {
  return dtype == SafetensorsDtype::f8_e4m3 || dtype == SafetensorsDtype::f8_e5m2;
}

}  // namespace titan
