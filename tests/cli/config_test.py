"""`titan config`: built-in configs, the command line, JSON files, and users' modules."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
DEMO = ["--module", "qwen3", "--config", "qwen3_demo"]

MODULE = """
#include <titan/recipes.h>
#include <stdexcept>
#include "common.h"
using namespace titan;

TrainerConfig native_qwen3_4b() {
  auto config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("4B", {.attn_backend = AttnBackend::sdpa});
  config.hf_assets_path = absolute("assets/hf/Qwen3-4B-Instruct-2507");
  config.dataloader.dataset = "c4_test";
  config.training.steps = 10;
  config.training.local_batch_size = 1;
  config.training.global_batch_size = 64;
  config.parallelism.data_parallel_shard_degree = -1;
  return config;
}

struct MyConfig : TrainerConfig {
  int64_t extra = 5;
  void describe(Fields& f) {
    f.base<TrainerConfig>(*this);
    f("extra", extra, "Mine");
  }
};
MyConfig derived() {
  MyConfig config;
  static_cast<TrainerConfig&>(config) = base_run();
  return config;
}
struct Rotation : CosSinRoPEConfig {
  int64_t mine = 1;
  void describe(Fields& f) {
    f.base<CosSinRoPEConfig>(*this);
    f("mine", mine, "Of this module");
  }
};
auto rotated() {
  auto config = base_run();
  traverse<AttentionConfig>(config, [](const std::string& fqn, AttentionConfig& attention) {
    if (fqn.ends_with("1.attention")) attention.rope = derive<Rotation>(*attention.rope.get<CosSinRoPEConfig>());
  });
  return config;
}

TrainerConfig with_default(int64_t steps = 3) {
  auto config = base_run();
  config.training.steps = steps;
  return config;
}
TrainerConfig needs_arguments(int n) { return with_default(n); }
std::vector<std::string> helper(const std::string& text) { return {text}; }
template <class T>
T templated() {
  return {};
}
static int number() { return 3; }
static TrainerConfig hidden() { return with_default(number()); }
TrainerConfig throws_value() { throw ValueError("my own message, {}", 3); }
TrainerConfig throws_other() {
  hidden();
  throw std::out_of_range("index 9");
}
"""

COMMON = """
#pragma once
#include "circle.h"
inline titan::TrainerConfig base_run() { return titan::qwen3::qwen3_demo(); }
"""

OVERRIDES = """
#include <titan/recipes.h>
#include <titan/config/override.h>
#include <titan/config/derive.h>
using namespace titan;

/// Has the name of another module's type, and another layout.
struct Rotation : CosSinRoPEConfig {
  std::string text = "theirs";
  double more = 2;
  void describe(Fields& f) {
    f.base<CosSinRoPEConfig>(*this);
    f("text", text, "Of the overrides");
    f("more", more, "Of the overrides");
  }
};
Override of_namesake() {
  return override<Rotation>({}, [](Rotation found) { found.text = "found"; return found; });
}
Override rope() {
  return override<CosSinRoPEConfig>({.fqns = {"layers.[23].attention.rope"}, .exact = true},
                                    [](const auto& config) { return derive<Rotation>(config); });
}
"""

KERNELS = """
#include <titan/recipes.h>
#include <titan/config/derive.h>
#include <titan/config/override.h>
#include <titan/nn/module.h>
using namespace titan;

