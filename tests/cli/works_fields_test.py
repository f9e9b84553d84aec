"""Every field whose status is `works` is set to another value here, and something else is seen to change.

`titan config --status` says which fields work; the test fails when one has no row. A row is the words that set the
fields, and a function that looks at the run. Runs are three steps of the demo model on two short files.
"""

import json
import math
import os
import re
import subprocess
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

TITAN = os.environ["TITAN"]
FOLDER = Path(tempfile.mkdtemp(prefix="titan_works_fields_"))
MODEL = "model_spec.model."
LAYER = MODEL + "layers.N."

# Documents of a few words, so that rows hold several, and a set that ends, so that epochs follow one another.
SENTENCES = [f"{a} {b} {c}." for a in ("Light", "Water", "Earth", "Fire") for b in ("makes", "takes", "loves")
             for c in ("the day", "the deep night", "all that lives", "a wide river", "nothing")]


def write_lines(name, key, texts):
    path = FOLDER / name
    path.write_text("".join(json.dumps({key: text}) + "\n" for text in texts))
    return str(path)


SHORT = write_lines("short.jsonl", "text", SENTENCES)
OTHER = write_lines("other.jsonl", "text", [text[::-1] for text in SENTENCES])
BODY = write_lines("body.jsonl", "body", SENTENCES)

BASE = ["--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "3", "--training.seq_len", "32",
        "--training.local_batch_size", "2", "--metrics.log_freq", "1", "--metrics.enable_jsonl",
        "--dataloader.dataset_path", SHORT, "--checkpoint.no_enable", "--validator.no_enable", "--lr_scheduler.warmup_steps", "2",
        "--lr_scheduler.decay_ratio", "none", "--device", "cpu", "--optimizer.param_groups.0.optimizer_kwargs.lr", "0.003"]
VALIDATING = ["--validator.enable", "--validator.freq", "2", "--validator.steps", "2",
              "--validator.dataloader.dataset_path", OTHER]
SAVING = ["--checkpoint.enable", "--checkpoint.last_save_in_hf"]


@dataclass
class Run:
    code: int
    log: str
    folder: Path
    records: list = field(default_factory=list)

    def scalars(self, tag):
        return [record[tag] for record in self.records if tag in record]

    @property
    def losses(self):
        return self.scalars("loss_metrics/global_avg_loss")

    @property
    def validation(self):
        return self.scalars("validation_metrics/loss")

    @property
    def rates(self):
        return self.scalars("lr/AdamW")

    def saved(self, *parts):
        return self.folder.joinpath(*parts).exists()


def titan(command, words, more_environment=()):
    environment = dict(os.environ, HOME=str(FOLDER / "home"), TITAN_NUM_THREADS="1", **dict(more_environment))
    return subprocess.run([TITAN, *command, *words], capture_output=True, text=True, cwd=FOLDER, env=environment)


RUNS = {}


def train(*words, ranks=1):
    """A run of BASE with these words on so many ranks; the same words run once."""
    key = (ranks, *words)
    if key not in RUNS:
        folder = FOLDER / f"run{len(RUNS)}"
        launch = ["train"] if ranks == 1 else ["torchrun", f"--nproc_per_node={ranks}", "-m", "titan.train"]
        done = titan(launch, [*BASE, "--dump_folder", str(folder), *words])
        run = Run(done.returncode, done.stderr, folder)
        lines = folder / "metrics.jsonl"
        if lines.exists():
            run.records = [json.loads(line) for line in lines.read_text().splitlines()]
        RUNS[key] = run
    return RUNS[key]


def parameters(*words):
    done = titan(["config"], ["--module", "qwen3", "--config", "qwen3_demo", *words, "--summary"])
    found = re.search(r"^parameters +([\d,]+)", done.stdout, re.M)
    return int(found[1].replace(",", "")) if found else done.stderr


def every_layer(name, value):
    return [f"--{(LAYER + name).replace('.N.', '.*.')}", str(value)]


def setting(name, value):
    return [f"--{name}", str(value)]


def safetensors_header(run):
    path = next(run.folder.glob("checkpoint/step-*/model*.safetensors"))
    size = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8:8 + size])


ROWS = []  # (fields, check): the check returns whether the change was seen


def row(*fields):
    return lambda check: ROWS.append((fields, check)) or check


def refused(words, *parts):
    """The words stop the program with exit code 2 and a message that holds the parts."""
    run = train(*words)
    return run.code == 2 and all(part in run.log for part in parts)


