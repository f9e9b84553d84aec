"""Training against PyTorch: ten AdamW steps with accumulation, clipping, schedule and validation, from the same weights
on the same rows. The oracle runs in float64, so that only our own rounding is measured: at this rate PyTorch's own
float32 run strays from it by up to 1e-3 in the gradient norm."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])


def compare(*flags):
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        subprocess.run([sys.executable, SOURCE / "tools/compare_with_pytorch.py", "--titan", os.environ["TITAN"], "--json",
                        result, *flags], check=True, stdout=subprocess.PIPE)
        return json.loads(result.read_text())


class TenSteps(unittest.TestCase):
    def test_ten_steps_follow_the_exact_curve(self):
        result = compare("--steps", "10", "--global-batch-size", "8", "--lr", "2e-3", "--float64")
        self.assertLess(result["max_loss_difference"], 1e-5)
        self.assertLess(result["max_grad_norm_difference"], 1e-4)
        self.assertLess(result["validation_difference"], 1e-5)
        self.assertLess(result["last_loss"], 0.85 * result["first_loss"], "nothing was learnt, so nothing was compared")


if __name__ == "__main__":
    unittest.main()
