"""The program itself: help, version, unknown commands, exit codes, how fast it starts."""

import json
import os
import re
import subprocess
import time
import unittest

TITAN = os.environ["TITAN"]
SOURCE = os.environ["TITAN_SOURCE_DIR"]


def titan(*args):
    return subprocess.run([TITAN, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Program(unittest.TestCase):
    def test_help_lists_every_command_with_a_line(self):
        done = titan("--help")
        self.assertEqual(done.returncode, 0)
        for name in ("train", "config", "forward", "generate", "tokenize", "version"):
            self.assertRegex(done.stdout, rf"(?m)^  {name} +\S.{{20,}}$")
        self.assertEqual(done.stdout, titan("help").stdout)

    def test_every_listed_command_explains_itself(self):
        listed = [line.split()[0] for line in titan("--help").stdout.splitlines() if line.startswith("  ")]
        self.assertGreaterEqual(len(listed), 6)
        for name in listed:
            with self.subTest(name):
                done = titan(name, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"titan {name}", done.stdout)

    def test_without_a_command_it_helps_and_fails(self):
        done = titan()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Usage: titan COMMAND", done.stdout)

    def test_an_unknown_command_names_the_nearest(self):
        done = titan("trian")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^titan: error: no command 'trian'; did you mean '?train'?\?.*\n$")
        self.assertNotIn("did you mean", titan("xyzzy").stderr)

    def test_an_unknown_argument_is_a_configuration_error(self):
        done = titan("version", "--jsno")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^titan: error: .*'--jsno'; did you mean '?--json'?\?\n$")

    def test_a_mistake_outside_the_configuration_exits_with_1(self):
        done = titan("tokenize", "--assets", "no/such/folder")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^titan: error: .*no/such/folder.*\n$")


class Version(unittest.TestCase):
    def test_json_tells_what_was_built_and_found(self):
        about = json.loads(titan("version", "--json").stdout)
        self.assertEqual(list(about), ["titan", "commit", "build", "compiler", "torch", "devices", "path"])
        self.assertEqual(about["titan"], "0.1.0")
        self.assertEqual(about["path"], os.path.realpath(TITAN))
        with open(os.path.join(about["torch"]["path"], "version.py")) as file:
            self.assertIn(f"__version__ = '{about['torch']['found']}'", file.read())
        self.assertTrue(about["torch"]["found"].startswith(about["torch"]["built_against"]))
        self.assertEqual(about["devices"][0].split()[0], "cpu")
        self.assertIn("neuron (emulated trn2.48xlarge, 64 logical cores)", about["devices"])
        compiler = about["compiler"].split()[0]
        number = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        self.assertIn(number, about["compiler"])

    def test_the_commit_is_the_repository_s(self):
        head = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        if not head:
            self.skipTest("no git repository")
        commit = json.loads(titan("version", "--json").stdout)["commit"].removesuffix("-dirty")
        self.assertGreaterEqual(len(commit), 10)
        known = subprocess.run(["git", "-C", SOURCE, "cat-file", "-t", commit], capture_output=True, text=True)
        self.assertEqual(known.stdout.strip(), "commit")

    def test_the_neuron_device_follows_the_environment_and_nonsense_in_it_is_shown(self):
        for lnc, shown in (("1", "128 logical cores"), ("3", "NEURON_LOGICAL_NC_CONFIG must be 1 or 2")):
            done = subprocess.run([TITAN, "version"], capture_output=True, text=True, env=os.environ | {"NEURON_LOGICAL_NC_CONFIG": lnc})
            self.assertEqual(done.returncode, 0)
            self.assertIn(shown, done.stdout)

    def test_the_instruction_set_is_lowered_by_the_environment_and_never_raised(self):
        def shown(wish):
            done = subprocess.run([TITAN, "version"], capture_output=True, text=True, env=os.environ | {"TITAN_CPU_ISA": wish})
            return re.search(r"cpu \(\d+ threads, (\w+)\)", done.stdout).group(1)

        order = ["baseline", "avx2", "avx512"]
        best = order.index(shown(""))
        self.assertEqual([shown(wish) for wish in order], [order[min(i, best)] for i in range(3)])
        for command in (["version"], ["train", "--module", "qwen3", "--config", "qwen3_demo"]):
            done = subprocess.run([TITAN, *command], capture_output=True, text=True, env=os.environ | {"TITAN_CPU_ISA": "sse9"})
            self.assertEqual((done.returncode, done.stderr),
                             (2, "titan: error: TITAN_CPU_ISA is 'sse9'; give baseline, avx2 or avx512\n"))

    def test_text_has_a_line_for_each(self):
        lines = titan("--version").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["titan", "compiler:", "torch:", "devices:", "program:"])

    def test_a_command_without_torch_starts_in_milliseconds(self):
        def seconds():
            start = time.perf_counter()
            titan("version")
            return time.perf_counter() - start

        # Loading torch alone takes several times as long.
        self.assertLess(min(seconds() for _ in range(5)), 0.05)


if __name__ == "__main__":
    unittest.main()