def other_losses(*words, against=()):
    run, base = train(*against, *words), train(*against)
    return run.code == 0 and len(run.losses) == len(base.losses) == 3 and run.losses != base.losses


def add_loss_rows():
    """Fields for which it is enough that the losses of three steps are other numbers, all finite."""
    changes = {
        "dataloader.dataset_path": OTHER,
        "dataloader.lanes": 1,
        "optimizer.param_groups.N.optimizer_kwargs.lr": 1e-4,
        "optimizer.param_groups.N.optimizer_kwargs.betas": "0.5,0.5",
        "optimizer.param_groups.N.optimizer_kwargs.eps": 0.1,
        "optimizer.param_groups.N.optimizer_kwargs.weight_decay": 5,
        "optimizer.implementation": "fused_opt_states_bf16",
        "training.local_batch_size": 3,
        "training.global_batch_size": 4,
        "training.seq_len": 48,
        "training.max_norm": 1e-3,
        "training.mixed_precision_param": "bfloat16",
        "attention.mask": "causal",
        "debug.seed": 7,
        LAYER + "attention.mask": "causal",
        LAYER + "attention.rope.theta": 100,
        MODEL + "tok_embeddings.init_std": 0.1,
        MODEL + "norm.eps": 0.5,
    }
    for name in ("attention_norm", "attention.q_norm", "attention.k_norm", "ffn_norm"):
        changes[f"{LAYER}{name}.eps"] = 0.5
    for name in ("attention.qkv_linear.wq", "attention.qkv_linear.wk", "attention.qkv_linear.wv", "attention.wo",
                 "feed_forward.w1", "feed_forward.w2", "feed_forward.w3"):
        changes[f"{LAYER}{name}.init_std"] = 0.1
    for name, value in changes.items():
        flag = name.replace("layers.N", "layers.*").replace("param_groups.N", "param_groups.0")
        row(name)(lambda words=setting(flag, value): other_losses(*words))


