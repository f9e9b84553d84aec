#!/usr/bin/env python3
"""The demo's step on the emulated `neuron` device beside its step on `cpu`: seconds a step, in turns, medians.

Each run takes 21 steps of the demo flavor; the first, which compiles, does not count. Usage:
python3 bench/neuron_step.py [--titan PROGRAM] [--rounds 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = 21


def step_seconds(titan, device, folder):
    """Mean seconds of steps 2 to STEPS of one run."""
    command = [titan, "train", "--module", "qwen3", "--config", "qwen3_demo", "--device", device, "--debug.seed", "1",
               "--training.steps", str(STEPS), "--metrics.log_freq", "1", "--metrics.enable_jsonl",
               "--validator.no_enable", "--checkpoint.no_enable", "--dump_folder", str(folder / device)]
    environment = {**os.environ, "TITAN_NEURON_STATE_DIR": str(folder / "state"),
                   "TORCH_NEURONX_NEFF_CACHE_DIR": str(folder / "cache")}
    file = folder / device / "metrics.jsonl"
    file.unlink(missing_ok=True)
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return statistics.mean(line["time_metrics/end_to_end(s)"] for line in lines if line["step"] > 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/bin/titan"))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = []
        for _ in range(arguments.rounds):
            cpu, neuron = (step_seconds(arguments.titan, device, folder) for device in ("cpu", "neuron"))
            pairs.append((cpu, neuron))
            print(f"cpu {cpu:.4f} s/step, neuron {neuron:.4f} s/step (emulated): {neuron / cpu:.3f}x", flush=True)
    cpu, neuron = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(neuron / cpu for cpu, neuron in pairs)
    print(f"medians of {arguments.rounds}: cpu {cpu:.4f} s, neuron {neuron:.4f} s; by pairs {ratio:.3f}x")


if __name__ == "__main__":
    main()
