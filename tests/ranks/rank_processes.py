"""Starts the ranks of a job as plain processes with torchrun's environment set by hand."""

import os
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = Path(os.environ["TITAN_BUILD_DIR"]) / "bin"
# Above what any test needs on a busy machine: ends what hangs.
LIMIT_S = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Ranks:
    """`size` ranks of `ranks_PROGRAM MODE`; `nodes` launchers of as many ranks each."""

    def __init__(self, size, mode, program="collectives", nodes=1, start=None, **variables):
        self.size = size
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GLOO", "MASTER", "TORCHELASTIC"))},
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size // nodes), "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in variables.items()},
        }
        self.processes = {}
        for rank in start if start is not None else range(size):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank % (size // nodes)), "GROUP_RANK": str(rank // (size // nodes))}
            self.processes[rank] = subprocess.Popen(
                [PROGRAMS / f"ranks_{program}", mode], env={**self.environment, **own}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def wait_until_ready(self):
        for process in self.processes.values():
            line = process.stdout.readline()
            if line != "ready\n":
                raise AssertionError(f"not ready: {line} {process.stderr.read()}")

    def finish(self, besides=()):
        """{rank: (exit code, stdout, stderr but for what is said of groups)} of all ranks but `besides`."""
        deadline = time.monotonic() + LIMIT_S
        done = {}
        for rank, process in self.processes.items():
            if rank not in besides:
                out, err = process.communicate(timeout=max(deadline - time.monotonic(), 1))
                errors = [line for line in err.splitlines(keepends=True) if " - INFO - Group " not in line]
                done[rank] = (process.returncode, out, "".join(errors))
        return done
