"""`titan train` on the emulated `neuron` device: the CPU's numbers, and what the log and the files say of the device."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]

RUN = ["--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "3", "--training.seq_len", "64",
       "--training.local_batch_size", "2", "--metrics.log_freq", "1", "--metrics.disable_color_printing",
       "--metrics.enable_jsonl", "--debug.seed", "1", "--checkpoint.enable", "--checkpoint.last_save_in_hf"]
ALONE = ["--validator.no_enable"]
VALIDATED = ["--validator.enable", "--validator.freq", "2", "--validator.steps", "2"]
COMPILED = re.compile(r"Neuron: (.*) compiled ([\d,]+) operators? \(emulated\), ([\d,]+) came from the disk cache; "
                      r"its time, simulated, a lower bound: (\d+\.\d{6})s$", re.MULTILINE)


class NeuronTrain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.runs = 0

    def tearDown(self):
        self.folder.cleanup()

    def train(self, *args, ranks=1, cache="cache", code=0, **env):
        """A run of these words; its log in `stderr`, its files in `out`."""
        surroundings = {name: value for name, value in os.environ.items() if "NEURON" not in name}
        surroundings.update(TITAN_NEURON_STATE_DIR=str(self.root / "state"),
                            TORCH_NEURONX_NEFF_CACHE_DIR=str(self.root / cache), **env)
        out = self.root / f"run{self.runs}"
        self.runs += 1
        program = ["train"] if ranks == 1 else [
            "torchrun", f"--nproc_per_node={ranks}", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
            "--local-ranks-filter", "0", "--role", "rank", "--tee", "3", "-m", "titan.train"]
        run = subprocess.run([TITAN, *program, *RUN, "--dump_folder", str(out), *args], env=surroundings,
                             capture_output=True, text=True, timeout=200)
        self.assertEqual(run.returncode, code, run.stderr)
        run.out, run.stderr = out, run.stderr + run.stdout
        return run

    def numbers(self, run):
        """The step and validation lines without what depends on the device and its speed."""
        lines = re.findall(r"(?:validate )?step: .*", run.stderr)
        self.assertTrue(lines, run.stderr)
        return [re.sub(r"  (NEURON )?memory: .*", "", line) for line in lines]

    def compiled(self, run):
        """What compiled how much: {"step 1": (compiled, from the disk cache)}."""
        return {what: (int(new), int(cached)) for what, new, cached, _ in COMPILED.findall(run.stderr)}

    def scalars(self, run, tag):
        lines = (run.out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)[tag] for line in lines if tag in line]

    def same_as_on_the_cpu(self, *args, ranks=1):
        cpu = self.train("--device", "cpu", *args, ranks=ranks)
        neuron = self.train("--device", "neuron", *args, ranks=ranks)
        self.assertEqual(self.numbers(cpu), self.numbers(neuron))
        saved = "checkpoint/step-3/model.safetensors"
        self.assertEqual((cpu.out / saved).read_bytes(), (neuron.out / saved).read_bytes())
        self.assertNotIn("NEURON", cpu.stderr)
        self.assertEqual(self.scalars(cpu, "neuron/compilations"), [])
        return neuron

    def test_steps_validation_and_saved_weights_are_those_of_the_cpu(self):
        neuron = self.same_as_on_the_cpu(*VALIDATED)
        self.assertIn("NEURON capacity: neuron (emulated trn2 core 0, LNC 2) with 24.00GiB memory", neuron.stderr)
        for line in re.findall(r"(?:validate )?step: .*", neuron.stderr):
            self.assertRegex(line, r"  NEURON memory:  0\.\d\dGiB\(0\.\d\d%\)  ")

    def test_two_ranks_with_sharded_weights_give_the_numbers_of_the_cpu(self):
        self.same_as_on_the_cpu(*ALONE, ranks=2)

    def test_two_ranks_that_share_matrices_give_the_numbers_of_the_cpu(self):
        neuron = self.same_as_on_the_cpu(*ALONE, "--parallelism.tensor_parallel_degree", "2", ranks=2)
        # Matrices cut along columns are transposed to be saved: on the host.
        self.assertEqual(list(self.compiled(neuron)), ["step 1"])

    def test_a_provider_that_is_named_brings_the_device_without_a_flag(self):
        neuron = self.train(*ALONE, "--training.steps", "1", TITAN_NEURON_PROVIDER="emulator",
                            NEURON_LOGICAL_NC_CONFIG="1")
        self.assertIn("NEURON capacity: neuron (emulated trn2 core 0, LNC 1) with 12.00GiB memory", neuron.stderr)
        self.assertIn("Peak FLOPS used for computing MFU: 7.900e+13", neuron.stderr)
        self.assertIn("documented for neuron (emulated trn2 core 0, LNC 1)", neuron.stderr)

    def test_only_the_first_step_compiles_and_a_second_run_or_more_logging_does_not(self):
        first = self.train("--device", "neuron", *ALONE)
        (what, (new, cached)), = self.compiled(first).items()
        self.assertEqual((what, cached), ("step 1", 0))
        self.assertGreater(new, 10)
        self.assertEqual(self.scalars(first, "neuron/compilations"), [new, 0, 0])
        for bound in self.scalars(first, "neuron/step_lower_bound(s)"):
            self.assertGreater(bound, 0)

        quiet = self.train("--device", "neuron", *ALONE, "--metrics.log_freq", "5", "--checkpoint.no_enable",
                           cache="another")
        self.assertEqual(self.compiled(quiet), {"step 1": (new, 0)})
        again = self.train("--device", "neuron", *ALONE)
        self.assertEqual(self.compiled(again), {"step 1": (0, new)})
        longer = self.train("--device", "neuron", *ALONE, "--training.seq_len", "96")
        self.assertGreater(self.compiled(longer)["step 1"][0], 0)

    def test_a_model_that_its_core_cannot_hold_is_refused_before_it_is_made(self):
        run = self.train("--device", "neuron", *ALONE, code=1, TITAN_NEURON_HBM_GIB="0.05")
        self.assertIn("qwen3 demo needs 0.0547 GiB on every rank's core: weights (0.0137)", run.stderr)
        self.assertIn("A core has 0.0500 GiB of HBM (emulated); take a smaller flavor", run.stderr)
        self.assertNotIn("NEURON capacity", run.stderr)

    def test_what_does_not_fit_during_a_step_is_told_by_phase(self):
        run = self.train("--device", "neuron", *ALONE, "--training.local_batch_size", "32", code=1,
                         TITAN_NEURON_HBM_GIB="0.07")
        self.assertIn("Training starts at step 1", run.stderr)
        for phase in ("weights", "optimizer state", "forward"):
            self.assertRegex(run.stderr, rf"(?m)^{phase}: [\d.]+ MiB in \d+ tensors")


if __name__ == "__main__":
    unittest.main()
