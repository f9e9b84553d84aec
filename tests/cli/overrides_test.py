"""The override registry through `titan config --override.imports`: what is replaced, and each way to get it wrong."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
EXAMPLES = Path(os.environ["TITAN_SOURCE_DIR"]) / "examples"
DEMO = ["--module", "qwen3", "--config", "qwen3_demo"]
HAS_TORCH = (Path(TITAN).resolve().parent.parent / "lib" / "libtitan.so").exists()

# Without torch, so that a module compiles in a second or two.
MODULE = """
#include <titan/config/derive.h>
#include <titan/config/override.h>
#include <titan/recipes.h>
#include <stdexcept>
using namespace titan;

struct Rotation : CosSinRoPEConfig {
  void describe(Fields& f) { f.base<CosSinRoPEConfig>(*this); }
};
Rotation rotation(const CosSinRoPEConfig& config) { return derive<Rotation>(config); }

"""


class OverridesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="titan_overrides."))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def write(self, module, text):
        (self.folder / f"{module}.cpp").write_text(MODULE + text)

    def config(self, module, *words, base=DEMO):
        env = {**os.environ, "TITAN_CACHE_DIR": str(self.folder / "cache"), "TITAN_MODULE_PATH": str(EXAMPLES)}
        return subprocess.run([TITAN, "config", *base, "--override.imports", module, *words], capture_output=True, text=True,
                              cwd=self.folder, env=env, timeout=300)

    def lines(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return [line for line in result.stdout.splitlines() if line.startswith(("[Override]", "Applied"))]

    def refusal(self, module, code, *parts):
        """The one message, which holds all parts."""
        result = self.config(module)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("terminate called", result.stderr)
        self.assertEqual(result.stdout, "")
        errors = [line for line in result.stderr.splitlines() if line.startswith("titan: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        return result.stderr

    def test_a_glob_below_the_model_replaces_exactly_the_layers_it_names(self):
        self.write("tens", 'Override tens() { return override<CosSinRoPEConfig>('
                           '{.fqns = {"layers.1[0-9].attention.rope"}}, rotation); }')
        base = ["--module", "qwen3", "--config", "qwen3_0_6b"]
        replaced = "[Override] tens: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> Rotation"
        result = self.config("tens", base=base)
        self.assertEqual(self.lines(result), [*(replaced.format(i) for i in range(10, 20)), "Applied 10 override(s)"])
        layers = re.findall(r"^      layers\.(\S+): |^          rope: (\S+)$", result.stdout, re.M)
        self.assertEqual([layer or rope for layer, rope in layers], ["[0..9]", "CosSinRoPEConfig", "[10..19]", "Rotation",
                                                                     "[20..27]", "CosSinRoPEConfig"])

    def test_a_function_of_a_module_is_imported_alone(self):
        self.write("pair", 'Override first() { return override<CosSinRoPEConfig>({.fqns = {"layers.0.*"}}, rotation); }\n'
                           'Override second() { return override<CosSinRoPEConfig>({.fqns = {"layers.1.*"}}, rotation); }\n')
        self.assertEqual(len(self.lines(self.config("pair"))), 3)
        only = self.lines(self.config("pair.second"))
        self.assertEqual(only[0], "[Override] second: model_spec.model.layers.1.attention.rope CosSinRoPEConfig -> Rotation")
        self.assertEqual(only[1:], ["Applied 1 override(s)"])
        message = self.refusal("pair.secnd", 2, "no override 'secnd' in", "did you mean second? It has first, second")
        self.assertIn("pair.cpp", message)
        self.refusal("none.second", 2, "no module 'none': there is no none.cpp or none.so in")

    def test_a_function_gets_its_settings_as_json(self):
        self.write("set", """struct Settings {
  std::vector<std::string> fqns = {"layers.0.*"};
  double theta = 5;
  void describe(Fields& f) { f("fqns", fqns, "which"); f("theta", theta, "base"); }
};
Override turned(const Settings& settings) {
  return override<CosSinRoPEConfig>({.fqns = settings.fqns}, [settings](const CosSinRoPEConfig& config) {
    auto made = rotation(config);
    made.theta = settings.theta;
    return made;
  });
}
Override plain() { return override<CosSinRoPEConfig>({.fqns = {"layers.3.*"}}, rotation); }
""")
        replaced = "[Override] turned: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> Rotation"
        own = 'set.turned={"fqns": ["layers.1.*", "layers.2.*"], "theta": 7.5}'
        result = self.config(own)
        self.assertEqual(self.lines(result), [replaced.format(1), replaced.format(2), "Applied 2 override(s)"])
        self.assertIn("theta: 7.5", result.stdout)
        both = self.lines(self.config(own + ",set.plain"))
        self.assertEqual(both[-1], "Applied 3 override(s)")
        # What is not named keeps its default, and a whole module takes defaults.
        self.assertEqual(self.lines(self.config("set.turned")), [replaced.format(0), "Applied 1 override(s)"])
        self.assertEqual(self.lines(self.config("set"))[-1], "Applied 2 override(s)")
        self.refusal('set.turned={"thta": 1}', 2, "has no field 'thta'", "did you mean theta?")
        self.refusal('set.turned={"theta": "x"}', 2, "turned", "theta")
        self.refusal("set.turned={theta}", 2, "set.turned is given {theta}, which is no JSON object (it is not valid JSON")
        self.refusal('set.turned={"theta": 1, "fqns" ["norm", "x"]}', 2, '{"theta": 1, "fqns" ["norm", "x"]}, which is no JSON')
        self.refusal('set.turned={"theta": 1, "theta": 2}', 2, 'the key "theta" occurs twice')
        self.refusal('set.plain={"theta": 1}', 2, "plain", "takes nothing")
        self.refusal('set={"theta": 1}', 2, "set is a module")

    def test_settings_may_have_a_default_argument(self):
        self.write("by_default", """struct Which {
  std::string layer = "0";
  void describe(Fields& f) { f("layer", layer, "which"); }
};
Override chosen(const Which& which = {.layer = "2"}) {
  return override<CosSinRoPEConfig>({.fqns = {"layers." + which.layer + ".*"}}, rotation);
}
Override changes(Which& which) { return chosen(which); }
TrainerConfig unchosen(const Which& = {}) { return qwen3::qwen3_demo(); }
""")
        replaced = "[Override] chosen: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> Rotation"
        base = ["--module", "by_default", "--config", "unchosen"]
        self.assertEqual(self.lines(self.config("by_default", base=base))[0], replaced.format(2))
        self.assertEqual(self.lines(self.config('by_default.chosen={"layer": "1"}'))[0], replaced.format(1))
        self.refusal('by_default.chosen={"layr": "1"}', 2, "has no field 'layr'", "did you mean layer?")
        self.refusal("by_default.changes", 2, "changes in ", "by_default.cpp is no override function: one returns an Override "
                     "and takes nothing or a struct with describe, as S or const S&")

    def test_two_overrides_of_one_node_stop(self):
        self.write("rivals", 'Override one() { return override<CosSinRoPEConfig>({}, rotation); }\n'
                             'Override other() { return override<CosSinRoPEConfig>({.fqns = {"layers.2.*"}}, rotation); }\n')
        self.refusal("rivals", 2, "'one' and 'other' both claim model_spec.model.layers.2.attention.rope: narrow the fqns")

    @unittest.skipUnless(HAS_TORCH, "built without torch")
    def test_two_examples_of_which_one_replaces_what_lies_inside_the_others_node_stop(self):
        self.refusal("my_neuron_kernels,nki_attention", 2, "'nki_attention' and 'nki_rope' both claim",
                     "model_spec.model.layers.0.attention.rope, inside model_spec.model.layers.0.attention")
        both = self.lines(self.config("my_neuron_kernels,nki_rms_norm"))
        self.assertEqual(both[-1], "Applied 21 override(s)")

    def test_an_override_that_matches_nothing_warns_with_the_nearest(self):
        self.write("astray", 'Override astray() { return override<CosSinRoPEConfig>('
                             '{.fqns = {"layers.1.atention.rope"}}, rotation); }')
        result = self.config("astray")
        self.assertEqual(self.lines(result), [])
        self.assertEqual(result.stderr.count("[Override] astray: none of the 4 nodes of type CosSinRoPEConfig matches "
                                             "layers.1.atention.rope; the nearest is model_spec.model.layers.1.attention.rope"),
                         1, result.stderr)

    def test_an_override_of_a_type_that_is_nowhere_warns_with_the_nearest(self):
        self.write("nowhere", "struct CosSinRoPEConfg : CosSinRoPEConfig { void describe(Fields& f) { "
                              "f.base<CosSinRoPEConfig>(*this); } };\n"
                              "Override nowhere() { return override<CosSinRoPEConfg>({.exact = true}, "
                              "[](const CosSinRoPEConfg& config) { return config; }); }")
        result = self.config("nowhere")
        self.assertEqual(self.lines(result), [])
        self.assertIn("[Override] nowhere: no node of type CosSinRoPEConfg (exact); did you mean CosSinRoPEConfig?",
                      result.stderr)

    def test_a_module_in_a_folder_and_a_function_of_it_are_imported(self):
        (self.folder / "kernels").mkdir()
        self.write("kernels/deep", 'Override deep() { return override<CosSinRoPEConfig>({.name = "turned", '
                                   '.fqns = {"layers.1.*"}}, rotation); }')
        self.write("bare", "")
        replaced = "[Override] turned: model_spec.model.layers.1.attention.rope CosSinRoPEConfig -> Rotation"
        for target in ["kernels.deep", "kernels.deep.deep"]:
            self.assertEqual(self.lines(self.config(target)), [replaced, "Applied 1 override(s)"])
        self.refusal("bare", 2, "bare.cpp has no overrides: functions at file scope, not static nor made by a macro, that")
        self.refusal("bare.any", 2, "no override 'any' in", "it has none")

    def test_an_override_that_throws_is_named_with_its_node(self):
        self.write("thrower", 'Override thrower() { return override<CosSinRoPEConfig>({}, [](const CosSinRoPEConfig&) '
                              '-> Rotation { throw std::out_of_range("angle 9"); }); }')
        self.refusal("thrower", 1, "override 'thrower' at model_spec.model.layers.0.attention.rope: angle 9")

    def test_a_function_that_throws_before_it_returns_an_override_is_named(self):
        self.write("sooner", 'Override sooner() { throw std::out_of_range("no layer 9"); }')
        self.refusal("sooner", 1, "sooner in ", "sooner.cpp failed: no layer 9")

    def test_a_replacement_that_does_not_fit_its_slot_is_refused(self):
        self.write("misfit", 'Override misfit() { return override<CosSinRoPEConfig>({}, [](const CosSinRoPEConfig& config) '
                             '{ return RMSNormConfig{.normalized_shape = config.dim}; }); }')
        self.refusal("misfit", 2, "override 'misfit' at model_spec.model.layers.0.attention.rope: a RMSNormConfig does not fit "
                                  "here: it is not derived from RoPEConfig")

    def test_a_field_that_is_not_there_is_named(self):
        self.write("wrong_field", 'Override wrong_field() { return override<CosSinRoPEConfig>({}, '
                                  '[](const CosSinRoPEConfig& c) { return derive<Rotation>(c, {{"thetta", "1"}}); }); }')
        self.refusal("wrong_field", 2, "override 'wrong_field' at model_spec.model.layers.0.attention.rope", "thetta",
                     "did you mean theta?")

    def test_a_module_that_does_not_compile_is_shown_with_its_line(self):
        self.write("broken", "Override broken() { return rotaton; }")
        message = self.refusal("broken", 2, "broken.cpp does not compile", "'rotaton' was not declared")
        self.assertRegex(message, r"broken\.cpp:\d+:\d+: error")

    def test_an_initialiser_that_throws_is_an_error_of_its_module(self):
        self.write("early", 'static int angles() { throw std::runtime_error("no table of angles"); }\nconst int kAngles = '
                            'angles();\nOverride early() { return override<CosSinRoPEConfig>({}, rotation); }')
        self.refusal("early", 1, "early.cpp failed while it was loaded", "namespace scope: no table of angles")

    @unittest.skipUnless(HAS_TORCH, "built without torch")
    def test_an_initialiser_that_asks_for_a_missing_device_is_an_error_of_its_module(self):
        (self.folder / "absent.cpp").write_text(
            "#include <titan/kernels.h>\nusing namespace titan;\n"
            "const at::Tensor kTable = at::empty({3}, at::TensorOptions().device(at::kIPU));\n")
        message = self.refusal("absent", 1, "absent.cpp failed while it was loaded", "'IPU' backend")
        self.assertLess(len(re.sub(r"\[titan\].*\n", "", message).splitlines()), 3, message)

    def test_functions_may_have_the_names_none_and_exports(self):
        names = ["none", "exports", "call", "name", "settings"]
        self.write("odd_names", "\n".join(f'Override {name}() {{ return override<CosSinRoPEConfig>('
                                          f'{{.fqns = {{"layers.{i}.*"}}}}, rotation); }}' for i, name in enumerate(names[:4])))
        (self.folder / "odd_configs.cpp").write_text("#include <titan/recipes.h>\nusing namespace titan;\n" + "".join(
            f"TrainerConfig {name}() {{ return qwen3::qwen3_demo(); }}\n" for name in names))
        lines = self.lines(self.config("odd_names"))
        self.assertEqual([re.match(r"\[Override\] (\w+): ", line).group(1) for line in lines[:-1]], names[:4])
        self.assertEqual(self.lines(self.config("odd_names.none"))[-1], "Applied 1 override(s)")
        for name in names:
            self.assertEqual(len(self.lines(self.config("odd_names", base=["--module", "odd_configs", "--config", name]))), 5)

    def test_a_function_that_the_preprocessor_leaves_out_is_not_there(self):
        self.write("left_out", "#if 0\nOverride gone() { return {}; }\n#endif\n"
                               "Override there() { return override<CosSinRoPEConfig>({}, rotation); }")
        self.assertEqual(self.lines(self.config("left_out"))[-1], "Applied 4 override(s)")

    def test_a_description_is_told_once_under_its_overrides_first_line(self):
        self.write("told", 'Override one() { return override<CosSinRoPEConfig>({.fqns = {"layers.[01].*"}, '
                           '.description = "turns by\\n a table"}, rotation); }\n'
                           'Override other() { return override<CosSinRoPEConfig>({.fqns = {"layers.2.*"}}, rotation); }')
        result = self.config("told")
        self.assertEqual(result.returncode, 0, result.stderr)
        replaced = "[Override] {}: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> Rotation"
        self.assertEqual(result.stdout.splitlines()[:5], [replaced.format("one", 0), "  one: turns by a table",
                                                          replaced.format("one", 1), replaced.format("other", 2),
                                                          "Applied 3 override(s)"])

    def test_what_is_no_exception_is_named_with_its_override_and_node(self):
        self.write("thrown_5", 'Override thrown_5() { return override<CosSinRoPEConfig>({}, [](const CosSinRoPEConfig&) '
                               '-> Rotation { throw 5; }); }')
        self.refusal("thrown_5", 1, "override 'thrown_5' at model_spec.model.layers.0.attention.rope: "
                                    "something that is no std::exception was thrown")
        self.write("sooner_5", 'Override sooner_5() { throw 5; }\nTrainerConfig config_5() { throw 5; }')
        self.refusal("sooner_5", 1, "sooner_5 in ", "sooner_5.cpp failed: something that is no std::exception was thrown")
        result = self.config("sooner_5", base=["--module", "sooner_5", "--config", "config_5"])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("sooner_5.cpp failed: something that is no std::exception was thrown", result.stderr)
        self.assertIn("config_5 in ", result.stderr)
        self.write("valid_5", 'struct Picky : Rotation { void describe(Fields& f) { f.base<Rotation>(*this); }\n'
                              '  void validate(const TrainerConfig&) const { throw 5; } };\nOverride valid_5() { return '
                              'override<CosSinRoPEConfig>({}, [](const CosSinRoPEConfig& c) { return derive<Picky>(c); }); }')
        self.refusal("valid_5", 1, "model_spec.model.layers.0.attention.rope: something that is no std::exception was thrown")
        self.write("early_5", 'static int angles() { throw 5; }\nconst int kAngles = angles();\n'
                              'Override early_5() { return override<CosSinRoPEConfig>({}, rotation); }')
        self.refusal("early_5", 1, "early_5.cpp failed while it was loaded",
                     "namespace scope: something that is no std::exception was thrown")

    def test_what_is_imported_twice_is_named(self):
        self.write("again", 'Override first() { return override<CosSinRoPEConfig>({.fqns = {"layers.0.*"}}, rotation); }\n'
                            'Override second() { return override<CosSinRoPEConfig>({.fqns = {"layers.1.*"}}, rotation); }\n')
        self.refusal("again.first,again.first", 2, "override.imports names again.first twice")
        self.refusal("again,again", 2, "override.imports names again twice")
        self.refusal("again.second,again", 2, "override.imports: again.second and again are both second in ", "again.cpp")
        self.refusal("./again.cpp,again", 2, "override.imports: ./again.cpp and again are both first in ")
        # One function may make several overrides, by their names.
        self.write("named", """struct Which {
  std::string layer = "0";
  void describe(Fields& f) { f("layer", layer, "which"); }
};
Override of_layer(const Which& which) {
  return override<CosSinRoPEConfig>({.name = "of_" + which.layer, .fqns = {"layers." + which.layer + ".*"}}, rotation);
}
""")
        both = self.lines(self.config('named.of_layer={"layer": "1"},named.of_layer={"layer": "3"}'))
        self.assertEqual(both[-1], "Applied 2 override(s)")

    def test_an_override_that_was_made_by_hand_without_a_target_is_named(self):
        self.write("by_hand", 'Override by_hand() { return {}; }')
        self.refusal("by_hand", 2, "override 'by_hand' has no target type: make it with override<TYPE>(")

    def test_macros_with_arguments_may_stand_at_file_scope(self):
        self.write("macros", """#define OPERATORS(ns, m) static int ns##_##m(int m)
