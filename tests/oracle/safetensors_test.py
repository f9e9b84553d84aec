"""The safetensors package and titan read each other's files."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

UNIT = pathlib.Path(os.environ["TITAN_BUILD_DIR"]) / "bin" / "unit_torch"


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else tensor.flatten()


def pass_through(folder):
    """titan reads in.safetensors and writes out.safetensors."""
    environment = dict(os.environ, TITAN_EXCHANGE_FOLDER=str(folder))
    done = subprocess.run(
        [UNIT, "--no-skip", "--test-case=a file passes through unchanged"],
        env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    assert "test cases: 1 | 1 passed" in " ".join(done.stdout.split()), done.stdout


class SafetensorsTest(unittest.TestCase):
    def exchange(self, tensors, metadata=None):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            save_file(tensors, folder / "in.safetensors", metadata=metadata)
            pass_through(folder)
            out = folder / "out.safetensors"
            with safe_open(out, framework="pt") as file:
                self.assertEqual(file.metadata(), {"format": "pt"})
            header_length = int.from_bytes(out.read_bytes()[:8], "little")
            self.assertEqual(header_length % 8, 0)
            json.loads(out.read_bytes()[8:8 + header_length])
            back = load_file(out)
        self.assertEqual(back.keys(), tensors.keys())
        for key, tensor in tensors.items():
            self.assertEqual(back[key].dtype, tensor.dtype, key)
            self.assertEqual(back[key].shape, tensor.shape, key)
            self.assertTrue(torch.equal(bits(back[key]), bits(tensor)), key)

    def test_every_dtype(self):
        torch.manual_seed(0)
        dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
                  torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.uint16,
                  torch.uint32, torch.uint64, torch.complex64]
        self.exchange({f"layer.{i}": (torch.randn(3, 5) * 9).to(dtype) for i, dtype in enumerate(dtypes)})

    def test_shapes_names_and_metadata(self):
        self.exchange({"scalar": torch.tensor(1.5), "empty": torch.zeros(0, 4), "long": torch.zeros(*[1] * 9),
                       "q\"uote \\ \u00e9 \u4e2d.weight": torch.ones(2)}, {"format": "pt", "who": "python"})

    def test_special_values_keep_their_bits(self):
        values = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
        self.exchange({"f32": values, "bf16": values.bfloat16(), "f16": values.half(), "u8": torch.tensor([7, 8, 9],
                                                                                               dtype=torch.uint8)})


if __name__ == "__main__":
    unittest.main()
