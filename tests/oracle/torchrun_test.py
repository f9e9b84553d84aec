"""`titan torchrun` beside PyTorch's own torchrun: the same flags must give workers the same environment, variable by variable."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
LIMIT = 240
LAUNCHERS = {"titan": [TITAN, "torchrun"], "torch": [sys.executable, "-m", "torch.distributed.run"]}
# What each run chooses for itself: compared by its form.
OWN = {"MASTER_PORT": r"\d+", "TORCHELASTIC_RUN_ID": r"[0-9a-f-]{36}",
       "TORCHELASTIC_ERROR_FILE": r".*/[^/]+_[^/]+/(attempt_\d+/\d+/error\.json)"}
# Whole as soon as it has its name: a launcher may end a worker while it writes.
DUMP = 'f="$DUMP_FOLDER/$RANK.$TORCHELASTIC_RESTART_COUNT"; env -0 > "$f.part"; mv "$f.part" "$f"'


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def clean_environment(folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TITAN", "PET_", "TORCH", "OMP_", "CUDA_"))}
    return {**kept, "DUMP_FOLDER": str(folder), "TMPDIR": str(folder)}


def launch(launcher, nodes, worker=DUMP, code=0, extra_environment=None):
    """The environment of each worker, by "RANK.RESTART_COUNT". `nodes` are the flags of each launcher of one job."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**clean_environment(folder), **(extra_environment or {})}
        started = [subprocess.Popen([*LAUNCHERS[launcher], *map(str, flags), "--no-python", "sh", "-c", worker], env=env,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for flags in nodes]
        for process in started:
            out, _ = process.communicate(timeout=LIMIT)
            if process.returncode != code:
                raise AssertionError(f"{launcher} {nodes}: exit code {process.returncode}\n{out}")
        return {p.name: dict(entry.split("=", 1) for entry in p.read_text().split("\0") if entry) for p in Path(folder).iterdir() if p.is_file()}


def by_form(environment, problems, fixed_id):
    """The environment with what a run chooses itself replaced by what it must look like."""
    seen = {k: v for k, v in environment.items() if k not in ("DUMP_FOLDER", "TMPDIR", "_", "SHLVL", "PWD", "OLDPWD")}
    for name, pattern in OWN.items():
        if name == "TORCHELASTIC_RUN_ID" and fixed_id:
            continue
        match = re.fullmatch(pattern, seen.get(name, ""))
        if not match:
            problems.append(f"{name}={seen.get(name)} is not like {pattern}")
        else:
            seen[name] = match[1] if match.groups() else pattern
    return seen


class Environment(unittest.TestCase):
    def same(self, nodes, count, fixed_id=True, **options):
        make = nodes if callable(nodes) else lambda: nodes
        ours, theirs = (launch(name, make(), **options) for name in ("titan", "torch"))
        self.assertEqual(len(theirs), count)
        self.assertEqual(sorted(ours), sorted(theirs))
        for rank in sorted(theirs):
            problems = []
            a, b = by_form(ours[rank], problems, fixed_id), by_form(theirs[rank], problems, fixed_id)
            self.assertEqual(problems, [])
            different = {k: (a.get(k), b.get(k)) for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)}
            self.assertEqual(different, {}, f"rank {rank}: (titan's, torchrun's)")

    def test_one_node_of_the_guides_line(self):
        self.same([["--nproc_per_node=3", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", "job",
                    "--local-ranks-filter", "0", "--role", "rank", "--tee", "3"]], 3)

    def test_standalone_and_no_rendezvous_flags_at_all(self):
        self.same([["--standalone", "--nproc-per-node=2"]], 2, fixed_id=False)
        self.same([[]], 1, fixed_id=False)

    def test_static_with_a_port(self):
        self.same(lambda: [["--nproc_per_node=2", "--master_addr", "127.0.0.1", "--master_port", free_port(), "--rdzv_id", "s"]], 2)

    def test_two_nodes_with_different_numbers_of_workers(self):
        def nodes():
            port = free_port()
            where = ["--nnodes", "2", "--master_addr", "127.0.0.1", "--master_port", port, "--max_restarts", "1"]
            return [[*where, "--node_rank", "0", "--nproc_per_node", "1"], [*where, "--node_rank", "1", "--nproc_per_node", "2"]]
        self.same(nodes, 3)

    def test_two_nodes_in_order_of_arrival(self):
        def nodes():
            return [["--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{port}", "--rdzv_id", "n"]] * 2
        port = free_port()
        self.same(nodes, 2)

    def test_variables_that_the_user_set(self):
        variables = {"OMP_NUM_THREADS": "5", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "CUDA_VISIBLE_DEVICES": "3,1",
                     "PET_NPROC_PER_NODE": "2", "PET_ROLE": "trainer", "MASTER_ADDR": "elsewhere", "RANK": "9"}
        self.same([["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=v", "--signals-to-handle=SIGTERM,SIGUSR1"]], 2,
                  extra_environment=variables)

    def test_virtual_local_ranks_and_a_store_of_the_workers_own(self):
        self.same([["--nproc_per_node=2", "--virtual-local-rank", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=v"]], 2,
                  extra_environment={"CUDA_VISIBLE_DEVICES": "4, 7", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def test_after_a_restart(self):
        self.same([["--nproc_per_node=2", "--max_restarts=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=r"]], 4,
                  worker=f'{DUMP}; cd "$DUMP_FOLDER"; n=$TORCHELASTIC_RESTART_COUNT; while [ ! -e 0.$n ] || [ ! -e 1.$n ]; do sleep 0.02; done; [ $n = 1 ]')


class Workers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_launcher(self, launcher, *flags):
        return subprocess.run([*LAUNCHERS[launcher], *flags], capture_output=True, text=True, timeout=LIMIT, env=clean_environment(self.folder))

    def test_workers_written_in_python_meet_over_the_launchers_store(self):
        script = ("import torch, torch.distributed as dist; dist.init_process_group('gloo'); x = torch.ones(1) * (dist.get_rank() + 1);"
                  "dist.all_reduce(x); print('sum', int(x)); dist.destroy_process_group()")
        done = self.run_launcher("titan", "--nproc_per_node=2", "--tee=1", "--no_python", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[default0]:sum 3", "[default1]:sum 3"])

    def test_the_error_file_of_a_worker_written_in_python_is_shown(self):
        script = self.folder / "worker.py"
        script.write_text("import os\nfrom torch.distributed.elastic.multiprocessing.errors import record\n"
                          "@record\ndef main():\n    raise RuntimeError('the reason of rank ' + os.environ['RANK'])\nmain()\n")
        done = self.run_launcher("titan", "--no_python", sys.executable, str(script))
        self.assertEqual(done.returncode, 1)
        self.assertIn("RuntimeError: the reason of rank 0", done.stderr[done.stderr.rindex("titan: error: "):])

    def test_pythons_torchrun_starts_titan(self):
        done = self.run_launcher("torch", "--nproc_per_node=2", "--no-python", TITAN, "version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"^titan \d", done.stdout, re.M)), 2, done.stdout)


if __name__ == "__main__":
    unittest.main()
