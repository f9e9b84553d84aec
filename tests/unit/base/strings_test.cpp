#include "titan/base/strings.h"

#include <doctest/doctest.h>

using namespace titan;

TEST_CASE("numbers are printed as users expect them") {
  CHECK(with_commas(4022468096) == "4,022,468,096");
  CHECK(with_commas(-1000) == "-1,000");
  CHECK(with_commas(999) == "999");
  CHECK(fixed(1.005, 2) == "1.00");
  CHECK(shortest(1e-8) == "1e-08");
  CHECK(shortest(1000000) == "1e+06");
  CHECK(shortest(3) == "3.0");
  CHECK(shortest(0.1) == "0.1");
}

TEST_CASE("format fills its places in order and leaves the rest") {
  CHECK(format("{} of {}", 1, "two") == "1 of two");
  CHECK(format("{}", true) == "true");
  CHECK(format("none") == "none");
  CHECK(format("a {} b", "{}") == "a {} b");
}

TEST_CASE("split, join and trim") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',').size() == 1);
  CHECK(join({"a", "b"}, ", ") == "a, b");
  CHECK(trim(" \t x y \n") == "x y");
  CHECK(trim("  ").empty());
}

TEST_CASE("the nearest name is offered only when it is close") {
  CHECK(nearest("traning.steps", {"training.steps", "metrics"}) == "training.steps");
  CHECK_FALSE(nearest("zzz", {"training.steps"}).has_value());
  CHECK(did_you_mean("seqlen", {"seq_len"}) == "; did you mean seq_len?");
}

TEST_CASE("globs match as Python's fnmatch does") {
  CHECK(glob_match("*layers.1[0-9].attention.rope", "model_spec.model.layers.10.attention.rope"));
  CHECK_FALSE(glob_match("layers.1[0-9].attention.rope", "model_spec.model.layers.10.attention.rope"));
  CHECK_FALSE(glob_match("layers.1[0-9]", "layers.1"));
  CHECK(glob_match("a?c", "abc"));
  CHECK(glob_match("[!b]*", "abc"));
  CHECK_FALSE(glob_match("[!a]*", "abc"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("a[", "a["));
  CHECK_FALSE(glob_match("abc", "ab"));
  CHECK(glob_match("*a*b", "xxaxxbxab"));
}

TEST_CASE("the first byte that is not UTF-8 is found") {
  CHECK_FALSE(find_invalid_utf8("plain, é, 漢, 😀").has_value());
  CHECK(find_invalid_utf8("ab\xff") == 2);
  CHECK(find_invalid_utf8("\xc0\x80") == 0);          // overlong
  CHECK(find_invalid_utf8("x\xed\xa0\x80") == 1);     // surrogate
  CHECK(find_invalid_utf8("\xf4\x90\x80\x80") == 0);  // above 10FFFF
  CHECK(find_invalid_utf8("\xe6\xbc") == 0);          // cut off
}
