"""Ranks on the emulated `neuron` device: every layout computes what it computes on the CPU, each rank has a core of its
own, which `titan devices` shows, and one rank's end is the end of all."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from job import LIMIT, Job

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
FOLDER = Path(tempfile.mkdtemp(prefix="titan_neuron_ranks_"))

COMMON = ["--module", "qwen3", "--config", "qwen3_demo", "--training.seq_len", "64", "--training.local_batch_size", "2",
          "--training.global_batch_size", "8",
          "--metrics.log_freq", "1", "--metrics.disable_color_printing", "--metrics.enable_jsonl",
          "--validator.no_enable", "--debug.seed", "1", "--checkpoint.last_save_in_hf"]
REPLICATE, SHARD, TENSOR = (f"--parallelism.{name}_degree"
                            for name in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel"))
BF16 = ["--training.mixed_precision_param", "bfloat16"]
FLOAT32 = ["--training.mixed_precision_param", "float32"]
COMPILED = re.compile(r"Neuron: (.*) compiled ([\d,]+) operators? ?\(emulated\), ([\d,]+) came from the disk cache")
GIB = 2**30


def surroundings(machine, **more):
    """The environment without what it says of Neuron, but for a machine and a disk cache of the test's own."""
    kept = {name: value for name, value in os.environ.items() if "NEURON" not in name}
    return {**kept, "TITAN_NEURON_STATE_DIR": str(FOLDER / machine), "TORCH_NEURONX_NEFF_CACHE_DIR":
            str(FOLDER / f"{machine}.cache"), "TITAN_NUM_THREADS": "1", "HOME": str(FOLDER), **more}


def launched(device, out, words, ranks=2):
    return [TITAN, "torchrun", f"--nproc_per_node={ranks}", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
            "--role", "rank", "--tee", "3", "--local-ranks-filter", "0", "-m", "titan.train", *COMMON, "--device", device,
            "--dump_folder", str(out), *words]


def train(device, *words, ranks=2, machine="machine", **more):
    """Exit code and log of a job, and the folder that it wrote."""
    out = Path(tempfile.mkdtemp(dir=FOLDER))
    done = subprocess.run(launched(device, out, words, ranks), capture_output=True, text=True, cwd=SOURCE,
                          env=surroundings(machine, **more), timeout=LIMIT)
    return done.returncode, done.stdout + done.stderr, out


def compiled(log):
    """{"step 1": (compiled, from the disk cache)}."""
    number = lambda text: int(text.replace(",", ""))
    return {what: (number(new), number(cached)) for what, new, cached in COMPILED.findall(log)}


