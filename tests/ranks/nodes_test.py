"""Jobs as users start them: over several launchers and network namespaces, by Python's own torchrun, by the guide's command
line; and what all ranks of a job agree on: where a checkpoint and the data end, the seed, and who writes which file."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from job import Job

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
FOLDER = Path(tempfile.mkdtemp(prefix="titan_nodes_"))
STEPS = 10
LOSS_BOUND, NORM_BOUND = 2e-6, 1e-5  # the design's, relative

TRAIN = ["--module", "qwen3", "--config", "qwen3_demo", "--device", "cpu", "--metrics.log_freq", "1",
         "--metrics.enable_jsonl", "--metrics.disable_color_printing", "--training.steps", STEPS,
         "--training.seq_len", "64", "--training.global_batch_size", "24", "--training.local_batch_size", "3",
         "--validator.no_enable", "--checkpoint.no_enable", "--lr_scheduler.warmup_steps", "1",
         "--optimizer.param_groups.0.optimizer_kwargs.lr", "0.003"]
REPLICATE, TENSOR = "--parallelism.data_parallel_replicate_degree", "--parallelism.tensor_parallel_degree"
PYTHON_TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def records(folder, tag="loss_metrics/global_avg_loss"):
    """The values of a tag in a run's JSON lines."""
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [line[tag] for line in lines if tag in line]


def groups(text):
    """{rank: {group: (ranks in it, how they talk)}} of a job's lines."""
    found = {}
    for rank, name, size, medium in re.findall(
            r"\[rank(\d+)\]:.* Group (\w+): (\d+) ranks of (?:one node|several nodes), over (shared memory|Gloo)", text):
        found.setdefault(int(rank), {})[name] = (int(size), medium)
    return found


class Jobs(unittest.TestCase):
    def setUp(self):
        self.dump = FOLDER / self.id().rsplit(".", 1)[1]
        self.dump.mkdir()

    def start(self, *words, ranks=4, launcher=(TITAN, "torchrun"), launch=(), program=("-m", "titan.train"), folder=None):
        """One launcher of a job that trains on these words."""
        job = Job([*launcher, f"--nproc_per_node={ranks}", "--role", "rank", "--tee", "3", *launch, *program, *TRAIN, *words,
                   "--dump_folder", folder or self.dump], home=FOLDER, cwd=SOURCE)
        self.addCleanup(job.end)
        return job

    def trains(self, *words, **options):
        code, text = self.start(*words, **options).finish()
        self.assertEqual(code, 0, text)
        return text

    def alone(self, *words):
        """The folder of the same run on one rank."""
        folder = self.dump / "alone"
        self.trains(*words, ranks=1, folder=folder)
        return folder

    def near(self, ours, theirs, bound):
        self.assertEqual(len(ours), len(theirs))
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.assertLessEqual(abs(a / b - 1), bound, f"entry {i}: {ours} and {theirs}")


