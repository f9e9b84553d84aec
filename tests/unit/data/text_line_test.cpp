#include "titan/data/text_line.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"

using namespace titan;

TEST_CASE("the text of a line is found under its key") {
  CHECK(text_of_line(R"({"id": 3, "text": "a\u00e9\n\ud83d\ude00", "meta": {"text": "no"}})", "text") ==
        "a\u00e9\n\U0001F600");
  CHECK(text_of_line("{\"content\": \"x\"}\r", "content") == "x");
  CHECK(text_of_line("\xef\xbb\xbf{\"text\": \"\"}", "text").empty());
}

TEST_CASE("a wrong key is answered with the keys found") {
  CHECK_THROWS_WITH_AS(text_of_line(R"({"content": "x", "url": "y"})", "text"),
                       "has no \"text\"; keys found: \"content\", \"url\"; set dataloader.text_key to the "
                       "one that holds the text",
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line("{}", "text"), doctest::Contains("keys found: none"), ValueError);
}

TEST_CASE("lines that hold no text are refused with the reason") {
  CHECK_THROWS_WITH_AS(text_of_line(R"({"messages": []})", "text"), doctest::Contains("docs/data.md"),
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line(R"({"text": null})", "text"), "\"text\" is null, not a string",
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line(R"({"text": ["a"]})", "text"), "\"text\" is a list, not a string",
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line(R"([{"text": "a"}])", "text"), doctest::Contains("jq -c '.[]'"),
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line("\"text\"", "text"), doctest::Contains("found a string"), ValueError);
  CHECK_THROWS_WITH_AS(text_of_line(R"({"text": "a)", "text"), doctest::Contains("not valid JSON"),
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line(R"({"text": "\ud800"})", "text"), doctest::Contains("not valid JSON"),
                       ValueError);
  CHECK_THROWS_WITH_AS(text_of_line("{\"text\": \"a\xff\"}", "text"),
                       doctest::Contains("invalid UTF-8 at byte 11"), ValueError);
}
