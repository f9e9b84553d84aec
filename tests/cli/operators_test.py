"""Operators of modules: what their authors get wrong is said in their words, by the compiler or at the call."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]

MODULE = """
#include <titan/ops/nki_op.h>
#include <titan/recipes.h>
using namespace titan;
using at::Tensor;
{code}
Override replaced() {{
  return override<CosSinRoPEConfig>({{}}, [](const CosSinRoPEConfig& config) {{ return config; }});
}}
"""


@unittest.skipUnless((Path(TITAN).resolve().parent.parent / "lib" / "libtitan.so").exists(), "built without torch")
class OperatorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="titan_operators."))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def refusal(self, name, code, exit_code=2):
        """What `titan config` says of a module with this code, after "titan: error: "."""
        (self.folder / f"{name}.cpp").write_text(MODULE.format(code=code))
        result = subprocess.run([TITAN, "config", "--module", "qwen3", "--config", "qwen3_demo", "--override.imports", name],
                                capture_output=True, text=True, cwd=self.folder, timeout=300,
                                env={**os.environ, "TITAN_CACHE_DIR": str(self.folder / "cache")})
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        return result.stderr.split("titan: error: ", 1)[1]

    def test_a_type_that_no_schema_has_is_named_by_the_compiler(self):
        message = self.refusal("types", """
            static const auto takes = nki_op("my_ops::takes", [](const Tensor& x, int) { return x.clone(); });
            static const auto gives = nki_op("my_ops::gives", [](const Tensor& x) { return float(x.dim()); });""")
        allowed = "an nki_op takes and returns at::Tensor, std::vector<at::Tensor>, int64_t (not int), double (not float)"
        self.assertEqual(message.count(allowed), 2, message)
        self.assertNotIn("incomplete type", message)

    def test_a_tensor_of_neuron_at_namespace_scope_is_told_when_the_device_is_opened(self):
        code = "static const Tensor table = at::empty({{4}}, at::TensorOptions().device({}));"
        for name, device in {"by_name": 'at::Device("neuron")', "by_type": "at::kPrivateUse1"}.items():
            message = self.refusal(name, "#include <ATen/ops/empty.h>\n" + code.format(device), exit_code=1)
            self.assertIn(f"{name}.cpp failed while it was loaded", message)
            self.assertIn("(neuron is opened after the modules are loaded: make its tensors in functions): ", message)


if __name__ == "__main__":
    unittest.main()
