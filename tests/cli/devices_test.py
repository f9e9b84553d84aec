"""`titan devices`: the emulated Neuron machine, as text, as JSON, again and again."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

TITAN = os.environ["TITAN"]
VARIABLES = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "TITAN_NEURON_HBM_GIB", "TITAN_NEURON_PROVIDER")
CHIPS = re.compile(r"(?m)^(\d+) +(\d+) +(\d+)-(\d+) +96 GB +(\d+), (\d+), (\d+), (\d+)$")


class Devices(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.env["TITAN_NEURON_STATE_DIR"] = os.path.join(folder.name, "state")

    def devices(self, *args, **variables):
        return subprocess.run([TITAN, "devices", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.env | variables, timeout=60)

    def start(self, *args, **options):
        process = subprocess.Popen([TITAN, "devices", *args], env=self.env, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_text_says_that_it_is_emulated_and_lists_chips_as_neuron_ls_does(self):
        done = self.devices()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^Emulated Neuron devices: ")
        self.assertIn("instance-type: trn2.48xlarge (emulated)\nlogical-neuroncore-config: 2\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^NEURON DEVICE  NEURON CORES  NEURON CORE IDS  NEURON MEMORY  CONNECTED DEVICES$")
        chips = [tuple(map(int, chip)) for chip in CHIPS.findall(done.stdout)]
        self.assertEqual(len(chips), 16)
        self.assertEqual(chips[0], (0, 4, 0, 3, 12, 3, 4, 1))
        self.assertEqual(chips[15], (15, 4, 60, 63, 11, 14, 3, 12))
        self.assertTrue(done.stdout.endswith("\nNo process uses a core.\n"))
        self.assertFalse(os.path.exists(self.env["TITAN_NEURON_STATE_DIR"]))

    def test_json_has_the_keys_of_neuron_ls(self):
        devices = json.loads(self.devices("--json").stdout)
        self.assertEqual([device["neuron_device"] for device in devices], list(range(16)))
        for device in devices:
            self.assertEqual(set(device), {"neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to", "nc_count", "logical_neuroncore_config",
                                           "memory_size", "neuroncore_ids", "neuron_processes", "emulated"})
            self.assertIs(device["emulated"], True)
            self.assertEqual((device["nc_count"], device["logical_neuroncore_config"], device["memory_size"]), (4, 2, 103079215104))
            self.assertEqual(device["neuron_processes"], [])
        self.assertEqual([core for device in devices for core in device["neuroncore_ids"]], list(range(64)))

    def test_chips_are_a_torus_of_four_by_four(self):
        links = {device["neuron_device"]: device["connected_to"] for device in json.loads(self.devices("--json").stdout)}
        self.assertEqual(links[5], [1, 4, 9, 6])
        for chip, neighbours in links.items():
            self.assertEqual(len(set(neighbours)), 4)
            for neighbour in neighbours:
                self.assertIn(chip, links[neighbour])

    def test_the_environment_is_obeyed(self):
        devices = json.loads(self.devices("--json", NEURON_LOGICAL_NC_CONFIG="1").stdout)
        self.assertEqual((devices[15]["nc_count"], devices[15]["logical_neuroncore_config"]), (8, 1))
        self.assertEqual(devices[15]["neuroncore_ids"], list(range(120, 128)))
        text = self.devices(NEURON_LOGICAL_NC_CONFIG="1", NEURON_RT_VISIBLE_CORES="7,0-1", TITAN_NEURON_HBM_GIB="0.5").stdout
        self.assertIn("logical cores: 128 of 0.50 GiB HBM\nvisible cores: 7, 0, 1\n", text)
        self.assertIn("TITAN_NEURON_PROVIDER=/x/lib.so is not shown here", self.devices(TITAN_NEURON_PROVIDER="/x/lib.so").stdout)

    def test_nonsense_in_the_environment_is_refused(self):
        for name, value in (("NEURON_LOGICAL_NC_CONFIG", "3"), ("NEURON_RT_VISIBLE_CORES", "64"), ("NEURON_RT_VISIBLE_CORES", ""),
                            ("NEURON_RT_NUM_CORES", "many"), ("TITAN_NEURON_HBM_GIB", "97")):
            for form in ((), ("--json",), ("--watch",)):
                with self.subTest(name=name, value=value, form=form):
                    done = self.devices(*form, **{name: value})
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertRegex(done.stderr, rf"^titan: error: {name}.*\n$")
        done = self.devices(TITAN_NEURON_STATE_DIR="/dev/null")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/dev/null", done.stderr)

    def test_the_cost_table_is_of_the_environment_s_logical_cores(self):
        two, one = self.devices("--cost-table").stdout, self.devices("--cost-table", NEURON_LOGICAL_NC_CONFIG="1").stdout
        self.assertRegex(two, r"(?m)^\| *matmul *\|.*158\.0 TFLOP/s")
        self.assertRegex(one, r"(?m)^\| *matmul *\|.*79\.0 TFLOP/s")
        for flag in ("--json", "--watch"):
            self.assertEqual(self.devices("--cost-table", flag).returncode, 2)

    def test_unknown_and_senseless_flags_are_refused(self):
        for args, words in ((["--jsno"], "did you mean --json?"), (["json"], "is no flag"), (["--watch", "0"], "--watch"), (["--watch=x"], "--watch"),
                            (["--watch", "1e9"], "--watch"), (["--watch", "-1"], "--watch")):
            with self.subTest(args):
                done = self.devices(*args)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)

    def test_watching_into_a_pipe_prints_snapshots_until_a_signal(self):
        for ending in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--watch", "0.1", stdout=subprocess.PIPE, text=True)
            seen = 0
            while seen < 3:
                seen += process.stdout.readline() == "No process uses a core.\n"
            process.send_signal(ending)
            rest = process.stdout.read()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=30), 0)
            self.assertNotIn("\x1b", rest)

    def test_watching_as_json_prints_a_line_a_snapshot(self):
        for flags in (("--json", "--watch=0.1"), ("--watch", "--json")):
            process = self.start(*flags, stdout=subprocess.PIPE, text=True)
            for _ in range(2):
                self.assertEqual(len(json.loads(process.stdout.readline())), 16)
            process.terminate()
            process.stdout.read()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=30), 0)

    def test_watching_on_a_terminal_redraws_within_its_lines(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
        process = self.start("--watch", "0.1", stdout=theirs)
        os.close(theirs)
        shown = b""
        while shown.count(b"\x1b[H\x1b[2J") < 3:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 0)
        frame = shown.split(b"\x1b[H\x1b[2J")[1].decode()
        lines = frame.split("\r\n")
        self.assertLessEqual(len(lines), 12)
        self.assertLessEqual(max(map(len, lines)), 40)
        self.assertIn("No process uses a core.", lines)

    def until(self, condition):
        """The processes of `titan devices --json` as soon as they are what is waited for."""
        limit = time.monotonic() + 120
        while True:
            processes = [process for device in json.loads(self.devices("--json").stdout) for process in device["neuron_processes"]]
            if condition(processes):
                return processes
            self.assertLess(time.monotonic(), limit, processes)
            time.sleep(0.05)

    def test_ranks_of_a_run_are_shown_while_their_output_is_hidden_and_leave_nothing_when_killed(self):
        cores = {"TITAN_NEURON_PROVIDER": "emulator", "NEURON_RT_VISIBLE_CORES": "9,4", "TITAN_NEURON_HBM_GIB": "2",
                 "TORCH_NEURONX_NEFF_CACHE_DIR": self.env["TITAN_NEURON_STATE_DIR"] + ".cache"}
        train = ["-m", "titan.train", "--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "100000", "--training.seq_len", "32",
                 "--training.local_batch_size", "1", "--training.global_batch_size", "2", "--checkpoint.no_enable", "--validator.no_enable",
                 "--dump_folder", self.env["TITAN_NEURON_STATE_DIR"] + ".out"]
        run = subprocess.Popen([TITAN, "torchrun", "--nproc_per_node=auto", "--local-ranks-filter", "0", "--tee", "3", *train], env=self.env | cores,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        processes = self.until(lambda found: len(found) == 2 and all(process["compilations"] > 0 for process in found))
        self.assertEqual([(process["neuroncore_id"], process["rank"]) for process in processes], [(4, 1), (9, 0)])
        for process in processes:
            self.assertIn("titan train --module qwen3", process["command"])
            self.assertEqual(process["hbm_capacity"], 2 << 30)
            self.assertGreaterEqual(process["hbm_peak"], process["hbm_allocated"])
            self.assertGreater(process["hbm_peak"], 0)
        rows = re.findall(r"(?m)^(\d+) +(\d+) +(\d+) +\d+ +\S+ GiB +\S+ GiB +2\.00 GiB +\S+% +\d+ +\S*titan train", self.devices().stdout)
        self.assertEqual(rows, [("4", "1", "1"), ("9", "2", "0")])
        taken = subprocess.run([TITAN, "train", *train[2:]], env=self.env | cores | {"NEURON_RT_VISIBLE_CORES": "4"}, capture_output=True, text=True)
        self.assertEqual(taken.returncode, 2)
        self.assertIn(f"in use by process {processes[0]['pid']} (rank 1, ", taken.stderr)
        for process in processes:
            os.kill(process["pid"], signal.SIGKILL)
        self.until(lambda found: not found)


if __name__ == "__main__":
    unittest.main()
