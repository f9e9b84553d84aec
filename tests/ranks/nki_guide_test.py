"""The guide's own command line on its 64 ranks of the emulated device, with its kernel for the rotation and without: the nodes
that are replaced are said once, and every step has the bits of the run without the kernel."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
LIMIT = 420  # seconds, of one run
RANKS, STEPS, LAYERS = 64, 3, 4
LINE = ("torchrun --nproc_per_node=64 --rdzv_backend c10d --rdzv_endpoint localhost:0 --local-ranks-filter 0 --role rank "
        "--tee 3 -m torchtitan.train --module neuron_qwen3 --config native_qwen3_demo")

# As the guide's, of the flavor and the length that fit a test. In float32: in bfloat16 the kernel rounds where titan does not.
MODULE = """\
#include <titan/recipes.h>
using namespace titan;

Trainer::Config native_qwen3_demo() {
  auto config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("demo", {.attn_backend = AttnBackend::sdpa});
  config.hf_assets_path = absolute("%s");
  config.dataloader.dataset = "c4_test";
  config.training.steps = 3;
  config.training.seq_len = 256;
  config.training.local_batch_size = 1;
  config.training.global_batch_size = 64;
  config.training.mixed_precision_param = TrainingDtype::float32;
  config.parallelism.data_parallel_shard_degree = -1;
  config.debug.seed = 1;
  config.metrics.log_freq = 1;
  config.metrics.enable_jsonl = true;
  return config;
}
"""


class GuidesLine(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="titan_nki_guide_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "neuron_qwen3.cpp").write_text(MODULE % (SOURCE / "tests/assets/tokenizer"))
        shutil.copy(SOURCE / "examples/my_neuron_kernels.cpp", self.folder)

    def run_line(self, *words):
        kept = {name: value for name, value in os.environ.items() if "NEURON" not in name}
        done = subprocess.run([TITAN, *LINE.split(), *words], text=True, cwd=self.folder, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**kept, "HOME": str(self.folder), "XDG_CACHE_HOME": "", "TITAN_NUM_THREADS": "1",
                                   "TITAN_NEURON_PROVIDER": "emulator", "TITAN_NEURON_STATE_DIR": str(self.folder / "machine"),
                                   "TORCH_NEURONX_NEFF_CACHE_DIR": str(self.folder / "neff")})
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
        self.assertEqual(done.returncode, 0, text)
        self.assertEqual([line for line in text.splitlines() if not line.startswith("[rank0]:")], [])
        self.assertIn("NEURON capacity: neuron (emulated trn2 core 0, LNC 2)", text)
        self.assertIn(f"dp_shard={RANKS}", text)
        return [line.split(" - root - INFO - ")[-1] for line in text.splitlines()]

    def steps(self, folder):
        """(loss, gradient norm) of each step, as written."""
        records = [json.loads(line) for line in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]
        return [(record["loss_metrics/global_avg_loss"], record["grad_norm"]) for record in records]

    def test_it_replaces_every_rotation_and_trains_with_the_bits_of_the_run_without_it(self):
        texts = self.run_line("--override.imports", "my_neuron_kernels")
        replaced = [text for text in texts if text.startswith("[Override]")]
        line = "[Override] nki_rope: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> NKIRoPE.Config"
        self.assertEqual(replaced, [line.format(layer) for layer in range(LAYERS)])
        starts = [at for at, text in enumerate(texts) if text.startswith("Training starts at step 1")]
        self.assertEqual(len(starts), 1)
        self.assertLess(texts.index(replaced[-1]), starts[0], "said before training")
        self.assertEqual(texts[-1], "Training completed")
        plain = self.run_line("--dump_folder", "plain")
        self.assertFalse([text for text in plain if "Override" in text])
        with_kernel, without = self.steps("outputs"), self.steps("plain")
        self.assertEqual(len(without), STEPS)
        self.assertEqual(with_kernel, without)
        losses = [[re.search(r"loss: +(\S+)", text)[1] for text in said if text.startswith("step: ")]
                  for said in (texts, plain)]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(len(losses[0]), STEPS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