class Nodes(Jobs):
    def meeting(self, host="localhost"):
        return ["--nnodes=2", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"{host}:{free_port()}", "--rdzv_id", "x"]

    def two(self, *words, launchers=((TITAN, "torchrun"), (TITAN, "torchrun")), host="localhost"):
        """The text of each of two launchers with four ranks each."""
        launch = self.meeting(host)
        jobs = [self.start(*words, launcher=launcher, launch=launch) for launcher in launchers]
        ends = [job.finish() for job in jobs]
        for code, text in ends:
            self.assertEqual(code, 0, text)
        return [text for _, text in ends]

    def talks(self, text, **expected):
        found = groups(text)
        self.assertEqual(set(found), set(range(4)), text)
        for rank, of_rank in found.items():
            self.assertEqual(of_rank, expected, f"rank {rank}")

    def test_two_launchers_train_as_one_rank_with_gloo_across_and_shared_memory_within(self):
        single = self.alone()
        shared, gloo = "shared memory", "Gloo"
        for words, kinds in [
            ([], {"all": (8, gloo)}),
            ([REPLICATE, 2], {"all": (8, gloo), "fsdp": (4, shared), "dp_replicate": (2, gloo)}),
            ([TENSOR, 2, "--training.local_batch_size", 6], {"all": (8, gloo), "fsdp": (4, gloo), "tp": (2, shared)}),
        ]:
            with self.subTest(words=words):
                (self.dump / "metrics.jsonl").unlink(missing_ok=True)
                for text in self.two(*words):
                    self.talks(text, **kinds)
                self.near(records(self.dump), records(single), LOSS_BOUND)
                self.near(records(self.dump, "grad_norm"), records(single, "grad_norm"), NORM_BOUND)

    def namespaces(self):
        """Two network namespaces with one cable between them; their addresses."""
        names, ends = [[f"{kind}{os.getpid()}{side}" for side in "ab"] for kind in ("titan", "v")]
        addresses = ["10.203.7.1", "10.203.7.2"]

        def ip(*words):
            done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
            if done.returncode != 0:
                self.skipTest(f"ip {' '.join(words)}: {done.stderr.strip()}")

        if shutil.which("ip") is None:
            self.skipTest("there is no program ip")
        for name in names:
            ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], timeout=30)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, addresses):
            ip("-n", name, "address", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        return names, addresses

    def test_nodes_meet_and_train_over_a_network_of_their_own(self):
        names, addresses = self.namespaces()
        single = self.alone()
        inside = [["ip", "netns", "exec", name, TITAN, "torchrun"] for name in names]
        texts = self.two(REPLICATE, 2, launchers=inside, host=addresses[0])
        for text in texts:
            self.talks(text, all=(8, "Gloo"), fsdp=(4, "shared memory"), dp_replicate=(2, "Gloo"))
        # Each node talks from its own end of the cable, never from a loopback address.
        ends = [set(re.findall(r"over Gloo at (\S+)", text)) for text in texts]
        self.assertEqual(sorted(ends, key=str), [{address} for address in addresses])
        self.near(records(self.dump), records(single), LOSS_BOUND)

    def test_a_node_that_is_killed_ends_the_other_nodes_job(self):
        for victim, says in ((0, r"titan: error: lost the rendezvous at localhost:\d+: "),
                             (1, r"titan: error: node 1 \(.+\) left the job: ")):
            with self.subTest(victim=victim):
                launch = self.meeting()
                nodes = [self.start("--training.steps", 100000, launch=launch, ranks=2)]
                nodes[0].wait_for("waiting for 2 nodes")  # node 0 is the one that came first
                nodes.append(self.start("--training.steps", 100000, launch=launch, ranks=2))
                nodes[0].wait_for(r"step: +2 ")
                nodes[victim].process.send_signal(signal.SIGKILL)
                code, text = nodes[1 - victim].finish()
                self.assertEqual(code, 1, text)
                self.assertRegex(text.splitlines()[-1], says)
                self.assertEqual(nodes[victim].finish()[0], -signal.SIGKILL)


class PythonsTorchrun(Jobs):
    def test_it_starts_the_same_job(self):
        self.trains(ranks=2)
        ours = records(self.dump), records(self.dump, "grad_norm")
        for name, launch in (("c10d", ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]),
                             ("standalone", ["--standalone"])):
            with self.subTest(launch=launch):
                folder = self.dump / name
                self.trains(ranks=2, launcher=PYTHON_TORCHRUN, launch=["--no-python", *launch], program=[TITAN, "train"],
                            folder=folder)
                self.assertEqual(len(ours[0]), STEPS)
                self.assertEqual((records(folder), records(folder, "grad_norm")), ours)

    def test_its_summary_has_the_failing_ranks_message(self):
        script = 'if [ $RANK = 1 ]; then exec "$@" --hf_assets_path /nowhere; fi; exec "$@"'
        code, text = self.start(ranks=2, launcher=PYTHON_TORCHRUN, launch=["--no-python"],
                                program=["sh", "-c", script, "sh", TITAN, "train"]).finish()
        self.assertEqual(code, 1, text)
        summary = text[text.index("Root Cause"):]
        self.assertRegex(summary, r"rank +: 1 ")
        self.assertIn("hf_assets_path /nowhere does not exist", summary)


