"""The library that brings the `neuron` device: which one a run takes, and how each that is wrong is refused."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
BUILD = Path(os.environ["TITAN_BUILD_DIR"])
PROVIDERS = BUILD / "lib" / "neuron_providers"

TINY = ["--training.steps", "2", "--training.seq_len", "32", "--training.local_batch_size", "2",
        "--metrics.log_freq", "1", "--metrics.disable_color_printing", "--checkpoint.no_enable", "--debug.seed", "1"]


class ProviderCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def train(self, *args, provider=None, **env):
        surroundings = {name: value for name, value in os.environ.items() if "NEURON" not in name}
        surroundings.update(TITAN_NEURON_STATE_DIR=str(self.root / "state"),
                            TORCH_NEURONX_NEFF_CACHE_DIR=str(self.root / "cache"), **env)
        if provider:
            surroundings["TITAN_NEURON_PROVIDER"] = str(provider)
        command = [TITAN, "train", "--module", "qwen3", "--config", "qwen3_demo", *TINY, "--dump_folder",
                   str(self.root / "out"), *args]
        return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=200)

    def refused(self, code, *words, **options):
        run = self.train(**options)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertNotIn("Building qwen3", run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)


class Refusals(ProviderCase):
    """With and without --device neuron: a provider that is named and cannot be had is no reason for the CPU."""

    def refused_provider(self, code, name, *words, **env):
        path = PROVIDERS / f"{name}.so"
        self.assertTrue(path.exists(), path)
        self.refused(code, "TITAN_NEURON_PROVIDER", *words, provider=path, **env)

    def test_a_library_that_is_not_there(self):
        self.refused(2, "TITAN_NEURON_PROVIDER: /nowhere/libdevice.so", "is not there", "'emulator'",
                     provider="/nowhere/libdevice.so")

    def test_a_file_that_is_no_library(self):
        text = self.root / "device.so"
        text.write_text("not a library\n")
        self.refused(2, str(text), "cannot be opened", "'emulator'", provider=text)

    def test_a_library_that_was_cut_off(self):
        whole = (PROVIDERS / "fails.so").read_bytes()
        for share in (0.3, 0.9):
            cut = self.root / f"cut-{share}.so"
            cut.write_bytes(whole[:int(len(whole) * share)])
            self.refused(2, str(cut), "is cut off", provider=cut)

    def test_what_is_no_file(self):
        loop = self.root / "loop.so"
        loop.symlink_to(loop)
        self.refused(2, str(self.root), "is no file", provider=self.root)
        self.refused(2, "/dev/null", "is no file", provider="/dev/null")
        self.refused(2, str(loop), "is not there", provider=loop)
        self.refused(2, "did you mean emulator?", provider="Emulator")

    def test_a_library_without_the_function(self):
        self.refused_provider(2, "no_symbol", "is no provider of a device: it exports no titan_device_provider")

    def test_another_abi(self):
        header = (Path(os.environ["TITAN_SOURCE_DIR"]) / "titan" / "base" / "device_provider.h").read_text()
        own = re.search(r"kDeviceProviderAbi = (\d+);", header).group(1)
        self.refused_provider(2, "other_abi", "ABI 99", f"takes ABI {own};")

    def test_another_torch(self):
        self.refused_provider(2, "other_torch", "was built for torch 1.0.0", "runs on torch 2.13.0")

    def test_a_library_that_registers_another_name(self):
        self.refused_provider(2, "registers_other", "registers 'other', not neuron")

    def test_a_library_that_registers_no_device(self):
        self.refused_provider(2, "registers_nothing", "registers no device guard")

    def test_a_fault_of_the_environment(self):
        self.refused_provider(2, "fails", "NEURON_TEST=9: only 1 or 2; unset it", TITAN_TEST_FAULT="config")

    def test_a_fault_of_the_machine(self):
        self.refused_provider(1, "fails", "core 0 is taken by another process")

    def test_an_exception_is_reported(self):
        self.refused_provider(1, "fails", "failed while it started: the driver went away", TITAN_TEST_FAULT="throw")

    def test_the_cpu_needs_no_provider(self):
        on_cpu = self.train("--device", "cpu", provider="/nowhere/libdevice.so")
        self.assertEqual(on_cpu.returncode, 0, on_cpu.stderr)
        self.assertIn("CPU capacity: ", on_cpu.stderr)

    def test_all_ranks_fail_alike_before_they_meet(self):
        environment = {**os.environ, "TITAN_NEURON_PROVIDER": "/nowhere/libdevice.so"}
        command = [TITAN, "torchrun", "--nproc_per_node=2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
                   "-m", "titan.train", "--module", "qwen3", "--config", "qwen3_demo", *TINY, "--dump_folder",
                   str(self.root / "out")]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("is not there", run.stderr + run.stdout)
        self.assertNotIn("Successfully created meshes", run.stderr + run.stdout)


if __name__ == "__main__":
    unittest.main()
