#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace titan {

/// A JSON value. Objects keep the order of insertion; a repeated key of a parsed text is an error.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  /// Throws ValueError that names `what` and the byte at fault.
  static Json parse(std::string_view text, std::string_view what);
  /// Reads and parses a file; errors name it.
  static Json parse_file(const std::filesystem::path& path);
  /// `indent` < 0 gives one line. Numbers read back as they were.
  std::string dump(int indent = -1) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// "null", "a boolean", "an integer", "a number", "a string", "a list" or "an object".
  std::string_view kind() const;

  /// Each throws ValueError that says which kind was expected and found. as_double takes integers too.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const Array& elements() const;
  const Object& items() const;

  /// The member `key` of an object, or nullptr (also where this is no object).
  const Json* find(std::string_view key) const;
  /// The member `key`; throws ValueError where it is missing.
  const Json& operator[](std::string_view key) const;
  /// Element `index` of a list; throws ValueError where it is out of range.
  const Json& at(size_t index) const;
  size_t size() const;

  /// Sets or replaces a member and returns it; a null value becomes an object first.
  Json& set(std::string_view key, Json value);
  /// Appends to a list; a null value becomes a list first.
  void push_back(Json value);
  /// Adds a member whose key is known to be new, without a search, and returns it.
  Json& append_member(std::string key, Json value);

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace titan