#define KEEP(x)
OPERATORS(mine, x) { return x; }
KEEP(1)
Override after_macros() { (void)mine_x(1); return override<CosSinRoPEConfig>({}, rotation); }
""")
        self.assertEqual(self.lines(self.config("macros.after_macros"))[-1], "Applied 4 override(s)")

    def test_a_word_with_a_slash_is_a_path_and_may_lack_its_ending(self):
        (self.folder / "here").mkdir()
        text = 'Override turned() { return override<CosSinRoPEConfig>({}, rotation); }\n'
        self.write("here/slashed", text + "TrainerConfig demo() { return qwen3::qwen3_demo(); }")
        self.write('here/quo"ted\\', text)  # what an #include has its own mind about
        for target in ["./here/slashed", f"{self.folder}/here/slashed.turned", "here/../here/slashed.cpp", './here/quo"ted\\']:
            self.assertEqual(self.lines(self.config(target))[-1], "Applied 4 override(s)", target)
        run = self.config("here/slashed", base=["--module", "./here/slashed", "--config", "demo"])
        self.assertEqual(self.lines(run)[-1], "Applied 4 override(s)")
        for target in ["./here/slashes", "./here/slashes.turned"]:
            self.refusal(target, 2, f"no module './here/slashes': there is no file {self.folder}/here/slashes, nor with .cpp",
                         "did you mean slashed?")

    def test_what_has_the_name_of_a_module_and_is_no_file_is_named(self):
        (self.folder / "a_folder.cpp").mkdir()
        os.mkfifo(self.folder / "a_pipe.cpp")
        (self.folder / "a_link.cpp").symlink_to("nowhere")
        for name in ["a_folder", "a_pipe", "a_link", "./a_link"]:
            self.refusal(name, 2, f"no module '{name}': {self.folder}/{name.removeprefix('./')}.cpp is no file")

    def test_exact_on_a_base_type_names_what_derives_from_it(self):
        self.write("exact_base", 'Override exact_base() { return override<RoPEConfig>({.exact = true}, '
                                 '[](const RoPEConfig& config) { return config; }); }')
        self.assertIn("no node of type RoPEConfig (exact); derived from it: CosSinRoPEConfig\n", self.config("exact_base").stderr)

    def test_a_header_that_was_asked_for_and_comes_later_compiles_again(self):
        self.write("asks", '#if __has_include("later.h")\n#include "later.h"\n#endif\n'
                           'Override asks() { return override<CosSinRoPEConfig>({.fqns = {kFqns}}, rotation); }')
        text = (self.folder / "asks.cpp").read_text()
        (self.folder / "asks.cpp").write_text(text.replace("#if", 'static const char* kFqns = "layers.0.*";\n#if'))
        self.assertEqual(self.lines(self.config("asks"))[-1], "Applied 1 override(s)")
        (self.folder / "later.h").write_text('#define kFqns "layers.[12].*"\n')
        self.assertEqual(self.lines(self.config("asks"))[-1], "Applied 2 override(s)")

    def test_a_contract_that_every_layer_breaks_is_reported_for_the_first(self):
        self.write("picky", 'struct Picky : Rotation { void describe(Fields& f) { f.base<Rotation>(*this); }\n'
                            '  void validate(const TrainerConfig& c) const { throw ValueError("not {}", c.training.seq_len); } };\n'
                            'Override picky() { return override<CosSinRoPEConfig>({}, [](const CosSinRoPEConfig& c) { return '
                            'derive<Picky>(c); }); }')
        self.refusal("picky", 1, "model_spec.model.layers.0.attention.rope: not ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
