#!/usr/bin/env python3
"""Tokens/s and peak memory of training, titan beside transformers + PyTorch, on the same rows in turns.

The model of bench/modules/speed_floor.cpp, both with plain causal attention, fused AdamW and clipping. Each side runs --runs
times in turns in a process of its own; printed are medians. Usage: .venv/bin/python bench/training.py [--titan PROGRAM]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 3  # steps that do not count


def child_peak(command, **options):
    """Runs a command; returns its output and the most memory it held, in MiB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed with status {status}")
    return output.decode(), usage.ru_maxrss / 1024


def run_titan(titan, work):
    metrics = work / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    _, peak = child_peak([titan, "train", "--module", "speed_floor", "--config", "speed_floor", "--dump_folder", str(work)],
                         stderr=subprocess.DEVNULL, env={**os.environ, "TITAN_MODULE_PATH": str(ROOT / "bench/modules")})
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    rates = [record["throughput(tps)"] for record in records if record["step"] > WARM_UP]
    return statistics.median(rates), peak


def run_pytorch(rows, mode):
    output, peak = child_peak([sys.executable, __file__, "--peer", str(rows), "--mode", mode], stderr=subprocess.DEVNULL)
    return float(output), peak


def peer(rows, mode):
    import torch
    from safetensors.torch import load_file
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=8, head_dim=32, max_position_embeddings=2048, tie_word_embeddings=True,
        attn_implementation="sdpa", rope_parameters={"rope_type": "default", "rope_theta": 1e6}))
    if mode == "compile":
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    rows, rates = load_file(rows), []
    for step in range(len(rows["labels"]) // 4):
        start = time.perf_counter()
        part = {key: value[4 * step:4 * step + 4] for key, value in rows.items()}
        logits = model(input_ids=part["input_ids"], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part["labels"].flatten(), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step >= WARM_UP:
            rates.append(part["labels"].numel() / (time.perf_counter() - start))
    print(statistics.median(rates))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/bin/titan"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager", help="how the peer runs")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer, arguments.mode)

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        rows = work / "rows.safetensors"
        subprocess.run([arguments.titan, "batches", "--module", "speed_floor", "--config", "speed_floor", "--out", rows],
                       check=True, stderr=subprocess.DEVNULL, env={**os.environ, "TITAN_MODULE_PATH": str(ROOT / "bench/modules")})
        ours, theirs = [], []
        for _ in range(arguments.runs):
            ours.append(run_titan(arguments.titan, work))
            theirs.append(run_pytorch(rows, arguments.mode))
    median = lambda runs, i: statistics.median(run[i] for run in runs)
    print(f"{'':28} {'tokens/s':>10} {'peak MiB':>10}")
    print(f"{'titan':28} {median(ours, 0):10.0f} {median(ours, 1):10.0f}")
    print(f"{'transformers + PyTorch ' + arguments.mode:28} {median(theirs, 0):10.0f} {median(theirs, 1):10.0f}")
    print(f"{'titan / peer, by pairs':28} {statistics.median(a[0] / b[0] for a, b in zip(ours, theirs)):10.2f} "
          f"{statistics.median(a[1] / b[1] for a, b in zip(ours, theirs)):10.2f}")


if __name__ == "__main__":
    main()
