"""Modules as files: which of two of one name is taken, what is missing in one, and libraries that cannot be loaded."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = Path(os.environ["TITAN"]).resolve()

MODULE = """#include <titan/recipes.h>
#include <exception>
using namespace titan;
"""
STEPS = MODULE + "TrainerConfig a() { auto c = qwen3::qwen3_demo(); c.training.steps = %d; return c; }\n"


class ModulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="titan_modules."))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def write(self, name, text):
        (self.folder / f"{name}.cpp").write_text(text)

    def config(self, module, *words, titan=TITAN):
        env = {**os.environ, "TITAN_CACHE_DIR": str(self.folder / "cache"), "TITAN_MODULE_PATH": ""}
        return subprocess.run([titan, "config", "--module", module, *words], capture_output=True, text=True, cwd=self.folder,
                              env=env, timeout=300)

    def output(self, *words):
        result = self.config(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refusal(self, code, *words, **options):
        result = self.config(*words, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("titan: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertNotIn("terminate called", result.stderr)
        return errors[0]

    def test_the_source_is_taken_before_a_library_of_its_name_and_the_library_without_it(self):
        self.write("both", STEPS % 11)
        self.output("both", "--compile-to", "both.so")
        self.write("both", STEPS % 12)
        words = ["--config", "a", "--diff"]
        self.assertIn("training.steps: 10000 -> 12\n", self.output("both", *words))
        self.assertIn("training.steps: 10000 -> 11\n", self.output("both.so", *words))
        (self.folder / "both.cpp").unlink()
        self.assertIn("training.steps: 10000 -> 11\n", self.output("both", *words))

    def test_a_library_that_is_cut_short_is_refused_before_it_is_loaded(self):
        self.write("cut", STEPS % 11)
        self.output("cut", "--compile-to", "whole.so")
        whole = (self.folder / "whole.so").read_bytes()
        stamp = whole.index(b"titan-module-stamp:headers=")
        for size in (len(whole) - 1, (stamp + len(whole)) // 2):
            (self.folder / "part.so").write_bytes(whole[:size])
            with self.subTest(size=size):
                self.assertIn(f"part.so is cut off: it has {size} bytes and its header tells of ",
                              self.refusal(1, "part", "--config", "a"))

    def test_a_module_of_overrides_alone_has_no_config_functions(self):
        self.write("none", MODULE + "Override x() { return override<CosSinRoPEConfig>({}, "
                                    "[](const CosSinRoPEConfig& config) { return config; }); }\n")
        self.assertIn("none.cpp has no config functions: functions at file scope, not static nor made by a macro, that",
                      self.refusal(2, "none", "--config", "a"))

    def test_the_nearest_module_is_a_file(self):
        (self.folder / "nearest.cpp").mkdir()
        message = self.refusal(2, "nearst", "--config", "a")
        self.assertIn("there is no nearst.cpp or nearst.so in ", message)
        self.assertNotIn("nearest", message)
        self.write("nearst_", "")
        self.assertIn("did you mean nearst_?", self.refusal(2, "nearst", "--config", "a"))

    def test_an_initialiser_that_ends_the_program_is_an_error_of_its_module(self):
        for name, body, says in [("strict", "throw ValueError(\"no table of {}\", 9);", "no table of 9"),
                                 ("ends", "std::terminate();", "it called std::terminate")]:
            self.write(name, MODULE + f"static int table() noexcept {{ {body} }}\nconst int kTable = table();\n"
                                      "TrainerConfig a() { return {}; }\n")
            self.assertTrue(self.refusal(1, name, "--config", "a").endswith(
                f"{name}.cpp failed while it was loaded, in the initialisation of a variable at namespace scope: {says}"))


if __name__ == "__main__":
    unittest.main()
