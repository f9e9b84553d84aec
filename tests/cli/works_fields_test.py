"""Every field whose status is `works` is set to another value here, and something else is seen to change.

`titan config --status` says which fields work; the test fails when one has no row. A row is the words that set the
fields, and a function that looks at the run. Runs are three steps of the demo model on two short files.
"""

import json
import math
import re
import unittest

import works_fields_ranks  # noqa: F401  adds its rows
from works_fields_runs import (BODY, FOLDER, LAYER, MODEL, OTHER, ROWS, SAVING, SHORT, VALIDATING, every_layer,
                               other_losses, parameters, refused, row, safetensors_header, setting, titan, train)


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
    neuron = train("--device", "neuron")
    return (neuron.code == 0 and "NEURON capacity: " in neuron.log and "CPU capacity: " in train().log
            and neuron.losses == train().losses)


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