def add_size_rows():
    """Fields of sizes, set together so that they agree; the count of parameters says what came of it."""
    base = 3_672_576
    linears = ("attention.qkv_linear.wq", "attention.qkv_linear.wk", "attention.qkv_linear.wv", "attention.wo",
               "feed_forward.w1", "feed_forward.w2", "feed_forward.w3")
    outputs = dict(zip(linears, (256, 128, 128, 256, 768, 256, 768)))
    for name in linears:
        row(f"{LAYER}{name}.bias")(
            lambda name=name: parameters(every_layer(f"{name}.bias", "")[0]) == base + 4 * outputs[name])

    vocabulary = (MODEL + "vocab_size", MODEL + "tok_embeddings.num_embeddings", MODEL + "lm_head.out_features")
    row(*vocabulary)(lambda: parameters(*sum((setting(name, 4096) for name in vocabulary), []))
                     == base + 2048 * 256)

    inputs = [f"{LAYER}{name}.in_features" for name in linears if name not in ("attention.wo", "feed_forward.w2")]
    width = [MODEL + "dim", MODEL + "tok_embeddings.embedding_dim", MODEL + "norm.normalized_shape",
             MODEL + "lm_head.in_features", LAYER + "attention_norm.normalized_shape",
             LAYER + "ffn_norm.normalized_shape", LAYER + "attention.wo.out_features",
             LAYER + "feed_forward.w2.out_features", *inputs]
    row(*width)(lambda: parameters(*sum((setting(name.replace(".N.", ".*."), 128) for name in width), []))
                == (base - 4 * 64) // 2 + 4 * 64)

    hidden = [LAYER + "feed_forward.w1.out_features", LAYER + "feed_forward.w3.out_features",
              LAYER + "feed_forward.w2.in_features"]
    row(*hidden)(lambda: parameters(*sum((setting(name.replace(".N.", ".*."), 512) for name in hidden), []))
                 == base - 4 * 3 * 256 * 256)

    heads = {"attention.n_heads": 4, "attention.n_kv_heads": 4, "attention.qkv_linear.wq.out_features": 128,
             "attention.wo.in_features": 128}
    row(*(LAYER + name for name in heads))(
        lambda: parameters(*sum((every_layer(*item) for item in heads.items()), [])) == base - 4 * 2 * 256 * 128)

    kv_heads = {"attention.n_kv_heads": 2, "attention.qkv_linear.wk.out_features": 64,
                "attention.qkv_linear.wv.out_features": 64}
    row(*(LAYER + name for name in kv_heads))(
        lambda: parameters(*sum((every_layer(*item) for item in kv_heads.items()), [])) == base - 4 * 2 * 256 * 64)

    wide_heads = {"attention.n_heads": 4, "attention.n_kv_heads": 2, "attention.head_dim": 64,
                  "attention.rope.dim": 64, "attention.q_norm.normalized_shape": 64,
                  "attention.k_norm.normalized_shape": 64}
    row(*(LAYER + name for name in wide_heads))(
        lambda: parameters(*sum((every_layer(*item) for item in wide_heads.items()), [])) == base + 4 * 64)

    untied = "--model_spec.model.no_enable_weight_tying"
    row(MODEL + "enable_weight_tying")(lambda: parameters(untied) == base + 2048 * 256)
    row(MODEL + "lm_head.init_std")(
        lambda: other_losses(*setting(MODEL + "lm_head.init_std", 0.1), against=(untied,)))
    row(MODEL + "lm_head.bias")(
        lambda: "lm_head.bias" in str(parameters("--model_spec.model.lm_head.bias")))


@row("hf_assets_path")
def _():
    run = train("--hf_assets_path", str(FOLDER / "nowhere"))
    return run.code != 0 and "nowhere" in run.log


@row("dump_folder", "metrics.enable_jsonl")
def _():
    silent = train("--metrics.no_enable_jsonl")
    return train().saved("metrics.jsonl") and silent.code == 0 and not silent.saved("metrics.jsonl")


@row("device")
def _():
    return train("--device", "neuron").code != 0 and "neuron" in train("--device", "neuron").log


@row("metrics.log_freq")
def _():
    return [record["step"] for record in train("--metrics.log_freq", "2").records] == [1, 2]


@row("metrics.enable_tensorboard", "metrics.save_tb_folder")
def _():
    words = ("--metrics.enable_tensorboard", "--metrics.save_tb_folder", "board")
    return list(train(*words).folder.glob("board/*/events.out.tfevents.*")) and not train().saved("tb")


@row("metrics.disable_color_printing")
def _():
    return "\033[" in train().log and "\033[" not in train("--metrics.disable_color_printing").log


@row("metrics.save_jsonl_file")
def _():
    return train("--metrics.save_jsonl_file", "numbers.jsonl").saved("numbers.jsonl")


@row("dataloader.dataset")
def _():
    words = ("--dataloader.dataset_path", "none", "--dataloader.dataset")
    bundled, held_out = train(*words, "c4_test"), train(*words, "c4_test_validation")
    return bundled.code == held_out.code == 0 and bundled.losses != held_out.losses


@row("dataloader.text_key")
def _():
    words = ("--dataloader.dataset_path", BODY)
    wrong, right = train(*words), train(*words, "--dataloader.text_key", "body")
    return wrong.code != 0 and "body" in wrong.log and right.losses == train().losses


EPOCHS = ("--training.local_batch_size", "12", "--training.global_batch_size", "24")


@row("dataloader.seed")
def _():
    return other_losses("--dataloader.seed", "1", against=EPOCHS)


@row("dataloader.infinite")
def _():
    run = train(*EPOCHS, "--training.steps", "9", "--dataloader.no_infinite")
    return run.code == 0 and "Ran out of data" in run.log and 0 < len(run.losses) < 9


@row("dataloader.prefetch_factor")
def _():
    return refused(["--dataloader.prefetch_factor", "-1"], "dataloader.prefetch_factor")


@row("optimizer.param_groups.N.pattern")
def _():
    return refused(["--optimizer.param_groups.0.pattern", "nothing"], "pattern 'nothing'")


@row("optimizer.param_groups.N.optimizer_name")
def _():
    run = train("--optimizer.param_groups.0.optimizer_name", "Adam")
    return "Optimizer Adam (model_part=0)" in run.log and run.losses != train().losses


def rates_are(factors, *words):
    rates = train("--training.steps", "6", *words).rates
    return len(rates) == 6 and all(math.isclose(a, 3e-3 * b, rel_tol=1e-9, abs_tol=1e-12)
                                   for a, b in zip(rates, factors))


SCHEDULE = ("--lr_scheduler.warmup_steps", "1", "--lr_scheduler.decay_ratio", "0.5", "--lr_scheduler.min_lr_factor", "0")


@row("lr_scheduler.warmup_steps", "lr_scheduler.decay_ratio", "lr_scheduler.min_lr_factor")
def _():
    floor = [*SCHEDULE[:-1], "0.4"]
    return (rates_are([1, 1, 1, 1, 2 / 3, 1 / 3], *SCHEDULE)
            and rates_are([1, 1, 1, 1, 0.8, 0.6], *floor)
            and rates_are([0.25, 0.5, 0.75, 1, 1, 0.5], "--lr_scheduler.warmup_steps", "4",
                          "--lr_scheduler.min_lr_factor", "0"))


@row("lr_scheduler.decay_type")
def _():
    return rates_are([1, 1, 1, 1, 0.75, 0.25], *SCHEDULE, "--lr_scheduler.decay_type", "cosine")


@row("lr_scheduler.total_steps")
def _():
    return rates_are([1] * 6, *SCHEDULE, "--lr_scheduler.total_steps", "40")


@row("training.steps")
def _():
    return len(train("--training.steps", "2").losses) == 2


@row("training.dtype")
def _():
    return other_losses("--training.dtype", "bfloat16", against=("--training.mixed_precision_param", "bfloat16"))


@row("parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree")
def _():
    shard = "--parallelism.data_parallel_shard_degree"
    replicate = "--parallelism.data_parallel_replicate_degree"
    return ("Applied FSDP" in train(shard, "2", ranks=2).log and "Applied HSDP" in train(replicate, "2", ranks=2).log
            and refused([shard, "2"], "dp_shard(2)", "!= WORLD_SIZE(1)"))


@row("parallelism.tensor_parallel_degree", "parallelism.enable_sequence_parallel")
def _():
    words = ("--parallelism.tensor_parallel_degree", "2")
    cut, whole = train(*words, ranks=2), train(*words, "--parallelism.no_enable_sequence_parallel", ranks=2)
    return ("Applied Tensor Parallelism" in cut.log and cut.scalars("communication/reduce_scatter(bytes)")[-1] > 0
            and whole.code == 0 and whole.scalars("communication/reduce_scatter(bytes)")[-1] == 0)


def gathered(*words):
    """Bytes that rank 0 of two receives in all-gathers of the last step, without the small ones of every step."""
    return train("--model_spec.model.no_enable_weight_tying", *words, ranks=2).scalars("communication/all_gather(bytes)")[-1]


@row("parallelism.fsdp_reshard_after_forward")
def _():
    # Float32 weights, half of which come from the other rank: once or twice, the last unit (norm and head) by default once.
    half, last = 2 * (3_672_576 + 2048 * 256), 2 * (256 + 2048 * 256)
    never, default, always = (gathered("--parallelism.fsdp_reshard_after_forward", value)
                              for value in ("never", "default", "always"))
    return always - never == half and always - default == last


@row("parallelism.fsdp_prefetch")
def _():
    tag = "memory/peak_gathered_weights(bytes)"
    ahead, without = train(ranks=2), train("--parallelism.no_fsdp_prefetch", ranks=2)
    return without.losses == ahead.losses and without.scalars(tag)[-1] < ahead.scalars(tag)[-1]


@row("parallelism.fsdp_defer_gradient_reduction")
def _():
    words = ("--training.global_batch_size", "8")
    tag = "communication/reduce_scatter(bytes)"
    each, once = train(*words, ranks=2), train(*words, "--parallelism.fsdp_defer_gradient_reduction", ranks=2)
    return each.scalars(tag)[-1] == 2 * once.scalars(tag)[-1] and "keeps 14,690,304 bytes" in once.log


@row("comm.init_timeout_seconds")
def _():
    alone = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
             "MASTER_PORT": "29617"}
    done = titan(["train"], [*BASE, "--comm.init_timeout_seconds", "1"], alone)
    return done.returncode == 1 and "rank 1" in done.stderr and "1 s" in done.stderr


