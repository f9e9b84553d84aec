#include "titan/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "titan/base/error.h"
#include "titan/data/tokenizer/unicode.h"
#include "titan/data/tokenizer/unicode_additions.h"

namespace titan {

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  bool jit = false;

  Code() = default;
  Code(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

namespace {

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

std::shared_ptr<const Regex::Code> compile(std::string_view pattern, std::string_view what,
                                           uint32_t options) {
  auto result = std::make_shared<Regex::Code>();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  result->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                               &offset, context.get());
  if (!result->code)
    throw ValueError("{}: the expression {} is not valid at character {}: {}", what, pattern, offset,
                     pcre2_message(error));
  result->jit = pcre2_jit_compile(result->code, PCRE2_JIT_COMPLETE) == 0;
  // Long runs of one class are ordinary text, so the limits against runaway expressions are lifted.
  result->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(result->context, UINT32_MAX);
  pcre2_set_depth_limit(result->context, UINT32_MAX);
  return result;
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view what) {
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  const std::string fast = to_pcre2(pattern, what, CharacterTables::system);
  const std::string exact = to_pcre2(pattern, what, CharacterTables::unicode_16);
  fast_ = compile(fast, what, kOptions);
  exact_ = fast == exact ? fast_ : compile(exact, what, kOptions);
}

Regex Regex::literal(std::string_view text, std::string_view what) {
  if (text.empty()) throw ValueError("{}: the pattern is empty", what);
  return Regex(compile(text, what, PCRE2_UTF | PCRE2_LITERAL));
}

const Regex::Code& Regex::code_for(std::string_view text) const {
  const bool is_exact = fast_ != exact_ && unicode::has_category_addition(text);
  return is_exact ? *exact_ : *fast_;
}

Regex::Matches::Matches(const Regex& regex, std::string_view text)
    : code_(regex.code_for(text)), text_(text), match_data_(pcre2_match_data_create(1, nullptr)) {}

Regex::Matches::~Matches() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_)); }

std::optional<ByteRange> Regex::Matches::next() {
  auto* data = static_cast<pcre2_match_data*>(match_data_);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  while (at_ <= text_.size()) {
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (code_.jit) found = pcre2_jit_match(code_.code, subject, text_.size(), at_, 0, data, code_.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code_.code, subject, text_.size(), at_, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, data,
                          code_.context);
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0)
      throw ValueError("a regular expression failed on {} bytes of text: {}", text_.size(),
                       pcre2_message(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    if (range[0] == range[1] && last_end_ == range[1]) {
      if (at_ == text_.size()) return std::nullopt;
      at_ += static_cast<size_t>(unicode::code_point_at(text_, at_).size);
      continue;
    }
    at_ = range[1];
    last_end_ = at_;
    return ByteRange{range[0], range[1]};
  }
  return std::nullopt;
}

}  // namespace titan
