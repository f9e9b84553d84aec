"""An installed copy works from an empty folder, without the tree that it was built from."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = os.environ["TITAN_SOURCE_DIR"]
BUILD = os.environ["TITAN_BUILD_DIR"]

MODULE = """
#include <titan/recipes.h>
using namespace titan;

TrainerConfig small() {
  auto config = qwen3::qwen3_debugmodel();
  config.training.steps = 7;
  return config;
}
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.folder.name) / "prefix"
        cls.empty = Path(cls.folder.name) / "empty"
        cls.empty.mkdir()
        subprocess.run(["cmake", "--install", BUILD, "--prefix", str(cls.prefix)], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def titan(self, *args, text=""):
        env = {"PATH": f"{self.prefix}/bin:/usr/bin:/bin", "HOME": str(self.empty)}
        return subprocess.run(["titan", *args], cwd=self.empty, env=env, capture_output=True, text=True, input=text)

    def test_the_copy_holds_program_libraries_headers_and_data(self):
        for path in ("bin/titan", "lib/libtitan_core.so", "lib/libtitan.so", "include/titan/recipes.h",
                     "share/titan/LICENSE", "share/titan/tests/assets/tokenizer/tokenizer.json"):
            self.assertTrue((self.prefix / path).exists(), path)

    def test_nothing_points_back_at_the_build(self):
        for path in ("bin/titan", "lib/libtitan_core.so", "lib/libtitan.so"):
            dynamic = subprocess.run(["readelf", "-d", str(self.prefix / path)], capture_output=True, text=True).stdout
            self.assertIn("$ORIGIN", dynamic)
            self.assertNotIn(f"{BUILD}/", dynamic)

    def test_version_names_the_copy(self):
        about = json.loads(self.titan("version", "--json").stdout)
        self.assertEqual(about["path"], os.path.realpath(self.prefix / "bin/titan"))

    def test_a_command_on_torch_runs(self):
        done = self.titan("forward", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_user_s_module_compiles_against_the_copy(self):
        (self.empty / "mine.cpp").write_text(MODULE)
        done = self.titan("config", "--module", "mine", "--config", "small", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["training"]["steps"], 7)

    def test_an_example_s_kernels_compile_against_the_copy(self):
        shutil.copy(Path(SOURCE) / "examples" / "my_neuron_kernels.cpp", self.empty)
        done = self.titan("config", "--module", "qwen3", "--config", "qwen3_demo", "--override.imports", "my_neuron_kernels")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("model_spec.model.layers.0.attention.rope CosSinRoPEConfig -> NKIRoPE.Config",
                      done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
