"""transformers builds the models that our config.json files describe, with the parameters that we count.

tests/golden/qwen3_hf_config.json is what titan writes for each flavor; a unit test compares it with the program.
"""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import torch
import transformers

SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
CONFIGS = json.loads((SOURCE / "tests/golden/qwen3_hf_config.json").read_text())


def counted_parameters():
    """Parameters by flavor, as the program counts them."""
    table = subprocess.run([os.environ["TITAN"], "config", "--status"], check=True, capture_output=True, text=True)
    rows = re.findall(r"^\| qwen3 (\S+) \| ([\d,]+) \|", table.stdout, re.M)
    return {flavor: int(count.replace(",", "")) for flavor, count in rows}


class HfConfig(unittest.TestCase):
    def test_every_flavor_has_as_many_parameters_in_transformers(self):
        ours = counted_parameters()
        self.assertEqual(set(ours), set(CONFIGS))
        for flavor, values in CONFIGS.items():
            with self.subTest(flavor=flavor):
                values = dict(values)
                config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
                with torch.device("meta"):
                    model = transformers.AutoModelForCausalLM.from_config(config)
                self.assertEqual(type(model).__name__, values["architectures"][0])
                self.assertEqual(sum(p.numel() for p in model.parameters()), ours[flavor])
                rope = config.rope_parameters
                self.assertEqual(rope["rope_theta"], values["rope_theta"])
                self.assertEqual(rope["rope_type"], "default")


if __name__ == "__main__":
    unittest.main()
