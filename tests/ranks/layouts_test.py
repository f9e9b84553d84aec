"""Every layout trains the same model to the same numbers: ten steps of a small model in float32 on one global batch.

Bounds are the design's (docs/launch.md): loss 2e-6 relative, gradient norm 1e-5 relative, every weight's change over
the ten steps to 1e-4 of its norm. They hold for a learning rate that lowers the loss by a fifth in that time.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
FOLDER = Path(tempfile.mkdtemp(prefix="titan_layouts_"))
STEPS = 10
GLOBAL_BATCH = 24
LOSS_BOUND, NORM_BOUND, UPDATE_BOUND = 2e-6, 1e-5, 1e-4

MODEL = "--model_spec.model."
COMMON = ["--module", "qwen3", "--config", "qwen3_demo", "--device", "cpu", "--metrics.log_freq", "1",
          "--metrics.enable_jsonl", "--training.steps", str(STEPS), "--training.seq_len", "64",
          "--training.global_batch_size", str(GLOBAL_BATCH), "--validator.no_enable",
          "--optimizer.param_groups.0.optimizer_kwargs.lr", "0.003", "--lr_scheduler.warmup_steps", "1",
          "--lr_scheduler.decay_ratio", "none", "--checkpoint.interval", "1000"]


def setting(name, value):
    return [f"--parallelism.{name}", str(value)]


REPLICATE, SHARD, TENSOR = ("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree")


class Run:
    def __init__(self, name, words, ranks):
        self.folder = FOLDER / name
        shutil.rmtree(self.folder, ignore_errors=True)
        train = [*COMMON, *words, "--dump_folder", str(self.folder)]
        if ranks == 1:
            command = [TITAN, "train", *train]
        else:
            command = [TITAN, "torchrun", f"--nproc_per_node={ranks}", "--rdzv_backend", "c10d", "--rdzv_endpoint",
                       "localhost:0", "--role", "rank", "--tee", "3", "--local-ranks-filter", "0", "-m", "titan.train",
                       *train]
        environment = dict(os.environ, HOME=str(FOLDER), TITAN_NUM_THREADS="2" if ranks == 1 else "1")
        done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE, env=environment, timeout=300)
        self.code, self.log = done.returncode, done.stdout + done.stderr
        lines = self.folder / "metrics.jsonl"
        records = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        self.losses = [record["loss_metrics/global_avg_loss"] for record in records]
        self.norms = [record["grad_norm"] for record in records]
        self.records = records

    def weights(self):
        merged = {}
        for file in sorted(self.folder.glob("checkpoint/step-*/model*.safetensors")):
            merged.update(load_file(file))
        return merged


RUNS = {}


def run(*words, ranks=1, local=None):
    """A run of these words on that many ranks; the same run once."""
    dp = ranks
    for name, value in zip(words, words[1:]):
        if name == f"--parallelism.{TENSOR}":
            dp //= int(value)
    key = (words, ranks, local)
    if key not in RUNS:
        batch = ["--training.local_batch_size", str(local or GLOBAL_BATCH // dp)]
        RUNS[key] = Run(f"run{len(RUNS)}", [*words, *batch], ranks)
    return RUNS[key]


class Layouts(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)

    def same(self, other, single):
        self.assertEqual(other.code, 0, other.log)
        self.assertEqual(single.code, 0, single.log)
        self.assertEqual(len(single.losses), STEPS)
        self.assertLess(single.losses[-1], 0.8 * single.losses[0], "the loss falls by a fifth")
        for step in range(STEPS):
            self.assertLessEqual(abs(other.losses[step] / single.losses[step] - 1), LOSS_BOUND, f"loss of step {step + 1}")
            self.assertLessEqual(abs(other.norms[step] / single.norms[step] - 1), NORM_BOUND, f"norm of step {step + 1}")
        theirs, ours, start = other.weights(), single.weights(), self.start_of(single)
        self.assertEqual(theirs.keys(), ours.keys())
        for name in ours:
            update = (ours[name] - start[name]).norm()
            self.assertLessEqual(float((theirs[name] - ours[name]).norm() / update), UPDATE_BOUND, name)

    def start_of(self, single):
        """The weights before step 1: a run whose learning rate is 0."""
        words, local = next((words, local) for (words, _, local), done in RUNS.items() if done is single)
        return run(*words, "--optimizer.param_groups.0.optimizer_kwargs.lr", "0", local=local).weights()

    def test_fsdp(self):
        for ranks in (2, 3, 4, 8):
            with self.subTest(ranks=ranks):
                self.same(run(ranks=ranks), run())

    def test_hsdp(self):
        self.same(run(*setting(REPLICATE, 2), *setting(SHARD, 2), ranks=4), run())

    def test_replicas_alone(self):
        self.same(run(*setting(REPLICATE, 2), *setting(SHARD, 1), ranks=2), run())

    def test_tensor_parallel(self):
        for degree in (2, 4):
            for sequence in ("enable_sequence_parallel", "no_enable_sequence_parallel"):
                with self.subTest(degree=degree, sequence=sequence):
                    self.same(run(*setting(TENSOR, degree), f"--parallelism.{sequence}", ranks=degree), run())

    def test_fsdp_and_tensor_parallel(self):
        self.same(run(*setting(TENSOR, 2), ranks=4), run())

    def test_hsdp_and_tensor_parallel(self):
        self.same(run(*setting(REPLICATE, 2), *setting(SHARD, 2), *setting(TENSOR, 2), ranks=8), run())

    def test_accumulation(self):
        self.same(run(local=3, ranks=2), run())
        self.same(run(*setting(TENSOR, 2), local=3, ranks=4), run())
        self.same(run("--parallelism.fsdp_defer_gradient_reduction", local=3, ranks=2), run())

    def test_reshard_and_prefetch(self):
        for words in (["--parallelism.fsdp_reshard_after_forward", "always"],
                      ["--parallelism.fsdp_reshard_after_forward", "never"], ["--parallelism.no_fsdp_prefetch"]):
            with self.subTest(words=words):
                self.same(run(*words, ranks=2), run())

    def test_activation_checkpointing(self):
        for mode in ("none", "selective", "full"):
            with self.subTest(mode=mode):
                self.same(run(*setting(TENSOR, 2), f"activation_checkpoint:{mode}", ranks=4), run())

    def test_an_odd_vocabulary_and_a_tied_table(self):
        tokenizer = FOLDER / "tokenizer"
        shutil.copytree(SOURCE / "tests/assets/tokenizer", tokenizer)
        words = json.loads((tokenizer / "tokenizer.json").read_text())
        last = max(words["model"]["vocab"], key=words["model"]["vocab"].get)
        if words["added_tokens"] and max(t["id"] for t in words["added_tokens"]) > words["model"]["vocab"][last]:
            words["added_tokens"].pop()
        else:
            del words["model"]["vocab"][last]
            words["model"]["merges"] = [m for m in words["model"]["merges"]
                                        if "".join(m if isinstance(m, list) else m.split(" ")) != last]
        (tokenizer / "tokenizer.json").write_text(json.dumps(words))
        odd = ["--hf_assets_path", str(tokenizer), MODEL + "vocab_size", "2047",
               MODEL + "tok_embeddings.num_embeddings", "2047", MODEL + "lm_head.out_features", "2047"]
        self.same(run(*odd, ranks=3), run(*odd))
        self.same(run(*odd, *setting(TENSOR, 2), ranks=4), run(*odd))
        self.same(run(*odd, *setting(TENSOR, 4), ranks=4), run(*odd))

    def test_bfloat16_trains_alike(self):
        # bf16 has 8 bits: the bound is that of its rounding, far from a lost or doubled gradient.
        words = ["--training.mixed_precision_param", "bfloat16"]
        one, two = run(*words), run(*words, *setting(TENSOR, 2), ranks=4)
        self.assertEqual((one.code, two.code), (0, 0), two.log)
        for a, b in zip(one.losses, two.losses):
            self.assertLess(abs(a / b - 1), 5e-3)
        for a, b in zip(one.norms, two.norms):
            self.assertLess(abs(a / b - 1), 3e-2)

    def test_two_runs_are_bit_equal(self):
        layout = [*setting(TENSOR, 2)]
        first = run(*layout, ranks=4)
        second = run(*layout, "--debug.seed", "42", ranks=4)
        self.assertEqual(first.losses, second.losses)
        self.assertEqual(first.norms, second.norms)
        a, b = first.weights(), second.weights()
        self.assertTrue(a and all(torch.equal(a[name], b[name]) for name in a))

    def test_a_number_of_ranks_that_divides_nothing(self):
        five = ["--training.global_batch_size", "20"]
        self.same(run(*five, ranks=5, local=4), run(*five, local=20))

    def test_three_documents_on_four_ranks(self):
        corpus = FOLDER / "three.jsonl"
        corpus.write_text("".join(json.dumps({"text": text * 30}) + "\n" for text in
                                  ("In the beginning God created the heaven and the earth. ",
                                   "And the earth was without form, and void. ", "And God said, Let there be light. ")))
        words = ["--dataloader.dataset_path", str(corpus)]
        self.same(run(*words, ranks=4), run(*words))


if __name__ == "__main__":
    unittest.main(verbosity=2)
