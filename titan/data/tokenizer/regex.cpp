#include "titan/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "titan/base/error.h"
#include "titan/data/tokenizer/unicode.h"

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

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view what)
    : Regex(to_pcre2(pattern, what), what, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE) {}

Regex Regex::literal(std::string_view text, std::string_view what) {
  if (text.empty()) throw ValueError("{}: the pattern is empty", what);
  return Regex(text, what, PCRE2_UTF | PCRE2_LITERAL);
}

Regex::Regex(std::string_view pattern, std::string_view what, unsigned options) {
  auto owned = std::make_shared<Code>();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  owned->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                              &offset, context.get());
  if (!owned->code)
    throw ValueError("{}: the expression {} is not valid at character {}: {}", what, pattern, offset,
                     pcre2_message(error));
  owned->jit = pcre2_jit_compile(owned->code, PCRE2_JIT_COMPLETE) == 0;
  // Long runs of one class are ordinary text, so the limits against runaway expressions are lifted.
  owned->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(owned->context, UINT32_MAX);
  pcre2_set_depth_limit(owned->context, UINT32_MAX);
  code_ = std::move(owned);
}

Regex::Matches::Matches(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), match_data_(pcre2_match_data_create(1, nullptr)) {}

Regex::Matches::~Matches() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_)); }

std::optional<ByteRange> Regex::Matches::next() {
  auto* data = static_cast<pcre2_match_data*>(match_data_);
  const Code& code = *regex_.code_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  while (at_ <= text_.size()) {
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (code.jit) found = pcre2_jit_match(code.code, subject, text_.size(), at_, 0, data, code.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code.code, subject, text_.size(), at_, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, data,
                          code.context);
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
