#include "titan/train/log_line.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <regex>
#include <string>

#include "titan/base/file.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

std::string asset(const std::string& name) { return read_file(share_folder() / "tests/assets/log" / name); }

std::map<std::string, std::regex> patterns() {
  std::map<std::string, std::regex> found;
  for (const std::string& line : split(asset("patterns.txt"), '\n')) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) found.emplace(line.substr(0, tab), std::regex(line.substr(tab + 1)));
  }
  return found;
}

std::string without_colors(const std::string& line) {
  static const std::regex kCode("\033\\[[0-9;]*m");
  return std::regex_replace(line, kCode, "");
}

StepReport report() {
  return {.step = 7,
          .loss = 12.253714,
          .grad_norm = 13.04101,
          .memory = {.max_reserved_gib = 3.456, .max_reserved_pct = 12.345},
          .tokens_per_second = 27483.4,
          .tflops = 1.966,
          .mfu = 0.199};
}

}  // namespace

TEST_CASE("The step line is the reference's, blank for blank") {
  CHECK(step_line(report(), {}) ==
        "step:  7  loss: 12.25371  grad_norm: 13.0410  memory:  3.46GiB(12.35%)  tps: 27,483  tflops: 1.97  "
        "mfu: 0.20%");
}

TEST_CASE("The step line's colours are the reference's") {
  CHECK(step_line(report(), Colors::make(true)) ==
        "\033[31mstep:  7  \033[32mloss: 12.25371  \033[38;2;180;60;0mgrad_norm: 13.0410  "
        "\033[38;2;54;234;195mmemory:  3.46GiB(12.35%)  \033[34mtps: 27,483  \033[36mtflops: 1.97  "
        "\033[35mmfu: 0.20%\033[39m");
}

TEST_CASE("The validation and model lines are the reference's") {
  CHECK(validate_line(20, 2.34567, report().memory, 999.5, {}) ==
        "validate step: 20  loss:  2.3457  memory:  3.46GiB(12.35%)  tps: 1,000");
  CHECK(model_size_line("qwen3", "4B", 4022468096, {}) ==
        "Model qwen3 4B size: 4,022,468,096 total parameters");
}

TEST_CASE("Large and small numbers keep the reference's widths") {
  StepReport large = report();
  large.step = 12345;
  large.loss = 0.5;
  large.tflops = 1862.469;
  large.mfu.reset();
  CHECK(step_line(large, {}) ==
        "step: 12345  loss:  0.50000  grad_norm: 13.0410  memory:  3.46GiB(12.35%)  tps: 27,483  tflops: "
        "1,862.47  "
        "mfu: N/A");
}

TEST_CASE("Numbers with commas: thousands, signs and what is not finite") {
  CHECK(fixed_with_commas(999, 0) == "999");
  CHECK(fixed_with_commas(1000, 0) == "1,000");
  CHECK(fixed_with_commas(1234567.891, 2) == "1,234,567.89");
  CHECK(fixed_with_commas(-1000, 1) == "-1,000.0");
  CHECK(fixed_with_commas(std::numeric_limits<double>::infinity(), 2) == "inf");
}

TEST_CASE("Our lines and the reference's are read by the same expressions") {
  auto known = patterns();
  REQUIRE(known.size() > 15);
  const std::regex prefix = known.at("prefix");
  known.erase("prefix");
  std::map<std::string, int> matched;
  for (const std::string& line : split(asset("reference_lines.txt"), '\n')) {
    std::smatch parts;
    const std::string plain = without_colors(line);
    if (line.empty()) continue;
    REQUIRE_MESSAGE(std::regex_search(plain, parts, prefix), plain);
    for (const auto& [name, pattern] : known) matched[name] += std::regex_match(parts[2].str(), pattern);
  }
  for (const auto& [name, pattern] : known) CHECK_MESSAGE(matched[name] > 0, name);

  const auto colors = Colors::make(true);
  CHECK(std::regex_match(without_colors(step_line(report(), colors)), known.at("step")));
  CHECK(std::regex_match(without_colors(validate_line(1, 7.5, report().memory, 12, colors)),
                         known.at("validate")));
  CHECK(std::regex_match(without_colors(model_size_line("qwen3", "demo", 1000, colors)),
                         known.at("model_size")));
  CHECK(std::regex_match(capacity_line(device_info("cpu")), known.at("capacity")));
  CHECK_FALSE(std::regex_match("step: 7 loss: 12.25371", known.at("step")));
}

}  // namespace titan