class GuidesCommandLine(Jobs):
    MODULE = """\
#include <titan/recipes.h>
using namespace titan;

TrainerConfig native_qwen3_demo() {
  auto config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("demo", {.attn_backend = AttnBackend::sdpa});
  config.hf_assets_path = absolute("%s");
  config.dataloader.dataset = "c4_test";
  config.training.steps = 10;
  config.training.seq_len = 64;
  config.training.local_batch_size = 1;
  config.training.global_batch_size = 64;
  config.parallelism.data_parallel_shard_degree = -1;
  return config;
}
"""
    LINE = ("torchrun --nproc_per_node=8 --rdzv_backend c10d --rdzv_endpoint localhost:0 --local-ranks-filter 0 --role rank "
            "--tee 3 -m torchtitan.train --module neuron_qwen3 --config native_qwen3_demo")

    def test_it_trains_from_an_empty_folder(self):
        (self.dump / "neuron_qwen3.cpp").write_text(self.MODULE % (SOURCE / "tests/assets/tokenizer"))
        job = Job([TITAN, *self.LINE.split()], home=self.dump, cwd=self.dump, PET_LOG_DIR=str(self.dump / "logs"),
                  XDG_CACHE_HOME="")
        self.addCleanup(job.end)
        code, text = job.finish()
        self.assertEqual(code, 0, text)
        lines = text.splitlines()
        self.assertEqual([line for line in lines if not line.startswith("[rank0]:")], [])
        texts = [re.sub(r"\x1b\[[0-9;]*m", "", line.split(" - root - INFO - ")[-1]) for line in lines]
        at = -1
        for start in ("titan version: ", "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1",
                      "Successfully created meshes with active dimensions: ['dp_shard']", "Building qwen3 demo",
                      "CPU capacity: ", "Model qwen3 demo size: ", "Applied FullAC activation checkpointing",
                      "Peak FLOPS used", "CPU memory usage for model: ", "Optimizer AdamW",
                      "Loading tokenizer from tokenizer.json", "Preparing c4_test dataset from ",
                      "Trainer is initialized with local batch size 1, global batch size 64, gradient accumulation steps 8",
                      "Training starts at step 1", "step:  1", "Synchronizing and adjusting timeout", "step: 10",
                      "Training completed"):
            found = [i for i, line in enumerate(texts) if line.startswith(start)]
            self.assertTrue(found, f"no line begins with {start!r}:\n{text}")
            self.assertGreater(found[0], at, start)
            at = found[0]
        self.assertEqual(texts[-1], "Training completed")
        logs = [file.read_text() for file in (self.dump / "logs").rglob("std*.log")]
        self.assertEqual(sum("Training completed" in log for log in logs), 8)
        self.assertEqual(sum(log.count("Compiling ") for log in logs), 1, "the module is compiled once for all ranks")


