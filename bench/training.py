#!/usr/bin/env python3
"""Tokens/s and peak memory of training, titan beside transformers + PyTorch, on the same rows in turns.

The model of bench/modules/speed_floor.cpp, both with plain causal attention, fused AdamW and clipping. Each side runs --runs
times in turns in processes of its own; printed are medians. With --ranks N both are fully sharded over N ranks of one
machine (the peer: torch FSDP2's fully_shard, on Gloo), the rows divided among them; the memory is then that of the fullest
rank. Usage: .venv/bin/python bench/training.py [--titan PROGRAM] [--ranks N] [--mode compile]
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
ROWS = 4  # of a step, over all ranks


def child_peak(command, **options):
    """Runs a command; returns its output and the most memory it held, in MiB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed with status {status}")
    return output.decode(), usage.ru_maxrss / 1024


def run_titan(titan, work, ranks):
    metrics = work / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    words = ["--module", "speed_floor", "--config", "speed_floor", "--dump_folder", str(work)]
    launch = [titan, "train"]
    if ranks > 1:
        launch = [titan, "torchrun", f"--nproc_per_node={ranks}", "-m", "titan.train"]
        words += ["--training.local_batch_size", str(ROWS // ranks)]
    _, peak = child_peak([*launch, *words], stderr=subprocess.DEVNULL,
                         env={**os.environ, "TITAN_MODULE_PATH": str(ROOT / "bench/modules")})
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    tag = "throughput_of_all_ranks(tps)" if ranks > 1 else "throughput(tps)"
    rates = [record[tag] for record in records if record["step"] > WARM_UP]
    if ranks > 1:
        peak = records[-1]["memory/max_active_of_all_ranks(GiB)"] * 1024
    return statistics.median(rates), peak


def run_pytorch(rows, mode, ranks):
    launch = [sys.executable]
    if ranks > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    output, peak = child_peak([*launch, __file__, "--peer", str(rows), "--mode", mode], stderr=subprocess.DEVNULL,
                              env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    numbers = output.split()
    return float(numbers[0]), float(numbers[1]) if ranks > 1 else peak


def peer(rows, mode):
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file
    from transformers import Qwen3Config, Qwen3ForCausalLM

    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=8, head_dim=32, max_position_embeddings=2048, tie_word_embeddings=True,
        attn_implementation="sdpa", rope_parameters={"rope_type": "default", "rope_theta": 1e6}))
    if ranks > 1:
        from torch.distributed.fsdp import fully_shard
        dist.init_process_group("gloo")
        mesh = dist.init_device_mesh("cpu", (ranks,))
        for layer in model.model.layers:
            if mode == "compile":
                layer.compile()
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif mode == "compile":
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    rows, rates = load_file(rows), []
    share = ROWS // ranks
    for step in range(len(rows["labels"]) // ROWS):
        start = time.perf_counter()
        first = ROWS * step + share * rank
        part = {key: value[first:first + share] for key, value in rows.items()}
        logits = model(input_ids=part["input_ids"], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part["labels"].flatten(), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step >= WARM_UP:
            rates.append(ranks * part["labels"].numel() / (time.perf_counter() - start))
    peak = torch.tensor(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    if ranks > 1:
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(statistics.median(rates), float(peak))
    if ranks > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/bin/titan"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1, help="fully sharded over so many ranks")
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
            ours.append(run_titan(arguments.titan, work, arguments.ranks))
            theirs.append(run_pytorch(rows, arguments.mode, arguments.ranks))
    peer_name = f"transformers + {'FSDP2' if arguments.ranks > 1 else 'PyTorch'} {arguments.mode}"
    median = lambda runs, i: statistics.median(run[i] for run in runs)
    print(f"{'':32} {'tokens/s':>10} {'peak MiB':>10}")
    print(f"{f'titan, {arguments.ranks} rank(s)':32} {median(ours, 0):10.0f} {median(ours, 1):10.0f}")
    print(f"{peer_name:32} {median(theirs, 0):10.0f} {median(theirs, 1):10.0f}")
    print(f"{'titan / peer, by pairs':32} {statistics.median(a[0] / b[0] for a, b in zip(ours, theirs)):10.2f} "
          f"{statistics.median(a[1] / b[1] for a, b in zip(ours, theirs)):10.2f}")


if __name__ == "__main__":
    main()
