"""Collectives over shared memory beside the same over Gloo: `collectives.py PROGRAM` (bench_collectives).

Medians of five runs, in milliseconds, as rank 0 sees them.
"""

import os
import socket
import subprocess
import sys

LARGE = 64 << 20
LIMIT_S = 300


def run(program, size, gloo, *collectives):
    """Milliseconds of each (name, bytes); with Gloo every rank has a launcher of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    arguments = [str(word) for pair in collectives for word in pair]
    processes = []
    try:
        for rank in range(size):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0" if gloo else str(rank),
                           "LOCAL_WORLD_SIZE": "1" if gloo else str(size), "GROUP_RANK": str(rank) if gloo else "0",
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen([program, *arguments], env=environment, text=True, stdout=subprocess.PIPE))
        outs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(process.returncode for process in processes):
        sys.exit("collectives: a rank failed")
    return [float(line) for line in outs[0].split()]


def main():
    program = sys.argv[1]
    print(f"{'collective':<24}{'ranks':>6}{'shared ms':>12}{'gloo ms':>12}{'ratio':>8}")
    for size in (2, 4, 8):
        names = ("all_gather", "reduce_scatter")
        pairs = [(name, LARGE) for name in names]
        for name, shared, gloo in zip(names, run(program, size, False, *pairs), run(program, size, True, *pairs)):
            print(f"{name + ' 64 MB':<24}{size:>6}{shared:>12.2f}{gloo:>12.2f}{gloo / shared:>8.1f}", flush=True)
    print(f"{'all_reduce 1 KB':<24}{64:>6}{run(program, 64, False, ('all_reduce', 1024))[0]:>12.2f}")


if __name__ == "__main__":
    main()
