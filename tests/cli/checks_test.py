"""The checks in tools/ find what they are for: each rule is broken once in a small tree."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(os.environ["TITAN_SOURCE_DIR"]) / "tools"
sys.path.insert(0, str(TOOLS))
import check_headers  # noqa: E402
import check_layering  # noqa: E402
import check_words  # noqa: E402

GOOD = {
    "titan/base/error.h": "#pragma once\n",
    "titan/base/json.cpp": "#include <nlohmann/json.hpp>\n",
    "titan/config/poly.h": '#pragma once\n#include "titan/base/error.h"\n',
    "titan/nn/linear.h": "#pragma once\n#include <ATen/core/Tensor.h>\n",
    "titan/ops/autograd.cpp": "#include <torch/csrc/autograd/custom_function.h>\n",
    "titan/train/trainer.cpp": '#include "titan/models/common/model.h"\n#include "titan/data/loader.h"\n',
}


class Layering(unittest.TestCase):
    def problems(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **files}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layering.check_tree(Path(folder))[0]

    def finds(self, pattern, name, text):
        problems = self.problems({name: text})
        self.assertEqual(len(problems), 1, problems)
        self.assertRegex(problems[0], pattern)

    def test_a_good_tree_has_no_problem(self):
        self.assertEqual(self.problems({}), [])

    def test_includes_go_one_way(self):
        self.finds(r"base/x\.cpp:2: .*layer base must not include layer config", "titan/base/x.cpp",
                   '#include "titan/base/error.h"\n#include "titan/config/poly.h"\n')
        self.finds("layer models must not include layer train", "titan/models/x.cpp", '#include "titan/train/t.h"\n')
        self.finds("layer data must not include layer checkpoint", "titan/data/x.cpp", '#include "titan/checkpoint/t.h"\n')
        self.finds("layer ops must not include layer nn", "titan/ops/x.cpp", '#include "titan/nn/linear.h"\n')

    def test_the_programs_are_above_all_layers(self):
        self.finds("program's header", "titan/train/x.cpp", '#include "apps/titan/commands.h"\n')
        self.assertEqual(self.problems({"apps/titan/torch_commands/x.cpp": '#include "titan/train/t.h"\n'}), [])

    def test_a_new_layer_must_be_placed(self):
        self.finds("unknown layer new", "titan/new/x.cpp", '#include "titan/base/error.h"\n')

    def test_umbrella_headers_are_forbidden_everywhere(self):
        for header in ("torch/torch.h", "torch/nn.h", "torch/nn/module.h", "ATen/ATen.h"):
            self.finds(header, "tests/unit/x.cpp", f"#include <{header}>\n")

    def test_heavy_headers_only_in_listed_files(self):
        self.finds(r"heavy header torch/library\.h", "titan/nn/x.cpp", "#include <torch/library.h>\n")
        problems = self.problems({"titan/ops/operator.h": "#pragma once\n#include <torch/library.h>\n",
                                  "titan/nn/x.cpp": '#include "titan/ops/operator.h"\n'})
        self.assertEqual(len(problems), 1, problems)
        self.assertRegex(problems[0], r"nn/x\.cpp: reaches a heavy header: .* -> titan/ops/operator\.h -> torch/library\.h")

    def test_torch_free_files_must_not_reach_torch(self):
        self.finds("must do without torch", "titan/data/x.cpp", "#include <c10/util/Half.h>\n")
        self.finds(r"must do without torch, but reaches it: .* -> titan/nn/linear\.h -> ATen/core/Tensor\.h",
                   "titan/nn/x_config.h", '#pragma once\n#include "titan/nn/linear.h"\n')
        self.finds("must do without torch", "apps/titan/commands/x.cpp", '#include "titan/nn/linear.h"\n')

    def test_json_has_one_door(self):
        self.finds("nlohmann", "titan/base/x.cpp", "#include <nlohmann/json.hpp>\n")

    def test_files_stay_small(self):
        self.finds(r"601 lines; at most 600", "titan/base/x.cpp", "\n" * 601)
        self.assertEqual(self.problems({"titan/base/x.cpp": "\n" * 600}), [])

    def test_headers_are_guarded_and_open_no_namespace(self):
        self.finds("no #pragma once", "titan/base/x.h", "struct X;\n")
        self.finds("using-directive", "titan/base/x.h", "#pragma once\nusing namespace std;\n")

    def test_the_trainer_names_no_model(self):
        self.finds("must not name a model", "titan/train/x.cpp", '#include "titan/models/qwen3/model.h"\n')


class Words(unittest.TestCase):
    def test_paths_of_one_machine_and_other_hosts_are_found(self):
        for text in ("cd /ho" + "me/me/titan", 'x = "/wo' + 'rk/main"', "(/ro" + "ot/.cache)"):
            self.assertEqual(len(check_words.problems_in("x", text)), 1, text)
        problems = check_words.problems_in("x", "a\nsee https:" + "//packages.example.org/simple")
        self.assertEqual(problems, ["x:2: the host packages.example.org"])

    def test_what_every_machine_has_is_allowed(self):
        for text in ("/usr/bin/env", "/tmp/x", "/dev/null", "$HOME/work/x", "./opt/x", "https://github.com/a/b"):
            self.assertEqual(check_words.problems_in("x", text), [], text)


class Headers(unittest.TestCase):
    def compiled(self, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "x.h").write_text(text)
            return check_headers.compile_header("x.h", ["c++"], [f"-I{folder}"], Path(folder))[1]

    def test_a_header_that_leans_on_others_fails(self):
        self.assertEqual(self.compiled("#pragma once\n#include <string>\nstd::string f();\n"), 0)
        self.assertNotEqual(self.compiled("#pragma once\nstd::string f();\n"), 0)

    def test_a_header_without_guard_fails(self):
        self.assertNotEqual(self.compiled("struct X {};\n"), 0)


class Documents(unittest.TestCase):
    def run_docs(self, text):
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "x.md"
            document.write_text(text)
            done = subprocess.run([sys.executable, str(TOOLS / "run_docs.py"), str(document), folder],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def test_blocks_run_in_order_in_one_shell(self):
        code, text = self.run_docs("```sh\nx=1\nmkdir d && cd d\n```\n```cpp\n// file: a.cpp\n```\n"
                                   "```console\n$ echo $x $(ls)\n1 ...a.cpp\n```\n")
        self.assertEqual(code, 0, text)
        self.assertIn("2 blocks of commands ran", text)

    def test_a_failing_command_is_named_by_line(self):
        code, text = self.run_docs("text\n```sh\ntrue\n```\n\n```sh\necho said\nfalse\necho after\n```\n")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"(?s)x\.md:6: a command failed with 1.*said")

    def test_output_that_is_shown_must_come(self):
        code, text = self.run_docs("```console\n$ printf 'a\\nb\\n'\nb\na\n```\n")
        self.assertEqual(code, 1)
        self.assertIn("this line did not come: a", text)

    def test_make_lines_must_name_targets(self):
        self.assertEqual(self.run_docs("```sh\nmake demo\n```\n")[0], 0)
        self.assertEqual(self.run_docs("```sh\nmake dmeo\n```\n")[0], 1)

    def test_a_clone_is_this_tree(self):
        self.assertEqual(self.run_docs("```sh\ngit clone https://github.com/a/titan.cpp && cd titan.cpp\nls Makefile\n```\n"),
                         (0, "x.md: 1 blocks of commands ran\n"))

    def test_a_block_without_a_known_language_is_refused(self):
        self.assertIn("is none of", self.run_docs("```\nls\n```\n")[1])
        self.assertIn("is not closed", self.run_docs("```sh\nls\n")[1])


class Targets(unittest.TestCase):
    def planned(self, *args):
        env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
        return subprocess.run(["make", "-n", "-C", str(TOOLS.parent), *args], capture_output=True, text=True, env=env)

    def test_the_demo_builds_the_program_and_no_test(self):
        planned = self.planned("demo").stdout
        self.assertIn("--target titan_program", planned)
        self.assertNotIn("ctest", planned)
        self.assertNotIn("--oracles", planned)
        self.assertEqual(planned.count("cmake --build"), 1)

    def test_the_tests_end_with_their_summary(self):
        lines = self.planned("test").stdout.splitlines()
        self.assertTrue(lines[-1].startswith(("ctest", "make")), lines[-1])
        self.assertTrue(any(line.startswith("ctest --test-dir build/release --output-on-failure") for line in lines[-2:]))


if __name__ == "__main__":
    unittest.main()