struct NKIRoPE {
  struct Config : CosSinRoPEConfig {
    int64_t lnc = 2;
    void describe(Fields& f) {
      f.base<CosSinRoPEConfig>(*this);
      f("lnc", lnc, "Logical cores");
    }
    void validate(const TrainerConfig& config) const {
      const int64_t stride = 128 * lnc;
      if (config.training.seq_len % stride == 0) return;
      throw ValueError("rope_hf requires a sequence length that is a multiple of 128 * LNC={}, got {}", stride,
                       config.training.seq_len);
    }
  };
};
template <>
ModulePtr titan::build(const NKIRoPE::Config& config) {
  return build(static_cast<const CosSinRoPEConfig&>(config));
}
Override nki_rope() {
  return override<CosSinRoPEConfig>({.exact = true}, [](const auto& config) { return derive<NKIRoPE::Config>(config); });
}
"""


class ConfigTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A folder with a space and letters beyond ASCII: paths are bytes to be quoted, nothing more.
        cls.folder = Path(tempfile.mkdtemp(prefix="titan config é "))
        cls.env = {**os.environ, "TITAN_CACHE_DIR": str(cls.folder / "cache"), "HOME": str(cls.folder / "home")}
        cls.write("my run.cpp", MODULE)
        cls.write("common.h", COMMON)
        cls.write("circle.h", '#include "common.h"\n')

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def write(cls, name, text):
        (cls.folder / name).write_text(text)

    def run_titan(self, *words, env=None, cwd=None):
        return subprocess.run([TITAN, "config", *words], capture_output=True, text=True, cwd=cwd or self.folder,
                              env={**self.env, **(env or {})}, timeout=300)

    def output(self, *words, **options):
        result = self.run_titan(*words, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refusal(self, *words, code=2, **options):
        result = self.run_titan(*words, **options)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertTrue(result.stderr.splitlines(), "no message")
        self.assertNotIn("terminate", result.stderr)
        return result.stderr

    # Built-in configs

    def test_a_plain_config_costs_a_fraction_of_a_second(self):
        before = os.times()
        self.assertIn("flavor: demo", self.output(*DEMO))
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        self.assertLess(spent, 0.3)

    def test_the_tree_shows_what_the_command_line_set(self):
        text = self.output(*DEMO, "--training.steps", "7", "activation_checkpoint:full", "--debug.no-deterministic")
        self.assertIn("    steps: 7\n", text)
        self.assertIn("  activation_checkpoint: FullACConfig\n", text)
        self.assertIn("activation_checkpoint: SelectiveACConfig -> FullACConfig\n",
                      self.output(*DEMO, "activation_checkpoint:full", "--diff"))

    def test_dotted_spellings_of_the_reference_name_the_same_module(self):
        dotted = self.output("--module", "torchtitan.models.qwen3", "--config", "qwen3_demo")
        self.assertEqual(dotted, self.output(*DEMO))

    def test_json_is_read_back_without_module(self):
        words = ["--training.steps=5", "activation_checkpoint:full", "--training.max_norm=inf"]
        printed = self.output(*DEMO, *words, "--json")
        (self.folder / "saved.json").write_text(printed)
        self.assertEqual(json.loads(printed)["training"]["steps"], 5)
        self.assertEqual(self.output("--config", "saved.json", "--json"), printed)
        self.assertEqual(self.output("--config", "saved.json"), self.output(*DEMO, *words))
        self.assertIn("    steps: 6\n", self.output("--config", "saved.json", "--training.steps", "6"))
        no_compiler = {"CXX": "/there/is/none"}
        self.assertEqual(self.output("--config", "saved.json", "--json", env=no_compiler), printed)

    def test_every_built_in_config_survives_json(self):
        for config in ["qwen3_0_6b", "qwen3_32b", "qwen3_30b_a3b", "qwen3_moe_debug"]:
            result = self.run_titan("--module", "qwen3", "--config", config, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            (self.folder / "each.json").write_text(result.stdout)
            self.assertEqual(self.output("--config", "each.json", "--json"), result.stdout)

    def test_broken_files_are_named(self):
        self.write("broken.json", '{"type": "TrainerConfig", ')
        self.assertIn("broken.json", self.refusal("--config", "broken.json", code=2))
        self.assertIn("missing.json", self.refusal("--config", "missing.json", code=2))
        self.write("typo.json", '{"type": "TrainerConfig", "training": {"stesp": 3}}')
        self.assertIn("did you mean steps?", self.refusal("--config", "typo.json"))

    def test_help_lists_fields_with_types_and_status(self):
        text = self.output("--help")
        self.assertRegex(text, r"  --training.steps int \(10000\)  \S")
        self.assertRegex(text, r"--training.gc_freq int \(50\) .*\[no effect here\]")
        self.assertIn("(7)", self.output(*DEMO, "--training.steps", "7", "--help"))

    def test_mistakes_are_answered_with_the_nearest_and_code_2(self):
        self.assertIn("--module is missing; for example", self.refusal("--config", "qwen3_demo"))
        self.assertIn("--config is missing; for example", self.refusal("--module", "qwen3"))
        self.assertIn("did you mean qwen3?", self.refusal("--module", "qwen", "--config", "x"))
        self.assertIn("did you mean qwen3_demo?", self.refusal("--module", "qwen3", "--config", "qwen3_dem"))
        self.assertIn("did you mean --training.steps?", self.refusal(*DEMO, "--training.stesp", "3"))
        self.assertIn("expects an int; got '3x'", self.refusal(*DEMO, "--training.steps", "3x"))
        self.assertIn("type --debug.deterministic for true", self.refusal(*DEMO, "--debug.deterministic=False"))
        self.assertIn("--training is a section", self.refusal(*DEMO, "--training", "3"))
        self.assertIn("is not built yet", self.refusal(*DEMO, "--parallelism.context_parallel_degree", "2"))
        self.assertIn("exclude each other", self.refusal(*DEMO, "--json", "--diff"))

    def test_a_setting_without_effect_warns_once(self):
        result = self.run_titan(*DEMO, "--training.gc_freq", "7")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("training.gc_freq = 7 has no effect here"), 1)

    # Modules

    def test_a_users_module_is_compiled_once(self):
        words = ["--module", "my run", "--config", "native_qwen3_4b", "--summary"]
        summary = self.output(*words)
        self.assertIn("4,022,468,096", summary)
        self.assertIn("31,382,565,888", summary)
        before = os.times()
        second = self.run_titan(*words)
        after = os.times()
        self.assertEqual(second.stdout, summary)
        self.assertNotIn("Compiling", second.stderr)
        self.assertLess(after.children_user - before.children_user, 1.0)
        # A compiled module needs no compiler any more.
        self.assertEqual(self.output(*words, env={"CXX": "/there/is/none"}), summary)

    def test_functions_are_exported_by_what_they_return(self):
        module = ["--module", "my run", "--config"]
        self.assertIn("MyConfig\n", self.output(*module, "derived", "--extra", "9"))
        self.assertIn("extra: 5 -> 9", self.output(*module, "derived", "--extra", "9", "--diff"))
        self.assertIn("training.steps: 10000 -> 3\n", self.output(*module, "with_default", "--diff"))
        self.assertIn("mine: 1", self.output(*module, "rotated"))
        self.assertIn("flavor: demo", self.output(*module, "base_run"))
        for name in ["needs_arguments", "helper"]:
            self.assertIn("is no config function", self.refusal(*module, name))
        message = self.refusal(*module, "hidden")
        for name in ["native_qwen3_4b", "derived", "with_default", "throws_value"]:
            self.assertIn(name, message)
        for name in ["templated", "number", "needs_arguments"]:
            self.assertNotIn(name, message)
        self.assertIn("did you mean derived?", self.refusal(*module, "deriv"))

    def test_exceptions_of_a_config_function_are_its_message(self):
        module = ["--module", "my run", "--config"]
        self.assertEqual(self.refusal(*module, "throws_value", code=1), "titan: error: my own message, 3\n")
        self.assertIn("throws_other in ", self.refusal(*module, "throws_other", code=1))
        self.assertIn("index 9", self.refusal(*module, "throws_other", code=1))

    def test_overrides_of_a_module_replace_nodes(self):
        self.write("kernels.cpp", OVERRIDES)
        words = ["--module", "my run", "--config", "rotated", "--override.imports", "kernels"]
        result = self.run_titan(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        replaced = "[Override] rope: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> Rotation"
        self.assertEqual(result.stdout.splitlines()[:3],
                         [replaced.format(2), replaced.format(3), "Applied 2 override(s)"])
        # The module's Rotation is another type than the override's target of that name.
        self.assertIn("of_namesake: no node of type Rotation", result.stderr)
        self.assertIn("mine: 1", result.stdout)
        self.assertIn("text: theirs", result.stdout)
        # A saved config applies them again.
        (self.folder / "overridden.json").write_text(self.output(*DEMO, "--override.imports", "kernels", "--json"))
        self.assertIn(replaced.format(2), self.output("--config", "overridden.json"))
        self.assertIn("no module 'kernel'", self.refusal(*DEMO, "--override.imports", "kernel"))
        self.assertIn("has no overrides", self.refusal(*DEMO, "--override.imports", "my run"))

    @unittest.skipUnless((Path(TITAN).resolve().parent.parent / "lib" / "libtitan.so").exists(), "built without torch")
    def test_a_module_on_torch_is_looked_at_without_training(self):
        self.write("my_kernels.cpp", KERNELS)
        words = [*DEMO, "--override.imports", "my_kernels", "--training.seq_len"]
        line = "[Override] nki_rope: model_spec.model.layers.0.attention.rope CosSinRoPEConfig -> NKIRoPE.Config\n"
        self.assertIn(line, self.output(*words, "256"))
        self.assertIn("rope_hf requires a sequence length that is a multiple of 128 * LNC=256, got 384",
                      self.refusal(*words, "384", code=1))

    def test_a_change_in_a_local_header_compiles_again(self):
        folder = self.folder / "headers"
        folder.mkdir()
        (folder / "m.cpp").write_text('#include <titan/recipes.h>\n#include "steps.h"\nusing namespace titan;\n'
                                      "TrainerConfig m() { auto c = qwen3::qwen3_demo(); c.training.steps = kSteps; return c; }\n")
        (folder / "steps.h").write_text("constexpr int kSteps = 11;\n")
        words = ["--module", "m", "--config", "m", "--diff"]
        self.assertIn("training.steps: 10000 -> 11\n", self.output(*words, cwd=folder))
        (folder / "steps.h").write_text("constexpr int kSteps = 12;\n")
        self.assertIn("training.steps: 10000 -> 12\n", self.output(*words, cwd=folder))
        # The module path is searched after the current folder.
        self.assertIn("-> 12\n", self.output(*words, env={"TITAN_MODULE_PATH": f"/nowhere:{folder}"}))

    def test_compiler_errors_point_at_the_users_line(self):
        self.write("bad.cpp", "#include <titan/recipes.h>\nusing namespace titan;\nTrainerConfig a() {\n"
                              "  auto config = qwen3::qwen3_demo();\n  config.trainig.steps = 3;\n  return config;\n}\n")
        message = self.refusal("--module", "bad", "--config", "a")
        self.assertIn("bad.cpp:5:10: error:", message)
        self.assertIn("config.trainig.steps = 3;", message)
        self.assertLess(len(message.splitlines()), 12)
        log = re.search(r"whole output: (.*)\)", message).group(1)
        self.assertIn("trainig", Path(log).read_text())

    def test_an_unknown_member_type_is_shown_at_the_users_line(self):
        self.write("member.cpp", "#include <titan/recipes.h>\nusing namespace titan;\nstruct C : TrainerConfig {\n"
                                 "  int few = 2;\n  void describe(Fields& f) {\n    f(\"few\", few, \"x\");\n  }\n};\n"
                                 "C a() { return {}; }\n")
        message = self.refusal("--module", "member", "--config", "a")
        self.assertIn("member.cpp:6:", message)
        self.assertIn("a config member is a bool, int64_t", message)
        self.assertIn('f("few", few, "x");', message)

    def test_a_module_that_throws_while_it_loads_is_an_error_not_an_abort(self):
        self.write("throwing.cpp", "#include <titan/recipes.h>\n#include <stdexcept>\nusing namespace titan;\n"
                                   "const int x = [] { throw std::runtime_error(\"no such device\"); return 1; }();\n"
                                   "TrainerConfig a() { return {}; }\n")
        message = self.refusal("--module", "throwing", "--config", "a", code=1)
        self.assertIn("throwing.cpp failed while it was loaded", message)
        self.assertIn("no such device", message)

    def test_many_processes_compile_a_module_once_and_share_its_errors(self):
        self.write("shared.cpp", "#include <titan/recipes.h>\nusing namespace titan;\n"
                                 "TrainerConfig a() { return qwen3::qwen3_demo(); }\n")
        self.write("shared_bad.cpp", "#include <titan/recipes.h>\ntitan::TrainerConfig a() { return 3; }\n")
        for name, code in [("shared", 0), ("shared_bad", 2)]:
            command = [TITAN, "config", "--module", name, "--config", "a"]
            runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     cwd=self.folder, env=self.env) for _ in range(4)]
            results = [run.communicate(timeout=300) for run in runs]
            self.assertEqual([run.returncode for run in runs], [code] * len(runs))
            self.assertEqual(sum(error.count("Compiling") for _, error in results), 1)
            self.assertEqual(len({output for output, _ in results}), 1)

    def test_without_a_compiler_one_message_names_both_ways_out(self):
        self.write("fresh.cpp", "#include <titan/recipes.h>\ntitan::TrainerConfig a() { return titan::qwen3::qwen3_demo(); }\n")
        no_compiler = {"CXX": "/there/is/none"}
        message = self.refusal("--module", "fresh", "--config", "a", env=no_compiler)
        self.assertIn("no C++ compiler", message)
        self.assertIn("--config FILE.json", message)
        self.assertIn("--compile-to fresh.so", message)

        library = self.folder / "made" / "fresh.so"
        library.parent.mkdir()
        self.output("--module", "fresh", "--compile-to", str(library))
        words = ["--module", "fresh", "--config", "a"]
        self.assertEqual(self.output(*words, cwd=library.parent, env=no_compiler), self.output(*words))
        # Any other build of titan is refused before a line of the module runs.
        data = library.read_bytes()
        self.assertEqual(data.count(b"titan-module-stamp:headers="), 1)
        library.write_bytes(data.replace(b"titan-module-stamp:headers=", b"titan-module-stamp:headerz="))
        self.assertIn("was made for another build of titan", self.refusal(*words, cwd=library.parent))
        library.write_bytes(b"\x7fELF nothing")
        self.assertIn("is not a module of titan's", self.refusal(*words, cwd=library.parent))

    def test_a_home_that_cannot_be_written_is_replaced_by_the_temporary_folder(self):
        self.write("homeless.cpp", "#include <titan/recipes.h>\ntitan::TrainerConfig a() { return titan::qwen3::qwen3_demo(); }\n")
        temporary = self.folder / "temporary"
        temporary.mkdir()
        env = {"TITAN_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/proc/nowhere", "TMPDIR": str(temporary)}
        self.output("--module", "homeless", "--config", "a", env=env)
        self.assertTrue(list(temporary.glob("titan-*/modules/homeless-*.so")))


if __name__ == "__main__":
    unittest.main()