@row("comm.train_timeout_seconds")
def _():
    return "to 0:01:07" in train("--comm.train_timeout_seconds", "67", ranks=2).log


@row("metrics.save_for_all_ranks")
def _():
    all_ranks = train("--metrics.save_for_all_ranks", ranks=2)
    return all(all_ranks.saved(f"rank_{rank}", "metrics.jsonl") for rank in (0, 1)) and train(ranks=2).saved("metrics.jsonl")


def traces(*words):
    """Steps that a profiled run of three steps has traces of; each a list of the steps recorded."""
    folder = train("--profiler.enable_profiling", *words).folder
    return {int(path.parent.name.removeprefix("iteration_")): sorted(set(re.findall(r"ProfilerStep#\d+", path.read_text())))
            for path in folder.glob("spans/*/rank0_trace.json")}


SPANS = ("--profiler.save_traces_folder", "spans", "--profiler.profiler_warmup", "0")


@row("profiler.enable_profiling", "profiler.save_traces_folder", "profiler.profile_freq")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1")) == {1, 2, 3} and not train().saved("spans")


@row("profiler.profiler_active")
def _():
    return traces(*SPANS, "--profiler.profile_freq", "3", "--profiler.profiler_active", "2") == {
        3: ["ProfilerStep#1", "ProfilerStep#2"]}


