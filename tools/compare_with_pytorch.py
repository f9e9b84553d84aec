#!/usr/bin/env python3
"""Trains one model twice, with titan and with a plain PyTorch loop over transformers, and compares the curves.

Both start from the same Hugging Face folder (random weights from --seed) and see the same rows, which titan writes
with `titan batches`. Run it with the interpreter of .venv:

    .venv/bin/python tools/compare_with_pytorch.py --titan build/release/bin/titan --steps 300 --plot docs/parity.svg
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARMUP, DECAY_RATIO, MIN_LR_FACTOR = 20, 0.5, 0.1  # qwen3_demo's


def make_assets(folder, seed):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=4,
                         num_attention_heads=8, num_key_value_heads=4, head_dim=32, max_position_embeddings=2048,
                         rope_parameters={"rope_type": "default", "rope_theta": 1e6}, rms_norm_eps=1e-6,
                         tie_word_embeddings=True, initializer_range=0.02, attn_implementation="sdpa")
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "tests/assets/tokenizer" / name, folder)
    return model


def run_titan(arguments, assets, work):
    common = ["--module", "qwen3", "--config", "qwen3_demo", "--hf_assets_path", assets, "--training.steps",
              str(arguments.steps), "--training.global_batch_size", str(arguments.global_batch_size),
              "--optimizer.param_groups.0.optimizer_kwargs.lr", str(arguments.lr)]
    rows, held_out = work / "rows.safetensors", work / "validation.safetensors"
    for out, more in ((rows, []), (held_out, ["--validation"])):
        subprocess.run([arguments.titan, "batches", *common, "--out", out, *more], check=True)
    subprocess.run([arguments.titan, "train", *common, "--dump_folder", work, "--metrics.enable_jsonl",
                    "--metrics.log_freq", "1", "--validator.enable", "--validator.freq", str(arguments.steps),
                    "--checkpoint.initial_load_path", assets, "--checkpoint.initial_load_in_hf"],
                   check=True, stderr=None if arguments.verbose else subprocess.DEVNULL)
    steps, validation = {}, {}
    for line in (work / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "loss_metrics/global_avg_loss" in record:
            steps[record["step"]] = (record["loss_metrics/global_avg_loss"], record["grad_norm"])
        if "validation_metrics/loss" in record:
            validation[record["step"]] = record["validation_metrics/loss"]
    curve = [steps[step] for step in range(1, arguments.steps + 1)]
    return rows, held_out, curve, validation[arguments.steps]


def lr_factor(index, steps):
    """The reference's warmup-stable-decay schedule, linear decay."""
    warmup = min(WARMUP, steps)
    decay = round(steps * DECAY_RATIO)
    decay = steps - warmup if warmup + decay > steps else decay
    stable = steps + 1 - warmup - decay
    if index < warmup:
        return (index + 1) / warmup
    if index < warmup + stable:
        return 1.0
    return MIN_LR_FACTOR + (1 - MIN_LR_FACTOR) * (1 - (index + 1 - warmup - stable) / decay)


def document_mask(positions):
    """Additive mask [B, 1, T, T]: causal inside a document; one begins where positions do not go on."""
    import torch

    begins = torch.ones_like(positions, dtype=torch.bool)
    begins[:, 1:] = positions[:, 1:] != positions[:, :-1] + 1
    document = begins.cumsum(1)
    allowed = (document[:, :, None] == document[:, None, :]) & torch.ones(positions.size(1), positions.size(1)).tril().bool()
    return torch.where(allowed, 0.0, torch.finfo(torch.get_default_dtype()).min)[:, None]


def loss_sum(model, batch):
    import torch

    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"],
                   attention_mask=document_mask(batch["position_ids"]), use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100,
                                             reduction="sum")


