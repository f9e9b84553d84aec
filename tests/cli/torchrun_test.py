"""`titan torchrun`: what workers are told, what comes on the console and in files, and that a job ends whole, however it ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
LIMIT = 60  # seconds that any one command may take

# What a c10d client sends first, and a ping; one write, so that lines of two workers do not mix.
STORE_PROBE = """
import os, socket
s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 30)
s.sendall(bytes([0, 0xCE, 0xF7, 0x85, 0x3C, 13]) + b"abcd")
os.write(1, f"{os.environ['RANK']} {os.environ['MASTER_ADDR']} {s.recv(4)}\\n".encode())
"""


def command(*flags, script=None, program=None):
    words = [TITAN, "torchrun", *map(str, flags)]
    if script is not None:
        words += ["--no_python", "sh", "-c", script]
    return words + list(program or [])


def run(*flags, script=None, program=None, env=None, **options):
    return subprocess.run(command(*flags, script=script, program=program), capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, **options)


def start(*flags, script=None, program=None, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command(*flags, script=script, program=program), text=True, stdin=subprocess.DEVNULL, **options)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, what):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come about")


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class TorchrunCase(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.mark = f"TITAN_TORCHRUN_TEST={self.folder.name}"
        os.environ.update([self.mark.split("=")])
        os.environ["TMPDIR"] = self.temporary.name

    def tearDown(self):
        try:
            wait_for(lambda: not self.left(), f"the end of {self.left()}")
        finally:
            for pid in self.left():
                os.kill(pid, signal.SIGKILL)
            self.temporary.cleanup()
            del os.environ["TMPDIR"]

    def left(self):
        """Processes of this test, known by their environment, wherever they have gone."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if int(process.name) != os.getpid() and self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found += [int(process.name)] if is_alive(process.name) else []
            except OSError:
                continue
        return found

    def pids(self, count):
        """The ids that `count` workers wrote into files named pid.RANK in the test's folder."""
        files = lambda: [p for p in self.folder.glob("pid.*") if p.read_text().strip()]
        wait_for(lambda: len(files()) == count, f"{count} started workers")
        return [int(p.read_text()) for p in files()]

    def finish(self, process):
        out, err = process.communicate(timeout=LIMIT)
        return process.returncode, out, err


