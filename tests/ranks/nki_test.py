"""Training with the examples' kernels on one rank, on ranks that share rows, and on ranks that share matrices: the guide's
kernel gives the bits of titan's own code in float32, the others stay within the bounds that hold between layouts."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
FOLDER = Path(tempfile.mkdtemp(prefix="titan_nki_ranks_"))
LIMIT = 300
STEPS = 3
LAYERS = 4
# Of the loss and of the gradient norm, relative, in float32: what two layouts may differ by.
LOSS_BOUND, NORM_BOUND = 2e-6, 1e-5
# In bfloat16 the kernel rounds each product of the rotation to 8 bits, which titan's own code adds in float32 first:
# a quarter of the bounds were measured.
BF16_LOSS_BOUND, BF16_NORM_BOUND = 2e-4, 1e-3
BF16 = "--training.mixed_precision_param", "bfloat16"

COMMON = ["--module", "qwen3", "--config", "qwen3_demo", "--training.steps", str(STEPS), "--training.global_batch_size", "4",
          "--metrics.log_freq", "1", "--metrics.disable_color_printing", "--metrics.enable_jsonl", "--validator.no_enable",
          "--lr_scheduler.warmup_steps", "1", "--checkpoint.last_save_in_hf", "--checkpoint.last_save_model_only"]
ROPE, NORM, ATTENTION = "my_neuron_kernels", "nki_rms_norm", "nki_attention"
ONE_RANK, SHARED_ROWS = ("1 rank", 1, ["--training.local_batch_size", "4"]), ("fsdp 2", 2, ["--training.local_batch_size", "2"])
SHARED_MATRICES = ("tp 2", 2, ["--training.local_batch_size", "4", "--parallelism.tensor_parallel_degree", "2"])
LAYOUTS = (ONE_RANK, SHARED_ROWS, SHARED_MATRICES)
# What changes the shapes that a kernel sees and how often it runs, at once: replicas of shards of ranks that share matrices
# and rows of activations, two rows of several documents at a time, two of those a step, and each layer run again backward.
EVERYTHING = ("replicate 2, fsdp 2, tp 2, accumulation 2, full checkpointing", 8,
               ["--parallelism.data_parallel_replicate_degree", "2", "--parallelism.data_parallel_shard_degree", "2",
                "--parallelism.tensor_parallel_degree", "2", "--training.local_batch_size", "2",
                "--training.global_batch_size", "16", "activation_checkpoint:full"])
# Without a kernel, so that it compiles in a second or two.
ASTRAY = """#include <titan/recipes.h>
#include <titan/config/override.h>
titan::Override astray() {
  return titan::override<titan::CosSinRoPEConfig>({.fqns = {"layers.1.atention.rope"}},
                                                  [](const titan::CosSinRoPEConfig& config) { return config; });
}
"""
TWICE = """#include <titan/ops/nki_op.h>
const auto first = titan::nki_op("my_kernels::copy", [](const at::Tensor& x) { return x.clone(); });
const auto second = titan::nki_op("my_kernels::copy", [](const at::Tensor& x) { return x.clone(); });
"""
CONTRACT = "rope_hf requires a sequence length that is a multiple of 128 * LNC={}, got {}"


def surroundings(**more):
    kept = {name: value for name, value in os.environ.items() if "NEURON" not in name}
    return {**kept, "TITAN_NEURON_STATE_DIR": str(FOLDER / "machine"), "TITAN_NUM_THREADS": "1", "HOME": str(FOLDER),
            "TORCH_NEURONX_NEFF_CACHE_DIR": str(FOLDER / "neff"), "TITAN_MODULE_PATH": f"{SOURCE / 'examples'}:{FOLDER}", **more}


class Run:
    def __init__(self, ranks, words, shown="0", **more):
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER))
        words = [*COMMON, *words, "--dump_folder", str(self.folder)]
        launcher = [TITAN, "torchrun", f"--nproc_per_node={ranks}", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
                    "--role", "rank", "--tee", "3", "--local-ranks-filter", shown, "-m", "titan.train"]
        done = subprocess.run([*([TITAN, "train"] if ranks == 1 else launcher), *words], capture_output=True, text=True,
                              cwd=SOURCE, env=surroundings(**more), timeout=LIMIT)
        self.code, self.log = done.returncode, done.stdout + done.stderr
        lines = self.folder / "metrics.jsonl"
        records = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        self.losses = [record["loss_metrics/global_avg_loss"] for record in records]
        self.norms = [record["grad_norm"] for record in records]
        self.weights = {file.name: file.read_bytes() for file in self.folder.glob("checkpoint/step-*/*.safetensors")}

    def replaced(self):
        """The lines about replaced nodes, from the name on."""
        return re.findall(r"\[Override\] .*", self.log)


def short_documents():
    """Of 40 words each, so that a row of 256 tokens holds several."""
    corpus = FOLDER / "short.jsonl"
    if not corpus.exists():
        with gzip.open(SOURCE / "tests/assets/c4_test/data.jsonl.gz", "rt") as lines:
            texts = [json.loads(line)["text"].split()[:40] for line, _ in zip(lines, range(400))]
        corpus.write_text("".join(json.dumps({"text": " ".join(words)}) + "\n" for words in texts))
    return ["--dataloader.dataset_path", str(corpus)]


def limited(**nodes):
    """Imports of the examples from one module, each limited to the nodes that its glob names."""
    text = "#include <titan/kernels.h>\n"
    for name, (module, glob) in nodes.items():
        own = {word: f"{word}_of_{module}" for word in ("LNC", "setup_context")}
        text += "".join(f"#define {word} {renamed}\n" for word, renamed in own.items())
        text += f'#include "{SOURCE / "examples" / module}.cpp"\n' + "".join(f"#undef {word}\n" for word in own)
        text += f'Override some_{name}() {{\n  auto some = {name}();\n  some.fqns = {{"{glob}"}};\n  return some;\n}}\n'
    (FOLDER / "limited.cpp").write_text(text)
    return ",".join(f"limited.some_{name}" for name in nodes)


RUNS = {}


def run(layout, *words, device="neuron", kernels=None, **more):
    """A run of these words in that layout; the same run once."""
    key = (layout[0], words, device, kernels, tuple(more.items()))
    if key not in RUNS:
        imports = ["--override.imports", kernels] if kernels else []
        RUNS[key] = Run(layout[1], [*layout[2], *words, *short_documents(), *imports, "--device", device], **more)
    return RUNS[key]


def seq_len(tokens):
    return "--training.seq_len", str(tokens)


class Kernels(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)

    def trained(self, done):
        self.assertEqual(done.code, 0, done.log)
        self.assertEqual((len(done.losses), len(done.norms)), (STEPS, STEPS), done.log)
        self.assertLess(done.losses[-1], done.losses[0])
        return done

    def of_every_layer(self, done):
        line = "[Override] nki_rope: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> NKIRoPE.Config"
        self.assertEqual(done.replaced(), [line.format(layer) for layer in range(LAYERS)])

    def same_bits(self, layout, *words, device="neuron"):
        with self.subTest(layout=layout[0], words=words, device=device):
            plain = self.trained(run(layout, *words, device=device))
            kernel = self.trained(run(layout, *words, device=device, kernels=ROPE))
            self.assertEqual(plain.replaced(), [])
            self.of_every_layer(kernel)
            self.assertEqual((kernel.losses, kernel.norms), (plain.losses, plain.norms))
            self.assertTrue(plain.weights)
            self.assertEqual(kernel.weights.keys(), plain.weights.keys())
            for name, data in plain.weights.items():
                self.assertTrue(kernel.weights[name] == data, name)

    def close(self, layout, *words, kernels, bounds, device="neuron"):
        with self.subTest(layout=layout[0], words=words, kernels=kernels, device=device):
            plain = self.trained(run(layout, *words, device=device))
            kernel = self.trained(run(layout, *words, device=device, kernels=kernels))
            self.assertTrue(kernel.replaced())
            for step in range(STEPS):
                self.assertLessEqual(abs(kernel.losses[step] / plain.losses[step] - 1), bounds[0], f"loss {step + 1}")
                self.assertLessEqual(abs(kernel.norms[step] / plain.norms[step] - 1), bounds[1], f"norm {step + 1}")
            # Another rounding somewhere, or the kernel did not run.
            self.assertNotEqual((kernel.losses, kernel.norms), (plain.losses, plain.norms))

    def test_rows_hold_several_documents(self):
        # Otherwise positions that restart and the document mask would not be looked at below.
        document = self.trained(run(ONE_RANK, *seq_len(256)))
        causal = self.trained(run(ONE_RANK, *seq_len(256), "--attention.mask", "causal"))
        self.assertNotEqual(document.losses, causal.losses)

    def test_the_guides_kernel_gives_the_bits_of_the_run_without_it(self):
        for layout in LAYOUTS:
            for tokens in (256, 512):
                self.same_bits(layout, *seq_len(tokens))

    def test_the_guides_kernel_gives_the_same_bits_on_cpu(self):
        for layout in LAYOUTS:
            self.same_bits(layout, *seq_len(256), device="cpu")

    def test_the_guides_kernel_trains_in_bfloat16(self):
        for layout in (ONE_RANK, SHARED_MATRICES):
            self.close(layout, *seq_len(256), *BF16, kernels=ROPE, bounds=(BF16_LOSS_BOUND, BF16_NORM_BOUND))

    def test_a_kernel_for_norms_stays_within_the_bounds_of_layouts(self):
        for layout in LAYOUTS:
            self.close(layout, *seq_len(256), kernels=NORM, bounds=(LOSS_BOUND, NORM_BOUND))

    def test_a_kernel_for_attention_stays_within_the_bounds_of_layouts(self):
        for layout in LAYOUTS:
            self.close(layout, *seq_len(256), kernels=ATTENTION, bounds=(LOSS_BOUND, NORM_BOUND))
        self.close(SHARED_MATRICES, *seq_len(256), "--attention.mask", "causal", kernels=ATTENTION,
                   bounds=(LOSS_BOUND, NORM_BOUND))
        self.close(SHARED_MATRICES, *seq_len(256), "--parallelism.no_enable_sequence_parallel", kernels=ATTENTION,
                   bounds=(LOSS_BOUND, NORM_BOUND))
        self.close(ONE_RANK, *seq_len(256), kernels=ATTENTION, bounds=(LOSS_BOUND, NORM_BOUND), device="cpu")

    def test_in_a_layout_of_everything_the_guides_kernel_gives_the_bits_of_the_run_without_it(self):
        self.same_bits(EVERYTHING, *seq_len(256))
        for words in ("dp_replicate=2, dp_shard=2, cp=1, tp=2", "gradient accumulation steps 2", "Applied FullAC"):
            self.assertIn(words, run(EVERYTHING, *seq_len(256), kernels=ROPE).log)

    def test_in_a_layout_of_everything_all_kernels_together_stay_within_the_bounds(self):
        # Norms and the rotation lie inside attention: each has layers of its own.
        kernels = limited(nki_attention=(ATTENTION, "layers.[01].attention"), nki_rms_norm=(NORM, "layers.[23].*norm"),
                          nki_rope=(ROPE, "layers.[23].attention.rope"))
        for words, bounds in (((), (LOSS_BOUND, NORM_BOUND)), (BF16, (BF16_LOSS_BOUND, BF16_NORM_BOUND))):
            self.close(EVERYTHING, *seq_len(256), *words, kernels=kernels, bounds=bounds)
            said = " ".join(run(EVERYTHING, *seq_len(256), *words, kernels=kernels).replaced())
            self.assertEqual([said.count(f"some_{name}: ") for name in ("nki_attention", "nki_rms_norm", "nki_rope")], [2, 8, 2])

    def refused(self, code, log, message, by_ranks=(1,)):
        self.assertEqual(code, 1, log)
        said = [line for line in log.splitlines() if message in line]
        self.assertIn(len([line for line in said if "titan: error: " in line]), by_ranks, log)
        for word in ("Building qwen3", "Loading", "terminate called", "frame #"):
            self.assertNotIn(word, log)
        return said

    def test_a_length_that_the_kernel_cannot_take_is_refused_once_before_anything_is_built(self):
        message = CONTRACT.format(256, 384)
        for device in ("cpu", "neuron"):
            single = run(ONE_RANK, *seq_len(384), device=device, kernels=ROPE)
            self.assertEqual(len(self.refused(single.code, single.log, message)), 1)
            self.assertFalse(list(single.folder.iterdir()), "nothing is written")
            # Rank 0 says it for both, unless it is stopped before because the other one failed first; the
            # launcher says it at the end in any case.
            both = run(SHARED_ROWS, *seq_len(384), device=device, kernels=ROPE, shown="0,1")
            said = self.refused(both.code, both.log, message, by_ranks=(0, 1))
            self.assertEqual([line.startswith("  model_spec.model.layers.") for line in said], [False] * (len(said) - 1) + [True])
        for command in ("config", "shapes"):
            shown = subprocess.run([TITAN, command, *COMMON, *seq_len(384), "--override.imports", ROPE], env=surroundings(),
                                   capture_output=True, text=True, cwd=SOURCE, timeout=LIMIT)
            self.assertEqual(len(self.refused(shown.returncode, shown.stdout + shown.stderr, message)), 1)

    def test_a_launcher_of_another_make_tells_the_contract_once(self):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--no-python", TITAN, "train"]
        done = subprocess.run([*launcher, *COMMON, *seq_len(384), "--override.imports", ROPE, "--device", "neuron"],
                              env=surroundings(), capture_output=True, text=True, cwd=SOURCE, timeout=LIMIT)
        summary = done.stderr[done.stderr.index("Root Cause"):]
        self.assertEqual(summary.count(CONTRACT.format(256, 384)), 1, done.stderr)
        said = done.stdout + done.stderr[:done.stderr.index("Root Cause")]
        self.refused(done.returncode, said, "titan: error: model_spec.model.layers.0.attention.rope: ", by_ranks=(0, 1))

    def test_the_contract_is_checked_before_weights_are_read(self):
        start = shutil.copytree(next(run(ONE_RANK, *seq_len(256)).folder.glob("checkpoint/step-*")), FOLDER / "start")
        weights = start / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        words = ["--hf_assets_path", str(start), "--checkpoint.initial_load_in_hf"]
        done = run(ONE_RANK, *seq_len(256), *words, kernels=ROPE)
        self.assertNotEqual(done.code, 0, "weights without their last byte cannot be read")
        self.assertIn("model.safetensors", done.log)
        done = run(ONE_RANK, *seq_len(384), *words, kernels=ROPE)
        self.refused(done.code, done.log, CONTRACT.format(256, 384))
        self.assertNotIn("model.safetensors", done.log)

    def refused_on_two(self, kernels, *messages):
        """Said by rank 0, or by the launcher alone where rank 1 failed first, and by the launcher at the end."""
        done = run(SHARED_ROWS, *seq_len(256), kernels=kernels, shown="0,1")
        for message in messages:
            said = self.refused(done.code, done.log, message, by_ranks=(0, 1))
            self.assertTrue(said and said[-1].startswith("  "), done.log)
        self.assertFalse(list(done.folder.iterdir()), "nothing is written")

    def test_on_two_ranks_overrides_that_conflict_stop_the_run(self):
        self.refused_on_two(f"{ROPE},{ATTENTION}", "overrides 'nki_attention' and 'nki_rope' both claim "
                            "model_spec.model.layers.0.attention.rope, inside model_spec.model.layers.0.attention")

    def test_on_two_ranks_an_override_of_nothing_warns_once_and_the_run_goes_on(self):
        (FOLDER / "astray.cpp").write_text(ASTRAY)
        done = self.trained(run(SHARED_ROWS, *seq_len(256), kernels="astray"))
        self.assertEqual(done.replaced(), [
            "[Override] astray: none of the 4 nodes of type CosSinRoPEConfig matches layers.1.atention.rope; "
            "the nearest is model_spec.model.layers.1.attention.rope"])
        self.assertIn(" - WARNING - [Override] astray", done.log)
        plain = self.trained(run(SHARED_ROWS, *seq_len(256)))
        self.assertEqual((done.losses, done.norms), (plain.losses, plain.norms))

    def test_on_two_ranks_an_operator_that_is_there_twice_is_an_error_of_its_module(self):
        (FOLDER / "twice.cpp").write_text(TWICE)
        self.refused_on_two("twice", "twice.cpp: nki_op my_kernels::copy: an operator of that name is there already, "
                            "registered by ")

    def test_with_one_physical_core_a_shorter_stride_trains(self):
        done = self.trained(run(ONE_RANK, *seq_len(384), kernels=ROPE, NEURON_LOGICAL_NC_CONFIG="1"))
        self.of_every_layer(done)
        plain = self.trained(run(ONE_RANK, *seq_len(384), NEURON_LOGICAL_NC_CONFIG="1"))
        self.assertEqual((done.losses, done.norms), (plain.losses, plain.norms))

    def test_a_length_that_attention_cannot_take_is_refused_by_the_kernels_words(self):
        words = "attention: the sequence length has to be a multiple of 128 and at most 8192, got 200"
        done = run(SHARED_ROWS, *seq_len(200), kernels=ATTENTION, shown="0,1")
        self.assertEqual(len(self.refused(done.code, done.log, words)), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
