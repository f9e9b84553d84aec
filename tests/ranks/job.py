"""A launcher with its ranks, as a test sees it: its lines, its processes, and its end within a time limit."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

LIMIT = 120  # seconds until a job that should have ended counts as hanging


class Job:
    """Standard error and output are read together; `home` holds what the job caches."""

    def __init__(self, command, home, cwd, **variables):
        self.mark = f"TITAN_TEST_JOB={os.getpid()}.{id(self)}".encode()
        name, value = self.mark.decode().split("=")
        environment = {**os.environ, "HOME": str(home), "TITAN_NUM_THREADS": "1", name: value, **variables}
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, cwd=cwd, env=environment, start_new_session=True)
        self.lines, self.ended = [], False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:  # who waits for a line learns that none will come
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, pattern):
        """The first line that the pattern is found in."""
        deadline = time.monotonic() + LIMIT
        with self.changed:
            while True:
                for line in self.lines:
                    if re.search(pattern, line):
                        return line
                if self.ended or not self.changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"'{pattern}' never came:\n" + "\n".join(self.lines))

    def pids(self, rank=None):
        """The job's processes, or that of one rank."""
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                words = Path(entry.path, "environ").read_bytes().split(b"\0")
                state = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if self.mark in words and state != "Z" and (rank is None or f"RANK={rank}".encode() in words):
                found.append(int(entry.name))
        return found

    def signal_rank(self, rank, number):
        for pid in self.pids(rank):
            os.kill(pid, number)

    def finish(self):
        """Exit code and text of the job, which ends within the limit and leaves no process."""
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError("the job hangs:\n" + "\n".join(self.lines)) from None
        deadline = time.monotonic() + 5
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.pids()
        self.end()
        if left:
            raise AssertionError(f"processes {left} are left:\n" + "\n".join(self.lines))
        return code, "\n".join(self.lines)

    def end(self):
        """Kills what is left and closes the pipe."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()