class Command(TorchrunCase):
    def test_help_lists_every_flag_in_one_line_each(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for flag in ("nnodes", "nproc-per-node", "rdzv-endpoint", "standalone", "max-restarts", "local-ranks-filter", "tee",
                     "shutdown-timeout", "virtual-local-rank", "signals-to-handle"):
            self.assertEqual(len(re.findall(rf"--{flag}[ ].*\S", result.stdout)), 1, flag)

    def refused(self, code, *words, **options):
        result = run(*options.pop("flags", ()), **options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("titan: error: "), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_mistakes_in_flags_are_named_with_exit_code_2(self):
        for flags, words in [
            (["--nproc_per_nodes", "2"], ["--nproc-per-nodes", "did you mean --nproc-per-node?"]),
            (["--nproc_per_node", "0"], ["--nproc-per-node", "at least 1", "got 0"]),
            (["--nproc_per_node", "5000"], ["--nproc-per-node", "at most 4096"]),
            (["--nproc_per_node", "999999999999"], ["--nproc-per-node", "at most"]),
            (["--rdzv_conf", "join_timeout=9223372036854775807"], ["join_timeout", "at most"]),
            (["--nproc_per_node", "many"], ["number, auto, cpu or gpu", "many"]),
            (["--nnodes", "3:2"], ["--nnodes", "MIN:MAX", "3:2"]),
            (["--rdzv_backend", "etcd"], ["--rdzv-backend=etcd", "c10d", "static"]),
            (["--rdzv_conf", "join_timout=3"], ["join_timout", "did you mean join_timeout?"]),
            (["--tee", "4"], ["--tee", "got 4"]),
            (["--run_path"], ["--run-path is not supported"]),
            (["--logs_specs", "x"], ["--logs-specs is not supported"]),
            (["--nnodes", "2", "--node_rank", "2"], ["--node-rank", "2 nodes of --nnodes"]),
            (["--rdzv_endpoint", "host:99999"], ["port from 0 to 65535"]),
            (["--standalone=1"], ["--standalone takes no value"]),
            (["--nproc_per_node"], ["--nproc-per-node needs a value"]),
        ]:
            with self.subTest(flags=flags):
                script = None if flags == ["--nproc_per_node"] else "true"
                self.refused(2, *words, flags=flags, script=script)
        self.refused(2, "what to start?")

    def test_what_cannot_be_started_is_said_and_what_can(self):
        self.refused(2, "the Python script train.py", "-m titan.train", "--no_python", program=["train.py"])
        self.refused(2, "the Python module other.train", program=["-m", "other.train"])
        self.refused(1, "no_such_program", "PATH", program=["--no_python", "no_such_program"])
        self.refused(1, "./missing", "no such file", program=["--no_python", "./missing"])

    def test_closed_standard_descriptors_are_not_taken_by_its_own_files(self):
        command = f"exec '{TITAN}' torchrun --nproc_per_node=2 --no_python sh -c 'echo $RANK >$RANK.seen' <&- >&- 2>&-"
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["sh", "-c", command], cwd=folder, timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(sorted(path.name for path in Path(folder).iterdir()), ["0.seen", "1.seen"])

    def test_titan_train_is_this_very_program(self):
        for module in ("titan.train", "torchtitan.train"):
            result = run("--nproc-per-node=1", "--tee=3", program=["-m", module, "--help"])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("[default0]:titan train: train a model", result.stdout)

    def test_flags_come_in_both_spellings_and_from_the_environment(self):
        script = "echo $WORLD_SIZE $ROLE_NAME $TORCHELASTIC_RUN_ID"
        for flags, env in [(["--nproc_per_node", "2", "--role", "r", "--rdzv_backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv_id=j"], {}),
                           (["--nproc-per-node=2", "--role=r", "--rdzv-backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv-id", "j"], {}),
                           (["--role", "r"], {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "x", "PET_RDZV_BACKEND": "c10d",
                                              "PET_RDZV_ENDPOINT": "localhost:0", "PET_RDZV_ID": "j"})]:
            with self.subTest(flags=flags):
                self.assertEqual(run(*flags, script=script, env=env).stdout, "2 r j\n" * 2)
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(run("--nproc_per_node", "cpu", script="echo $WORLD_SIZE").stdout, f"{cores}\n" * cores)

    def test_auto_starts_a_rank_for_each_visible_core_of_the_emulated_neuron_machine(self):
        for cores, ranks in (("5,0-1", 3), (None, 64)):
            env = {"TITAN_NEURON_PROVIDER": "emulator"} | ({"NEURON_RT_VISIBLE_CORES": cores} if cores else {})
            self.assertEqual(run("--nproc_per_node=auto", script="echo $WORLD_SIZE", env=env).stdout, f"{ranks}\n" * ranks)
        self.refused(2, "--nproc-per-node=auto", "/x/libdevice.so", "give a number", flags=["--nproc_per_node", "auto"], script="true",
                     env={"TITAN_NEURON_PROVIDER": "/x/libdevice.so"})

    def test_settings_without_effect_are_said_once_each(self):
        result = run("--standalone", "--start_method", "fork", "--event_log_handler", "console", "--rdzv_conf", "close_timeout=3", script="true")
        self.assertEqual(result.returncode, 0)
        for word in ("--start-method=fork", "--event-log-handler=console", "close_timeout"):
            self.assertEqual(len([line for line in result.stderr.splitlines() if word in line and "no effect" in line]), 1, result.stderr)

    def test_local_rank_is_put_into_arguments(self):
        result = run("--nproc_per_node", "2", program=["--no_python", "echo", "a${local_rank}b"])
        self.assertEqual(sorted(result.stdout.split()), ["a0b", "a1b"])

    def test_with_nothing_to_wait_for_it_takes_no_library_of_torch(self):
        result = run(program=["--no_python", "sh", "-c", "cat /proc/$PPID/maps"])
        self.assertIn("libtitan_core", result.stdout)
        self.assertNotIn("libtorch", result.stdout)


class Output(TorchrunCase):
    def test_lines_have_the_roles_prefix(self):
        self.assertEqual(run("--tee", "3", script="echo out; echo err >&2").stdout, "[default0]:out\n")
        result = run("--nproc_per_node", "2", "--role", "rank", "--tee", "3", script="echo $RANK; echo e$RANK >&2")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[rank0]:0", "[rank1]:1"])
        self.assertEqual(sorted(result.stderr.splitlines()), ["[rank0]:e0", "[rank1]:e1"])
        odd = run("--role", "a b/ü", "--tee", "1", script="echo x")
        self.assertEqual(odd.stdout, "[a b/ü0]:x\n")
        template = run("--tee", "1", script="echo x", env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name} ${rank}>"})
        self.assertEqual(template.stdout, "<default 0>x\n")

    def test_without_tee_workers_write_to_the_console_themselves(self):
        result = run(script="echo out; echo err >&2")
        self.assertEqual((result.stdout, result.stderr), ("out\n", "err\n"))

    def test_tee_and_redirects_write_files_where_torchrun_does(self):
        logs = self.folder / "logs"
        result = run("--nproc_per_node", "3", "--log_dir", logs, "--tee", "0:1,1:2", "--redirects", "2:3", "--rdzv_backend", "c10d",
                     "--rdzv_endpoint", "localhost:0", "--rdzv_id", "job", script="echo out$RANK; echo err$RANK >&2; echo $TORCHELASTIC_ERROR_FILE > $TMPDIR/e$RANK")
        self.assertEqual(result.returncode, 0, result.stderr)
        (attempt,) = logs.glob("job_*/attempt_0")
        files = {str(p.relative_to(attempt)): p.read_text() for p in attempt.rglob("*.log")}
        self.assertEqual(files, {"0/stdout.log": "out0\n", "1/stderr.log": "err1\n", "2/stdout.log": "out2\n", "2/stderr.log": "err2\n"})
        self.assertEqual(sorted(result.stdout.splitlines()), ["[default0]:out0", "out1"])
        self.assertEqual(sorted(result.stderr.splitlines()), ["[default1]:err1", "err0"])
        self.assertEqual((self.folder / "e2").read_text().strip(), str(attempt / "2" / "error.json"))

    def test_a_filter_shows_only_its_ranks_and_files_keep_all(self):
        result = run("--nproc_per_node", "3", "--tee", "3", "--local-ranks-filter", "0,2", "--log_dir", self.folder / "logs", script="echo $RANK")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[default0]:0", "[default2]:2"])
        self.assertEqual(sorted(p.read_text() for p in self.folder.rglob("stdout.log")), ["0\n", "1\n", "2\n"])
        bare = run("--nproc_per_node", "3", "--local-ranks-filter", "1", script="echo $RANK")
        self.assertEqual(bare.stdout, "1\n")

    def test_filtered_lines_go_to_a_file_of_their_own(self):
        run("--nproc_per_node", "2", "--tee", "3", "--log_dir", self.folder / "logs", "--duplicate-stdout-filters", "apple,pear", script="echo an apple; echo a plum")
        (file,) = self.folder.rglob("filtered_stdout.log")
        self.assertEqual(sorted(file.read_text().splitlines()), ["[default0]:an apple", "[default1]:an apple"])

    def test_64_ranks_that_write_half_lines_tear_none(self):
        script = 'for i in 1 2 3; do printf "%s" "$RANK:aaaa"; printf "e$RANK:" >&2; sleep 0.01; printf "bbbb:$i\\n"; echo "$i" >&2; done; printf "$RANK:last"'
        process = start("--nproc_per_node", "64", "--role", "rank", "--tee", "3", script=script, stderr=subprocess.STDOUT)
        code, out, _ = self.finish(process)
        self.assertEqual(code, 0, out)
        expected = [f"[rank{r}]:{r}:aaaabbbb:{i}" for r in range(64) for i in (1, 2, 3)]
        expected += [f"[rank{r}]:e{r}:{i}" for r in range(64) for i in (1, 2, 3)] + [f"[rank{r}]:{r}:last" for r in range(64)]
        self.assertEqual(sorted(out.splitlines()), sorted(expected))

    def test_long_lines_of_two_streams_in_one_pipe_stay_whole(self):
        script = 'l=$(printf "%09000d" 0); for i in 1 2 3 4 5 6 7 8; do echo "$RANK$l."; echo "$RANK$l." >&2; done'
        code, out, _ = self.finish(start("--nproc_per_node", "4", "--tee", "3", script=script, stderr=subprocess.STDOUT))
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(len(lines), 64)
        for line in lines:
            self.assertTrue(re.match(r"^\[default(?P<rank>\d)\]:(?P=rank)0{9000}\.$", line), line[:100])

    def test_a_reader_that_goes_away_does_not_end_the_job(self):
        log = self.folder / "logs"
        process = subprocess.Popen(["sh", "-c", '"$@" | head -n 1; true', "sh", *command("--tee", "1", "--log_dir", log, script="seq 100000; touch $TMPDIR/done")],
                                   stdout=subprocess.PIPE, text=True)
        out, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(out, "[default0]:1\n")
        wait_for((self.folder / "done").exists, "the worker's end")

    def test_a_run_without_logs_leaves_no_folder(self):
        self.assertEqual(run(script="true").returncode, 0)
        self.assertEqual(list(self.folder.iterdir()), [])


class Failures(TorchrunCase):
    def fails(self, *flags, code=1, **options):
        result = run(*flags, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def summary(self, stderr):
        """What stands last."""
        return stderr[stderr.rindex("titan: error: "):]

    def test_the_first_failing_rank_is_named_last_with_exit_code_and_message(self):
        script = 'if [ $RANK = 1 ]; then echo reason >&2; exit 7; fi; trap "echo stopped >&2; exit 9" TERM; sleep 30 & wait'
        last = self.summary(self.fails("--nproc_per_node", "3", "--tee", "3", script=script))
        self.assertRegex(last, r"^titan: error: rank 1 \(local rank 1 on \S+, pid \d+\) failed first, with exit code 7\n  reason\n")
        self.assertNotIn("stopped", last)

    def test_a_signal_is_named(self):
        last = self.summary(self.fails("--nproc_per_node", "2", script="if [ $RANK = 0 ]; then kill -SEGV $$; fi; sleep 30"))
        self.assertIn("rank 0 ", last)
        self.assertIn("ended by SIGSEGV", last)

    def test_the_error_files_message_comes_before_what_was_written(self):
        for message in ('{"message": {"message": "of the file", "extraInfo": {"timestamp": 5}}}', '{"message": "of the file", "timestamp": "5"}'):
            script = f"echo written >&2; echo '{message}' > $TORCHELASTIC_ERROR_FILE; exit 3"
            last = self.summary(self.fails("--tee", "3", script=script))
            self.assertIn("\n  of the file\n", last)
            self.assertNotIn("written", last)

    def test_the_earlier_error_is_first_even_where_its_worker_ends_later(self):
        error = 'echo "{\\"message\\": {\\"message\\": \\"$1\\", \\"extraInfo\\": {\\"timestamp\\": $2}}}" > $TORCHELASTIC_ERROR_FILE'
        script = f"w() {{ {error}; }}; if [ $RANK = 1 ]; then w cause 100.5; touch $TMPDIR/1; sleep 30; else " \
                 "while [ ! -e $TMPDIR/1 ]; do sleep 0.01; done; w effect 101.5; exit 4; fi"
        last = self.summary(self.fails("--nproc_per_node", "2", script=script))
        self.assertIn("rank 1 ", last)
        self.assertIn("cause", last)

    def test_whoever_only_follows_a_peer_is_not_first(self):
        follower = '{"message": {"message": "rank 1 died", "extraInfo": {"timestamp": 5.5, "peer_failure": true}}}'
        script = f"""
trap "" TERM
touch $TMPDIR/ready.$RANK
while [ ! -e $TMPDIR/ready.1 ]; do sleep 0.01; done
if [ $RANK = 0 ]; then echo '{follower}' > $TORCHELASTIC_ERROR_FILE; touch $TMPDIR/failed; exit 1; fi
while [ ! -e $TMPDIR/failed ]; do sleep 0.01; done
echo '{{"message": "own"}}' > $TORCHELASTIC_ERROR_FILE
kill -KILL $$
"""
        last = self.summary(self.fails("--nproc_per_node", "2", script=script))
        self.assertIn("rank 1 ", last)
        self.assertIn("ended by SIGKILL", last)

    def test_workers_that_ignore_sigterm_are_killed_after_the_grace(self):
        begin = time.monotonic()
        err = self.fails("--nproc_per_node", "2", "--shutdown-timeout", "1", script='trap "" TERM; touch $TMPDIR/$RANK; while [ ! -e $TMPDIR/0 ]; do sleep 0.01; done;'
                         ' if [ $RANK = 1 ]; then exit 1; fi; while :; do sleep 0.1; done')
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        self.assertIn("1 workers still run 1 s after SIGTERM", err)

    def test_all_workers_start_again_until_restarts_are_used_up(self):
        script = "echo $RANK.$TORCHELASTIC_RESTART_COUNT.$TORCHELASTIC_MAX_RESTARTS; if [ $RANK = 1 ]; then exit 1; fi; sleep 30"
        result = run("--nproc_per_node", "2", "--max_restarts", "2", "--log_dir", self.folder / "l", "--redirects", "3", script=script)
        self.assertEqual(result.returncode, 1)
        self.assertIn("restart 2 of 2", result.stderr)
        self.assertIn("rank 1", self.summary(result.stderr))
        for attempt in range(3):
            (file,) = self.folder.glob(f"l/*/attempt_{attempt}/1/stdout.log")
            self.assertEqual(file.read_text(), f"1.{attempt}.2\n")
        well = run("--nproc_per_node", "2", "--max_restarts", "1", "--tee", "1", script="[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo well")
        self.assertEqual((well.returncode, sorted(well.stdout.split())), (0, ["[default0]:well", "[default1]:well"]))

    def test_a_worker_that_ends_early_and_well_ends_nobody(self):
        result = run("--nproc_per_node", "2", "--tee", "1", script="if [ $RANK = 0 ]; then exit 0; fi; sleep 0.5; echo late")
        self.assertEqual((result.returncode, result.stdout), (0, "[default1]:late\n"))


class Ends(TorchrunCase):
    SLEEPER = "echo $$ > $TMPDIR/pid.$RANK; sleep 1000 & wait"

    def test_signals_are_passed_on_and_end_the_launcher_with_their_number(self):
        script = 'for s in INT TERM HUP; do trap "echo got $s; exit 0" $s; done; echo $$ > $TMPDIR/pid.$RANK; while :; do sleep 0.02; done'
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for file in self.folder.glob("pid.*"):
                file.unlink()
            process = start("--nproc_per_node", "2", "--tee", "1", script=script)
            pids = self.pids(2)
            process.send_signal(number)
            code, out, err = self.finish(process)
            self.assertEqual(code, 128 + number, err)
            self.assertEqual(sorted(out.splitlines()), [f"[default{r}]:got {number.name[3:]}" for r in (0, 1)])
            self.assertNotIn("Traceback", err)
            self.assertFalse(any(map(is_alive, pids)))

    def test_a_second_signal_does_not_wait_for_the_grace(self):
        process = start("--nproc_per_node", "2", script='trap "" TERM INT; echo $$ > $TMPDIR/pid.$RANK; while :; do sleep 0.02; done')
        self.pids(2)
        process.send_signal(signal.SIGINT)
        self.assertIn("SIGINT", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)

    def test_kill_9_of_the_launcher_leaves_no_process_not_even_grandchildren(self):
        process = start("--nproc_per_node", "3", "--tee", "3", script=self.SLEEPER)
        pids = self.pids(3)
        wait_for(lambda: len(self.left()) >= 7, "workers and their children")
        process.kill()
        self.finish(process)
        wait_for(lambda: not self.left(), "the end of all processes")
        self.assertFalse(any(map(is_alive, pids)))

    def test_what_workers_leave_running_ends_with_the_job(self):
        self.assertEqual(run(script="sleep 1000 > /dev/null 2>&1 &").returncode, 0)
        wait_for(lambda: not self.left(), "the end of all processes")
        self.assertEqual(run("--tee", "3", script="sleep 1000 & exit 1").returncode, 1)

    def test_the_store_serves_and_ends_with_its_parent(self):
        process = subprocess.Popen([TITAN, "store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(bytes([0, 0xCE, 0xF7, 0x85, 0x3C, 13]) + b"abcd")  # what a c10d client sends first, and a ping
            self.assertEqual(s.recv(4), b"abcd")
        process.stdin.close()
        self.assertEqual(process.wait(timeout=LIMIT), 0)
        process.stdout.close()

    def test_workers_reach_the_store_under_the_address_that_they_are_told(self):
        result = run("--nproc_per_node", "2", program=["--no_python", "python3", "-c", STORE_PROBE])
        self.assertEqual(sorted(result.stdout.splitlines()), [f"{rank} {address} b'abcd'" for rank, address in enumerate(result.stdout.split()[1::3])],
                         result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 2)

    def test_a_store_that_dies_ends_the_job(self):
        process = start(script=self.SLEEPER)
        self.pids(1)
        stores = lambda: [p for p in self.left() if b"store" in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")]
        wait_for(stores, "the store")
        os.kill(stores()[0], signal.SIGKILL)
        code, _, err = self.finish(process)
        self.assertEqual(code, 1)
        self.assertIn("the job's store", err)


class Nodes(TorchrunCase):
    def endpoint(self):
        return ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{free_port()}", "--rdzv_id", "job"]

    def pair(self, first, second, script, delay=0.0):
        nodes = [start(*first, script=script)]
        time.sleep(delay)
        nodes.append(start(*second, script=script))
        return [self.finish(node) for node in nodes]

    def test_two_launchers_share_one_job(self):
        where = ["--nnodes", "2", *self.endpoint()]
        results = self.pair([*where, "--nproc_per_node", "1"], [*where, "--nproc_per_node", "2"], "echo $GROUP_RANK $LOCAL_RANK $RANK $WORLD_SIZE $MASTER_PORT", delay=0.3)
        self.assertEqual([code for code, _, _ in results], [0, 0], results)
        lines = [line.split() for _, out, _ in results for line in sorted(out.splitlines())]
        self.assertEqual([line[:4] for line in lines], [["0", "0", "0", "3"], ["1", "0", "1", "3"], ["1", "1", "2", "3"]])
        self.assertEqual(len({line[4] for line in lines}), 1)

    def test_static_nodes_have_the_ranks_that_they_were_given(self):
        where = ["--nnodes", "2", "--master_addr", "127.0.0.1", "--master_port", free_port()]
        (one, zero) = self.pair([*where, "--node_rank", "1"], [*where, "--node_rank", "0"], "echo $GROUP_RANK $RANK $MASTER_ADDR $MASTER_PORT")
        self.assertEqual((one[0], zero[0]), (0, 0), (one, zero))
        self.assertEqual(one[1], f"1 1 127.0.0.1 {where[-1]}\n")
        self.assertEqual(zero[1], f"0 0 127.0.0.1 {where[-1]}\n")

    def test_a_range_starts_with_the_nodes_that_came(self):
        where = ["--nnodes", "1:3", *self.endpoint(), "--rdzv_conf", "last_call_timeout=1"]
        results = self.pair(where, where, "echo $RANK/$WORLD_SIZE")
        self.assertEqual(sorted(out for _, out, _ in results), ["0/2\n", "1/2\n"], results)

    def test_one_nodes_failure_is_told_to_all_and_all_restart_together(self):
        where = ["--nnodes", "2", *self.endpoint(), "--max_restarts", "1", "--tee", "1"]
        script = "echo $GROUP_RANK.$TORCHELASTIC_RESTART_COUNT; if [ $GROUP_RANK = 1 ]; then sleep 0.2; exit 5; fi; sleep 30"
        results = self.pair(where, where, script)
        for code, _, err in results:
            self.assertEqual(code, 1)
            self.assertRegex(err[err.rindex("titan: error: "):], r"rank 1 \(local rank 0 .*with exit code 5")
        self.assertEqual(sorted(line for _, out, _ in results for line in out.splitlines()),
                         [f"[default0]:{g}.{r}" for g in (0, 1) for r in (0, 1)])

    def test_a_launcher_that_is_killed_ends_the_others_job(self):
        for victim in (0, 1):
            for file in self.folder.glob("pid.*"):
                file.unlink()
            where = ["--nnodes", "2", *self.endpoint()]
            nodes = [start(*where, script=Ends.SLEEPER)]
            nodes[0].stderr.readline()
            nodes.append(start(*where, script=Ends.SLEEPER))
            self.pids(2)
            nodes[victim].kill()
            code, _, err = self.finish(nodes[1 - victim])
            self.finish(nodes[victim])
            self.assertEqual(code, 1)
            self.assertRegex(err, "lost the rendezvous at" if victim == 0 else r"node 1 \(\S+\) left the job")
            wait_for(lambda: not self.left(), "the end of all processes")

    def test_nodes_that_do_not_fit_are_refused_with_both_values(self):
        where = self.endpoint()
        host = start("--nnodes", "2", *where, script="true")
        self.assertIn("waiting for 2 nodes", host.stderr.readline())
        result = run("--nnodes", "2", *where[:-1], "other", script="true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--rdzv_id is other on this node and job on the node that hosts", result.stderr)
        result = run("--nnodes", "3", *where, script="true")
        self.assertIn("--nnodes is 3 on this node and 2 on the node that hosts", result.stderr)
        self.assertEqual(run("--nnodes", "2", *where, script="true").returncode, 0)
        self.assertEqual(self.finish(host)[0], 0)

    def test_a_full_job_refuses_more_nodes_and_a_taken_rank(self):
        where = ["--nnodes", "2", *self.endpoint()]
        nodes = [start(*where, script=Ends.SLEEPER), start(*where, script=Ends.SLEEPER)]
        self.pids(2)
        result = run(*where, script="true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the job has all its nodes already: 2 of 2", result.stderr)
        for node in nodes:
            node.terminate()
        for node in nodes:
            self.finish(node)
        where = ["--nnodes", "3", "--master_port", free_port()]
        host = start(*where, "--node_rank", "0", script="true")
        host.stderr.readline()
        other = start(*where, "--node_rank", "1", script="true")
        self.assertIn("2 of 3 nodes", host.stderr.readline())
        self.assertIn("--node_rank=1 is taken", run(*where, "--node_rank", "1", script="true").stderr)
        for node in (host, other):
            node.terminate()
            self.finish(node)

    def test_a_wrong_endpoint_says_what_was_tried_and_for_how_long(self):
        result = run("--nnodes", "2", "--node_rank", "1", "--master_addr", "127.0.0.1", "--master_port", free_port(), "--rdzv_conf", "timeout=1", script="true")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"no rendezvous at 127\.0\.0\.1:\d+: Connection refused \(tried \d+ times in [\d.]+ s\)\. Is the launcher")
        result = run("--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "no-such-host.invalid:1234", "--rdzv_conf", "join_timeout=1", script="true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("its name cannot be resolved", result.stderr)
        alone = run("--rdzv_backend", "c10d", "--rdzv_endpoint", "no-such-host.invalid:1234", script="true")
        self.assertIn("is no address of this machine", alone.stderr)

    def test_nobody_coming_is_said(self):
        result = run("--nnodes", "2", *self.endpoint(), "--rdzv_conf", "join_timeout=1", script="true")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"only 1 of 2 nodes \(\S+\) came in 1 s")

    def test_a_port_in_use_is_said(self):
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            port = busy.getsockname()[1]
            for flags in (["--master_port", port], ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{port}"],
                          ["--nnodes", "2", "--master_port", port]):
                result = run(*flags, script="true")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, rf"cannot listen at \S+:{port}: Address already in use")

    def test_an_agent_of_pythons_is_refused_by_both_sides(self):
        store = subprocess.Popen([TITAN, "store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = int(store.stdout.readline())
        result = run("--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{port}", script="true")
        store.communicate()
        self.assertEqual(result.returncode, 1)
        self.assertIn("a c10d store listens at", result.stderr)
        where = self.endpoint()
        host = start("--nnodes", "2", *where, script="true")
        host.stderr.readline()
        with socket.create_connection(("127.0.0.1", int(where[3].split(":")[1]))) as s:
            s.sendall(bytes([0, 0xCE, 0xF7, 0x85, 0x3C]))
            self.assertEqual(s.recv(10), b"")
        self.assertIn("that of Python's torchrun", host.stderr.readline())
        host.terminate()
        self.assertEqual(self.finish(host)[0], 143)


@unittest.skipUnless(shutil.which("ip") and shutil.which("unshare"), "no `ip` and `unshare` here")
class Namespaces(TorchrunCase):
    SETUP = """set -e
ip link set lo up
unshare -n sleep 1000 & other=$!
trap "kill -9 $other" EXIT
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add name veth0 type veth peer name veth1
ip link set veth1 netns $other
ip addr add 10.77.0.1/24 dev veth0; ip link set veth0 up
nsenter -t $other -n sh -c 'ip link set lo up; ip addr add 10.77.0.2/24 dev veth1; ip link set veth1 up'
"$@" & first=$!
failed=0
nsenter -t $other -n "$@" || failed=1
wait $first || failed=1
exit $failed
"""

    def test_two_hosts_meet_and_workers_are_told_an_address_that_reaches_node_0(self):
        probe = subprocess.run(["unshare", "-rn", "sh", "-c", "ip link add name veth0 type veth peer name veth1"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"no network namespaces with veth here: {probe.stderr.strip()}")
        launch = command("--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "10.77.0.1:29411", "--rdzv_id", "job", program=["--no_python", "python3", "-c", STORE_PROBE])
        done = subprocess.run(["unshare", "-rn", "sh", "-c", self.SETUP, "sh", *launch], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 10.77.0.1 b'abcd'", "1 10.77.0.1 b'abcd'"])


if __name__ == "__main__":
    unittest.main()
