#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/json.h"

namespace titan {

/// One object of a tokenizer.json and where it stands, so that errors can name it:
/// "assets/tokenizer.json: pre_tokenizer.pretokenizers[0]". Borrows the JSON.
class Component {
 public:
  /// Throws ValueError where `json` is no object.
  Component(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  /// Member "type".
  const std::string& type() const { return text("type"); }

  /// Each reads a member and throws ValueError naming it when it is missing or of another kind.
  const std::string& text(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  const Json& member(std::string_view key) const;
  /// The member, or nullptr.
  const Json* find(std::string_view key) const { return json_->find(key); }
  Component child(std::string_view key) const;
  std::vector<Component> children(std::string_view key) const;
  bool flag(std::string_view key) const;
  /// `otherwise` where the member is missing or null.
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  /// Throws ValueError for a member that is not among `keys`: its effect would be lost.
  void require_known(std::initializer_list<std::string_view> keys) const;
  /// Throws ValueError that names the type and those that are supported.
  [[noreturn]] void refuse_type(std::string_view supported) const;
  /// Throws ValueError: where, then `problem`.
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  const Json* json_;
  std::string where_;
};

}  // namespace titan