class NeuronRanks(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)

    def same_as_on_the_cpu(self, *words, ranks):
        results = []
        for device in ("cpu", "neuron"):
            code, log, out = train(device, *words, "--training.steps", "3", ranks=ranks)
            self.assertEqual(code, 0, log)
            records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            numbers = [(record["loss_metrics/global_avg_loss"], record["grad_norm"]) for record in records]
            lines = re.findall(r"step: +\d+  loss: .*?  grad_norm: +\S+", log)
            weights = {file.name: file.read_bytes() for file in out.glob("checkpoint/step-3/*.safetensors")}
            self.assertEqual((len(numbers), len(lines)), (3, 3), log)
            self.assertTrue(weights)
            self.assertEqual("NEURON capacity" in log, device == "neuron")
            results.append((numbers, lines, weights))
        self.assertEqual(results[0], results[1])

    def test_sharded_ranks_give_the_bits_of_the_cpu(self):
        self.same_as_on_the_cpu(*FLOAT32, ranks=2)
        self.same_as_on_the_cpu(*BF16, ranks=2)

    def test_ranks_that_share_matrices_give_the_bits_of_the_cpu(self):
        for sequence in ("enable_sequence_parallel", "no_enable_sequence_parallel"):
            with self.subTest(sequence=sequence):
                self.same_as_on_the_cpu(*BF16, TENSOR, "2", f"--parallelism.{sequence}", ranks=2)
        self.same_as_on_the_cpu(*FLOAT32, TENSOR, "2", ranks=2)

    def test_two_axes_give_the_bits_of_the_cpu(self):
        for words in ([SHARD, "2", TENSOR, "2"], [REPLICATE, "2", SHARD, "2"]):
            with self.subTest(words=words):
                self.same_as_on_the_cpu(*BF16, *words, ranks=4)

    def devices(self, machine):
        """{rank: what `titan devices --json` says of its process}, with the device that it is on."""
        shown = subprocess.run([TITAN, "devices", "--json"], capture_output=True, text=True, timeout=LIMIT,
                               env=surroundings(machine))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return {process["rank"]: {**process, "device": device["neuron_device"]}
                for device in json.loads(shown.stdout) for process in device["neuron_processes"]}

    def nothing_is_held(self, machine):
        deadline = time.monotonic() + 10  # the kernel takes killed processes apart in its own time
        while self.devices(machine) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.devices(machine), {})

    def seen_while_training(self, machine, **more):
        """The ranks as `titan devices` shows them after a step, while the console shows rank 0 alone."""
        out = Path(tempfile.mkdtemp(dir=FOLDER))
        env = {name: value for name, value in surroundings(machine, **more).items() if "NEURON" in name}
        job = Job(launched("neuron", out, ["--training.steps", "100000", "--checkpoint.no_enable"]), FOLDER, SOURCE, **env)
        try:
            job.wait_for(r"step:  2 ")
            deadline = time.monotonic() + LIMIT
            while True:
                ranks = self.devices(machine)
                if len(ranks) == 2 or time.monotonic() > deadline:
                    return ranks
                time.sleep(0.1)
        finally:
            job.end()

    def test_ranks_take_cores_in_order_and_devices_shows_their_memory(self):
        ranks = self.seen_while_training("in_order")
        self.assertEqual({rank: process["neuroncore_id"] for rank, process in ranks.items()}, {0: 0, 1: 1})
        for process in ranks.values():
            self.assertGreater(process["hbm_allocated"], 2**20)
            self.assertGreaterEqual(process["hbm_peak"], process["hbm_allocated"])
            self.assertLess(process["hbm_peak"], GIB)
        self.nothing_is_held("in_order")

    def test_ranks_take_the_visible_cores_as_they_are_listed(self):
        ranks = self.seen_while_training("listed", NEURON_RT_VISIBLE_CORES="6,3")
        self.assertEqual({rank: process["neuroncore_id"] for rank, process in ranks.items()}, {0: 6, 1: 3})
        self.assertEqual({rank: process["device"] for rank, process in ranks.items()}, {0: 1, 1: 0})

    def test_only_new_shapes_compile_not_steps_logs_or_checkpoints(self):
        def run(*words):
            code, log, _ = train("neuron", "--training.steps", "3", *words, machine="compiles")
            self.assertEqual(code, 0, log)
            return compiled(log)
        bare = run("--checkpoint.no_enable", "--metrics.log_freq", "10")
        (new, cached), = bare.values()
        self.assertEqual(list(bare), ["step 1"])
        self.assertGreater(new + cached, 10)
        self.assertEqual(run(), {"step 1": (0, new + cached)}, "logging each step and saving compile nothing")
        self.assertGreater(run("--training.seq_len", "96")["step 1"][0], 0)

    def test_out_of_memory_on_a_rank_is_one_message_and_the_end_of_all(self):
        out = Path(tempfile.mkdtemp(dir=FOLDER))
        # What the check before training lets pass: weights fit, activations of a long batch do not.
        words = ["--training.steps", "2", "--training.local_batch_size", "32", "--training.global_batch_size", "64"]
        env = {name: value for name, value in surroundings("tight", TITAN_NEURON_HBM_GIB="0.06").items() if "NEURON" in name}
        job = Job(launched("neuron", out, words), FOLDER, SOURCE, **env)
        code, log = job.finish()
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"Training starts at step 1")
        # Once from rank 0, whose output is shown, and once from the launcher about the rank that failed first.
        self.assertIn(len(re.findall("NEURON out of memory", log)), (1, 2), log)
        self.assertEqual(len(re.findall("failed first", log)), 1, log)
        for trace in ("terminate called", "Exception raised from", "frame #"):
            self.assertNotIn(trace, log)
        self.nothing_is_held("tight")

    def test_a_core_that_cannot_hold_the_model_refuses_before_training(self):
        code, log, _ = train("neuron", "--training.steps", "2", machine="tiny", TITAN_NEURON_HBM_GIB="0.03")
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"on every rank's core.*HBM \(emulated\)")

    def test_a_rank_that_no_core_is_left_for_is_refused_before_ranks_meet(self):
        place = {"RANK": "64", "WORLD_SIZE": "65", "LOCAL_RANK": "64", "LOCAL_WORLD_SIZE": "65",
                 "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        done = subprocess.run([TITAN, "train", *COMMON, "--training.global_batch_size", "-1", "--device", "neuron",
                               "--dump_folder", str(FOLDER / "crowd")], capture_output=True,
                              text=True, cwd=SOURCE, env=surroundings("crowd", **place), timeout=LIMIT)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("65 ranks on this machine need a logical core each, but the emulated trn2.48xlarge has 64 at LNC 2",
                      done.stderr)

    def test_a_core_of_lnc_1_is_half_as_large_and_half_as_fast(self):
        code, log, _ = train("neuron", "--training.steps", "1", machine="halves", NEURON_LOGICAL_NC_CONFIG="1")
        self.assertEqual(code, 0, log)
        self.assertRegex(log, r"NEURON capacity: neuron \(emulated trn2 core 0, LNC 1\) with 12\.00GiB memory")
        self.assertIn("7.900e+13", log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