class Agreement(Jobs):
    def test_an_exported_checkpoint_and_its_validation_do_not_depend_on_the_layout(self):
        self.trains(TENSOR, 2, "--training.steps", 2, "--checkpoint.enable", "--checkpoint.last_save_in_hf")
        exported = self.dump / "checkpoint" / "step-2"
        held_out = self.dump / "held_out.jsonl"
        held_out.write_text("".join(json.dumps({"text": f"And God said unto {n}, " * (7 + n)}) + "\n" for n in range(23)))
        found = {}
        for ranks in (1, 3, 4):
            folder = self.dump / f"on_{ranks}"
            self.trains("--hf_assets_path", exported, "--checkpoint.enable", "--checkpoint.initial_load_in_hf",
                        "--training.local_batch_size", 2, "--training.steps", 1, "--validator.enable",
                        "--validator.steps", -1, "--validator.dataloader.no_infinite",
                        "--validator.dataloader.dataset_path", held_out, ranks=ranks, folder=folder)
            found[ranks] = records(folder) + records(folder, "validation_metrics/loss")
            self.assertEqual(len(found[ranks]), 2)
        self.assertLess(found[1][0], 0.99 * records(self.dump)[0], "it goes on from trained weights")
        for ranks in (3, 4):
            self.near(found[ranks], found[1], LOSS_BOUND)

    def test_all_layouts_run_out_of_data_at_the_same_step(self):
        corpus = self.dump / "corpus.jsonl"
        corpus.write_text("".join(json.dumps({"text": f"In the beginning there were {n} words. " * (20 + n)}) + "\n"
                                  for n in range(41)))
        words = ["--dataloader.dataset_path", corpus, "--dataloader.no_infinite", "--training.steps", 1000,
                 "--optimizer.param_groups.0.optimizer_kwargs.lr", 0.0003,
                 "--training.local_batch_size", 3, "--training.global_batch_size", 12]
        single = self.dump / "alone"
        for ranks, folder in ((1, single), (4, self.dump)):
            text = self.trains(*words, ranks=ranks, folder=folder)
            self.assertIn(f"gradient accumulation steps {4 // ranks},", text)
            self.assertEqual(text.count("Ran out of data; last step was canceled."), ranks)
        self.assertGreater(len(records(single)), 3)
        self.near(records(self.dump), records(single), LOSS_BOUND)

    def test_a_seed_is_drawn_once_for_all_ranks(self):
        words = ["--debug.seed", "none", "--training.steps", 1]
        seeds, losses = [], []
        for name in "ab":
            folder = self.dump / name
            drawn = re.findall(r"^\[rank(\d)\]:.* Seed: (\d+) \(drawn", self.trains(*words, folder=folder), re.M)
            self.assertEqual({rank for rank, _ in drawn}, set("0123"))
            self.assertEqual(len({seed for _, seed in drawn}), 1, drawn)
            seeds.append(drawn[0][1])
            losses += records(folder)
        self.assertNotEqual(*seeds)
        self.assertNotEqual(*losses)

    def test_each_rank_writes_its_metrics_only_when_asked(self):
        def files(folder):
            return sorted(str(file.relative_to(folder)) for file in folder.rglob("metrics.jsonl"))

        for words, expected in (([], ["metrics.jsonl"]),
                                (["--metrics.save_for_all_ranks"], [f"rank_{rank}/metrics.jsonl" for rank in range(3)])):
            folder = self.dump / str(len(expected))
            self.trains(*words, "--training.steps", 1, "--training.local_batch_size", 8, ranks=3, folder=folder)
            self.assertEqual(files(folder), expected)
            for file in expected:
                self.assertEqual(len(records((folder / file).parent)), 1)

    def test_each_rank_writes_a_trace_of_phases_operators_and_collectives(self):
        self.trains("--profiler.enable_profiling", "--profiler.profile_freq", 5, "--training.steps", 5, REPLICATE, 2)
        folder = self.dump / "profiling" / "traces"
        files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        self.assertEqual(files, [f"iteration_5/rank{rank}_trace.json" for rank in range(4)])
        for file in files:
            names = {event.get("name") for event in json.loads((folder / file).read_text())["traceEvents"]}
            for name in ("data loading", "forward", "backward", "optimizer", "titan::all_gather (fsdp)",
                         "titan::reduce_scatter (fsdp)", "titan::all_reduce (dp_replicate)", "titan::all_gather (all)"):
                self.assertIn(name, names, file)
            operators = {name for name in names if re.fullmatch(r"titan::\w+", str(name))}
            self.assertGreaterEqual(len(operators), 3, f"{file}: {sorted(map(str, names))}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
