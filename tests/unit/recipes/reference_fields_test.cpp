#include <doctest/doctest.h>

#include <map>
#include <string>

#include "titan/base/file.h"
#include "titan/base/strings.h"
#include "titan/config/locate.h"
#include "titan/config/text.h"
#include "titan/recipes/qwen3.h"

using namespace titan;

namespace {

/// Every leaf of a default run by name, in the text form users see; kinds of a section as
/// `section:kind.field`.
std::map<std::string, std::string> default_fields() {
  TrainerConfig config;
  config.optimizer = default_adamw();
  std::map<std::string, std::string> fields;
  for (const Located& field : leaves_of(node_of(config))) {
    fields[field.fqn] = to_text(*field.type, field.member);
  }
  for (const Alternative& kind : alternatives<ActivationCheckpointConfig>) {
    const std::unique_ptr<void, void (*)(void*)> value(kind.type->create(), kind.type->destroy);
    for (const Located& field : leaves_of({value.get(), kind.type})) {
      fields[format("activation_checkpoint:{}.{}", kind.name, field.fqn)] =
          to_text(*field.type, field.member);
    }
  }
  return fields;
}

}  // namespace

TEST_CASE("Every field of the reference is there with the reference's default") {
  const auto ours = default_fields();
  size_t checked = 0;
  for (const auto& line : split(read_file("tests/assets/reference_fields.txt"), '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const size_t equals = line.find('=');
    REQUIRE(equals != line.npos);
    const std::string name(trim(line.substr(0, equals)));
    CAPTURE(name);
    const auto found = ours.find(name);
    CHECK_MESSAGE(found != ours.end(), "the reference has a field that titan lacks");
    if (found != ours.end()) CHECK(found->second == trim(line.substr(equals + 1)));
    ++checked;
  }
  CHECK(checked > 130);
}

TEST_CASE("Every field has a help text") {
  const auto config = qwen3::qwen3_demo();
  for (const Located& field : leaves_of(node_of(config), 1)) {
    CAPTURE(field.fqn);
    CHECK(std::string(field.help).size() > 3);
  }
}