@row("profiler.profiler_repeat")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1", "--profiler.profiler_repeat", "2")) == {1, 2}


@row("profiler.profiler_skip_first")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1", "--profiler.profiler_skip_first", "1")) == {2, 3}


@row("profiler.profiler_skip_first_wait", "profiler.profiler_warmup")
def _():
    words = (*SPANS, "--profiler.profile_freq", "3", "--profiler.profiler_skip_first_wait", "1")
    return set(traces(*words)) == {1} and set(traces(*words, "--profiler.profiler_warmup", "1")) == {2}


@row("checkpoint.enable", "checkpoint.folder", "checkpoint.last_save_in_hf")
def _():
    run = train(*SAVING, "--checkpoint.folder", "weights")
    return run.saved("weights", "step-3", "config.json") and not train().saved("checkpoint")


@row("checkpoint.interval")
def _():
    return refused([*SAVING, "--checkpoint.interval", "1"], "checkpoint.interval")


@row("checkpoint.initial_load_path", "checkpoint.initial_load_in_hf")
def _():
    step = next(train(*SAVING).folder.glob("checkpoint/step-*"))
    run = train(*SAVING, "--checkpoint.initial_load_path", str(step), "--checkpoint.initial_load_in_hf")
    return run.code == 0 and run.losses[0] < train().losses[0] - 0.1


@row("checkpoint.initial_load_model_only")
def _():
    return refused([*SAVING, "--checkpoint.no_initial_load_model_only"], "initial_load_model_only")


@row("checkpoint.initial_load_in_hf_quantized")
def _():
    return refused([*SAVING, "--checkpoint.initial_load_in_hf_quantized"], "initial_load_in_hf_quantized")


@row("checkpoint.last_save_model_only")
def _():
    return refused([*SAVING, "--checkpoint.no_last_save_model_only"], "last_save_model_only")


@row("checkpoint.export_dtype")
def _():
    header = safetensors_header(train(*SAVING, "--checkpoint.export_dtype", "bfloat16"))
    return {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"BF16"}


@row("checkpoint.export_tied_head")
def _():
    both = safetensors_header(train(*SAVING, "--checkpoint.export_tied_head"))
    return "lm_head.weight" in both and "lm_head.weight" not in safetensors_header(train(*SAVING))


@row("checkpoint.load_only")
def _():
    run = train(*SAVING, "--checkpoint.load_only")
    return run.code == 0 and not list(run.folder.glob("checkpoint/step-*"))


@row("validator.enable", "validator.freq", "validator.steps")
def _():
    often, seldom = train(*VALIDATING), train(*VALIDATING, "--validator.freq", "50")
    longer = train(*VALIDATING, "--validator.steps", "4")
    return (len(often.validation) == 2 and len(seldom.validation) == 1 and not train().validation
            and longer.validation != often.validation)


def other_validation(*words, code=0):
    run = train(*VALIDATING, *words)
    return run.code == code and run.validation and run.validation != train(*VALIDATING).validation


@row("validator.dataloader.dataset_path", "validator.dataloader.dataset")
def _():
    bundled = ("--validator.dataloader.dataset_path", "none", "--validator.dataloader.dataset")
    return (other_validation("--validator.dataloader.dataset_path", SHORT)
            and other_validation(*bundled, "c4_test_validation")
            and refused([*VALIDATING, *bundled, "c4_validation"], "c4_validation"))


@row("validator.dataloader.text_key")
def _():
    return other_validation("--validator.dataloader.dataset_path", BODY, "--validator.dataloader.text_key", "body")


