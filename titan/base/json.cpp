#include "titan/base/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "titan/base/error.h"
#include "titan/base/file.h"

namespace titan {

namespace {

/// Builds our values from nlohmann's parser, so that no second tree exists.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override {
    return value <= uint64_t{INT64_MAX} ? add(static_cast<int64_t>(value)) : add(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (!open_.back().keys.insert(value).second)
      throw ValueError("{}: the key \"{}\" occurs twice", what_, value);
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view reason =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    if (const size_t end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    throw ValueError("{} is not valid JSON (byte {}): {}", what_, position, reason);
  }

 private:
  struct Frame {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value.append_member(std::move(open_.back().key), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaxDepth) throw ValueError("{}: nested deeper than {} levels", what_, kMaxDepth);
    open_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  static constexpr size_t kMaxDepth = 512;
  std::string_view what_;
  std::vector<Frame> open_;
  Json root_;
};

void dump_string(const std::string& text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void dump_to(const Json& value, int indent, int depth, std::string& out) {
  const auto line = [&](int levels) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent * levels), ' ');
  };
  const bool object = value.is_object();
  if (!object && !value.is_array()) {
    if (value.is_string()) return dump_string(value.as_string(), out);
    if (value.is_null()) out += "null";
    if (value.is_bool()) out += value.as_bool() ? "true" : "false";
    if (value.is_int()) out += std::to_string(value.as_int());
    // JSON has no NaN or infinity; Python's json writes and reads these names.
    if (!value.is_int() && value.is_number()) {
      const double number = value.as_double();
      out += std::isnan(number)   ? "NaN"
             : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                  : shortest(number);
    }
    return;
  }
  out += object ? '{' : '[';
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) out += indent < 0 ? ", " : ",";
    line(depth + 1);
    if (object) {
      dump_string(value.items()[i].first, out);
      out += ": ";
      dump_to(value.items()[i].second, indent, depth + 1, out);
    } else {
      dump_to(value.elements()[i], indent, depth + 1, out);
    }
  }
  if (value.size() > 0) line(depth);
  out += object ? '}' : ']';
}

}  // namespace

Json Json::parse(std::string_view text, std::string_view what) {
  Builder builder(what);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json Json::parse_file(const std::filesystem::path& path) { return parse(read_file(path), path.string()); }

std::string Json::dump(int indent) const {
  std::string out;
  dump_to(*this, indent, 0, out);
  return out;
}

std::string_view Json::kind() const {
  constexpr std::string_view kNames[] = {"null",     "a boolean", "an integer", "a number",
                                         "a string", "a list",    "an object"};
  return kNames[value_.index()];
}

namespace {
template <class T, class Variant>
const T& expect(const Variant& value, std::string_view wanted, std::string_view found) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  throw ValueError("expected {}, found {}", wanted, found);
}
}  // namespace

bool Json::as_bool() const { return expect<bool>(value_, "a boolean", kind()); }
int64_t Json::as_int() const { return expect<int64_t>(value_, "an integer", kind()); }
double Json::as_double() const {
  return is_int() ? static_cast<double>(as_int()) : expect<double>(value_, "a number", kind());
}
const std::string& Json::as_string() const { return expect<std::string>(value_, "a string", kind()); }
const Json::Array& Json::elements() const { return expect<Array>(value_, "a list", kind()); }
const Json::Object& Json::items() const { return expect<Object>(value_, "an object", kind()); }

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  const auto found =
      std::find_if(object->begin(), object->end(), [&](const auto& item) { return item.first == key; });
  return found == object->end() ? nullptr : &found->second;
}

const Json& Json::operator[](std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  if (!is_object()) throw ValueError("expected an object with \"{}\", found {}", key, kind());
  throw ValueError("the key \"{}\" is missing", key);
}

const Json& Json::at(size_t index) const {
  const Array& list = elements();
  if (index >= list.size())
    throw ValueError("expected at least {} elements, found {}", index + 1, list.size());
  return list[index];
}

size_t Json::size() const {
  if (is_array()) return elements().size();
  return is_object() ? items().size() : 0;
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  if (const Json* held = find(key)) return const_cast<Json&>(*held) = std::move(value);
  return append_member(std::string(key), std::move(value));
}

Json& Json::append_member(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  items();
  return std::get<Object>(value_).emplace_back(std::move(key), std::move(value)).second;
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array{};
  elements();
  std::get<Array>(value_).push_back(std::move(value));
}

}  // namespace titan