def run_pytorch(arguments, model, rows, held_out):
    import torch
    from safetensors.torch import load_file

    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    rows = load_file(rows)
    local, curve = 4, []
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * lr_factor(step, arguments.steps)
        first = step * arguments.global_batch_size
        parts = [{key: value[at:at + local] for key, value in rows.items()}
                 for at in range(first, first + arguments.global_batch_size, local)]
        valid = sum(int((part["labels"] != -100).sum()) for part in parts)
        total = 0.0
        for part in parts:
            loss = loss_sum(model, part) / valid
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        curve.append((total, norm.item()))
    held_out = load_file(held_out)
    with torch.no_grad():
        total = sum(loss_sum(model, {key: value[at:at + local] for key, value in held_out.items()}).item()
                    for at in range(0, len(held_out["labels"]), local))
    return curve, total / int((held_out["labels"] != -100).sum())


def polyline(values, low, high, top, height, style):
    step = 700 / (len(values) - 1)
    points = " ".join(f"{60 + i * step:.1f},{top + height * (high - v) / (high - low):.1f}" for i, v in enumerate(values))
    return f'<polyline points="{points}" fill="none" {style}/>'


def plot(path, ours, theirs):
    """Both curves above, their difference in per cent below, as SVG."""
    difference = [100 * (a / b - 1) for a, b in zip(ours, theirs)]
    low, high = math.floor(min(ours + theirs)), math.ceil(max(ours + theirs))
    spread = max(0.5, math.ceil(max(map(abs, difference))))
    text = lambda x, y, words: f'<text x="{x}" y="{y}">{words}</text>'
    Path(path).write_text("\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 420" font-family="sans-serif" font-size="13">',
        '<rect width="800" height="420" fill="white"/>',
        '<path d="M60 20V280H760M60 310V390M60 350H760" fill="none" stroke="#999"/>',
        polyline(theirs, low, high, 20, 260, 'stroke="#f4a261" stroke-width="5" stroke-opacity="0.6"'),
        polyline(ours, low, high, 20, 260, 'stroke="#264653" stroke-width="1.2"'),
        polyline(difference, -spread, spread, 310, 80, 'stroke="#264653" stroke-width="1"'),
        text(20, 25, f"{high:.0f}"), text(20, 284, f"{low:.0f}"), text(8, 316, f"+{spread:g} %"), text(8, 394, f"-{spread:g} %"),
        text(500, 50, "loss: titan (thin, dark)"), text(500, 70, "transformers + PyTorch (wide, light)"),
        text(500, 306, "difference of the loss"), text(330, 412, f"{len(ours)} steps"), "</svg>", ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/bin/titan"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--global-batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--float64", action="store_true", help="run PyTorch in float64: the exact curve, to measure rounding")
    parser.add_argument("--plot", help="draw the curves into this SVG file")
    parser.add_argument("--json", help="write the numbers to this file")
    parser.add_argument("--verbose", action="store_true", help="show titan's log")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        model = make_assets(work / "assets", arguments.seed)
        rows, held_out, ours, our_validation = run_titan(arguments, work / "assets", work)
        if arguments.float64:
            import torch
            torch.set_default_dtype(torch.float64)
            model = model.double()
        theirs, their_validation = run_pytorch(arguments, model, rows, held_out)

    window = min(20, arguments.steps)
    means = lambda curve: [statistics.fmean(x[0] for x in curve[i:i + window]) for i in range(len(curve) - window + 1)]
    result = {
        "steps": arguments.steps,
        "first_loss": ours[0][0],
        "last_loss": ours[-1][0],
        "max_loss_difference": max(abs(a[0] / b[0] - 1) for a, b in zip(ours, theirs)),
        "max_grad_norm_difference": max(abs(a[1] / b[1] - 1) for a, b in zip(ours, theirs)),
        "max_20_step_mean_difference": max(abs(a / b - 1) for a, b in zip(means(ours), means(theirs))),
        "validation": [our_validation, their_validation],
        "validation_difference": abs(our_validation / their_validation - 1),
    }
    print(json.dumps(result, indent=2))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result))
    if arguments.plot:
        plot(arguments.plot, [x[0] for x in ours], [x[0] for x in theirs])
    if not all(math.isfinite(x[0]) for x in ours):
        sys.exit("a loss is not finite")


if __name__ == "__main__":
    main()
