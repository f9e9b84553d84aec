"""Modules with kernels: what their namespace scope records is registered, or refused with a message, after the load."""

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

MODULE = """
#include <titan/ops/nki_op.h>
#include <titan/recipes.h>
using namespace titan;
static const auto copy = nki_op("{name}", [](const at::Tensor& x) {{ return x.clone(); }});
{more}
Override {override}() {{
  return override<CosSinRoPEConfig>({{}}, [](const CosSinRoPEConfig& config) {{ return config; }});
}}
"""


@unittest.skipUnless((Path(TITAN).resolve().parent.parent / "lib" / "libtitan.so").exists(), "built without torch")
class KernelModulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="titan_kernel_modules."))
        cls.env = {**os.environ, "TITAN_CACHE_DIR": str(cls.folder / "cache")}
        cls.env.pop("NEURON_LOGICAL_NC_CONFIG", None)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def config(self, *words, cwd=None, **env):
        return subprocess.run([TITAN, "config", *DEMO, *words], capture_output=True, text=True, cwd=cwd or self.folder,
                              env={**self.env, **env}, timeout=300)

    def refusal(self, *words, code=2, **options):
        result = self.config(*words, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("terminate", result.stderr)
        return result.stderr

    def write(self, module, name, more=""):
        (self.folder / f"{module}.cpp").write_text(MODULE.format(name=name, more=more, override=module))

    def test_the_guides_example_lists_what_it_replaces_and_refuses_a_length(self):
        words = ["--override.imports", "my_neuron_kernels", "--training.seq_len"]
        result = self.config(*words, "512", cwd=EXAMPLES)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line for line in result.stdout.splitlines() if line.startswith("[Override]")]
        replaced = "[Override] nki_rope: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> NKIRoPE.Config"
        self.assertEqual(lines, [replaced.format(layer) for layer in range(4)])
        contract = "rope_hf requires a sequence length that is a multiple of 128 * LNC={}, got {}"
        self.assertEqual(self.refusal(*words, "384", cwd=EXAMPLES, code=1).count(contract.format(256, 384)), 1)
        # One physical core a logical one: 384 is a multiple of 128.
        one = self.config(*words, "384", cwd=EXAMPLES, NEURON_LOGICAL_NC_CONFIG="1")
        self.assertEqual(one.returncode, 0, one.stderr)
        message = self.refusal(*words, "384", cwd=EXAMPLES, NEURON_LOGICAL_NC_CONFIG="three")
        for part in ["my_neuron_kernels.cpp", "NEURON_LOGICAL_NC_CONFIG must be 1 or 2", "got three"]:
            self.assertIn(part, message)

    def test_training_with_the_guides_example_gives_the_numbers_of_the_run_without_it(self):
        for device in ["cpu", "neuron"]:
            plain, replaced = self.train(device), self.train(device, "--override.imports", "my_neuron_kernels")
            self.assertEqual(len(plain), 2)
            self.assertEqual(replaced, plain)

    def train(self, device, *words):
        """(loss, gradient norm) of each step as printed; rows hold several documents."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        env = {"TITAN_NEURON_STATE_DIR": str(folder / "state"), "TORCH_NEURONX_NEFF_CACHE_DIR": str(folder / "neff")}
        sizes = ["--training.steps", "2", "--training.seq_len", "256", "--training.local_batch_size", "2"]
        result = subprocess.run(
            [TITAN, "train", *DEMO, *sizes, "--metrics.log_freq", "1", "--training.dtype", "float32", "--device", device,
             "--validator.no-enable", "--checkpoint.no-enable", "--dump_folder", str(folder / "out"), *words],
            capture_output=True, text=True, cwd=EXAMPLES, env={**self.env, **env}, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
        self.assertEqual(text.count("[Override] nki_rope: "), 4 if words else 0)
        return re.findall(r"step: +\d+ +loss: +(\S+) +grad_norm: +(\S+)", text)

    def test_operators_that_cannot_be_registered_are_named_with_their_module(self):
        self.write("first", "my_kernels::copy")
        again = 'static const auto again = nki_op("my_kernels::copy", [](const at::Tensor& x) { return x.clone(); });'
        self.write("second", "aten::copy", again)
        self.assertEqual(self.config("--override.imports", "first").returncode, 0)
        message = self.refusal("--override.imports", "first,second")
        for part in ["second.cpp: nki_op aten::copy: the namespace aten is torch's",
                     "second.cpp: nki_op my_kernels::copy: an operator of that name is there already, registered by ",
                     "first.cpp"]:
            self.assertIn(part, message)

    def test_an_operator_that_is_called_at_namespace_scope_ends_with_a_message(self):
        self.write("early", "my_kernels::early", "static const at::Tensor none = copy(at::Tensor());")
        message = self.refusal("--override.imports", "early", code=1)
        self.assertIn("my_kernels::early is called before it is registered", message)


if __name__ == "__main__":
    unittest.main()