@row("validator.dataloader.infinite")
def _():
    return refused([*VALIDATING, "--validator.steps", "-1", "--validator.dataloader.infinite"],
                   "validator.dataloader.infinite")


@row("validator.dataloader.lanes")
def _():
    return other_validation("--validator.dataloader.lanes", "1")


@row("validator.dataloader.seed")
def _():
    whole = ("--validator.dataloader.infinite", "--validator.steps", "40")
    return other_validation(*whole) and (train(*VALIDATING, *whole).validation
                                         != train(*VALIDATING, *whole, "--validator.dataloader.seed", "1").validation)


@row("validator.dataloader.prefetch_factor")
def _():
    return refused([*VALIDATING, "--validator.dataloader.prefetch_factor", "-1"], "prefetch_factor")


@row("activation_checkpoint:none", "activation_checkpoint:selective", "activation_checkpoint:full")
def _():
    full, selective = train("activation_checkpoint:full"), train("activation_checkpoint:selective")
    none = train("activation_checkpoint:none")
    return ("Applied FullAC" in full.log and "Applied SelectiveAC" in selective.log and "AC act" not in none.log
            and none.losses == full.losses == selective.losses)


@row("debug.deterministic", "debug.deterministic_warn_only")
def _():
    on = train("--debug.deterministic").log
    warns = train("--debug.deterministic", "--debug.deterministic_warn_only").log
    return ("without one is an error" in on and "without one only warns" in warns
            and "Deterministic algorithms" not in train().log)


@row("debug.print_config", "debug.save_config_file")
def _():
    run = train("--debug.print_config", "--debug.save_config_file", "config.json")
    saved = json.loads((run.folder / "config.json").read_text())
    return "Running with configs: {" in run.log and saved["training"]["steps"] == 3


@row("override.imports")
def _():
    (FOLDER / "flat_rope.cpp").write_text(
        "#include <titan/recipes.h>\nusing namespace titan;\n"
        "Override flat_rope() {\n"
        "  return override<CosSinRoPEConfig>({}, [](const auto& config) {\n"
        "    auto flat = config;\n    flat.theta = 7.0;\n    return flat;\n  });\n}\n")
    run = train("--override.imports", "flat_rope")
    return "[Override] flat_rope: model_spec.model.layers.0.attention.rope" in run.log and run.losses != train().losses


@row("model_spec.name", "model_spec.flavor")
def _():
    return "Model qwen3 tiny" in train("--model_spec.flavor", "tiny").log.replace("\033[31m", "") and refused(
        ["--model_spec.name", "other", "--hf_assets_path", str(other_assets())], "other")


def other_assets():
    return next(train(*SAVING).folder.glob("checkpoint/step-*"))


@row(LAYER + "attention.attn_backend")
def _():
    run = train(*every_layer("attention.attn_backend", "sdpa"))
    return "torchtitan's attn_backend sdpa would use causal" in run.log


@row(LAYER + "attention.rope.max_seq_len")
def _():
    return refused(every_layer("attention.rope.max_seq_len", 16), "training.seq_len 32", "16 positions")


add_loss_rows()
add_size_rows()


def working_fields():
    """The fields that `titan config --status` calls works."""
    fields, section = [], ""
    for line in titan(["config"], ["--status"]).stdout.splitlines():
        if line.startswith("## "):
            section = line[3:]
        found = re.match(r"\| `([^`]+)` \|.*\| works \|", line)
        if found and section.startswith(("Fields", "Kinds")):
            fields.append(found[1])
    return fields


class WorksFields(unittest.TestCase):
    def test_every_working_field_has_a_row_and_every_row_a_working_field(self):
        working = working_fields()
        self.assertGreater(len(working), 90)
        tested = {name for fields, _ in ROWS for name in fields}
        self.assertEqual(sorted(set(working) - tested), [], "fields without a row")
        self.assertEqual(sorted(tested - set(working)), [], "rows for fields that do not work")

    def test_the_run_that_the_others_are_compared_with_trains(self):
        run = train()
        self.assertEqual(run.code, 0, run.log)
        self.assertEqual(len(run.losses), 3)

    def test_each_field_changes_what_is_seen(self):
        for fields, check in ROWS:
            with self.subTest(fields=fields):
                self.assertTrue(check(), f"{', '.join(fields)}: nothing else was seen")


if __name__ == "__main__":
    unittest.main()
