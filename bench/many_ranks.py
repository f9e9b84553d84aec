#!/usr/bin/env python3
"""The guide's launch line with many ranks on this machine: seconds to start, seconds in all, memory of all processes.

Ten steps of the demo flavor, one row of 256 tokens a rank. Memory is the largest sum of proportional set sizes (PSS) seen
over the launcher, its store and its ranks. Usage: python3 bench/many_ranks.py [--titan PROGRAM] [--ranks 64]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "TITAN_MANY_RANKS"


def total_pss(mark):
    """MiB of all processes whose environment holds the mark."""
    kib = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (process / "environ").read_bytes():
                continue
            kib += int(re.search(r"^Pss: +(\d+)", (process / "smaps_rollup").read_text(), re.M)[1])
        except (OSError, TypeError):
            continue  # it has just ended
    return kib / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/bin/titan"))
    parser.add_argument("--ranks", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.titan, "torchrun", f"--nproc_per_node={arguments.ranks}", "--rdzv_backend", "c10d",
                   "--rdzv_endpoint", "localhost:0", "--local-ranks-filter", "0", "--role", "rank", "--tee", "3",
                   "-m", "titan.train", "--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "10",
                   "--training.local_batch_size", "1", "--metrics.log_freq", "1", "--dump_folder", folder]
        begin = time.time()
        log = Path(folder, "console")
        with log.open("w") as console:
            job = subprocess.Popen(command, stdout=console, stderr=subprocess.STDOUT, env={**os.environ, MARK: folder})
        peak, mark = 0.0, f"{MARK}={folder}".encode()
        while job.poll() is None:
            peak = max(peak, total_pss(mark))
            time.sleep(2)
        text = log.read_text()
    started = re.search(r"\[titan\] (\S+ [\d:,]+) - .* Training starts", text)
    if job.returncode or not started:
        sys.exit(text)
    start = datetime.strptime(started[1], "%Y-%m-%d %H:%M:%S,%f").timestamp() - begin
    others = [line for line in text.splitlines() if line.startswith("[rank") and not line.startswith("[rank0]:")]
    print(f"{arguments.ranks} ranks: started in {start:.1f} s, ended in {time.time() - begin:.1f} s, exit code 0, "
          f"largest PSS of all processes {peak / 1024:.2f} GiB, lines of other ranks than 0: {len(others)}")


if __name__ == "__main__":
    main()
