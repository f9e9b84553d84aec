"""tools/setup.sh on machines that it does not run on here: in a folder of its own, with stand-ins on PATH."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
PLAIN_TOOLS = "sh cat cmp dirname echo grep id mkdir printf pwd sed tail tr cp env".split()
sys.path.insert(0, str(SOURCE / "tools"))
import announce_download  # noqa: E402

# A compiler that says its version and finds every header but those in $MISSING_HEADERS.
COMPILER = """#!/bin/sh
case "$*" in
*-dumpversion*) echo "${GXX_VERSION:-12.2.0}"; exit 0 ;;
esac
[ -n "${MISSING_HEADERS:-}" ] || exit 0
! grep -q -e "${MISSING_HEADERS:-}"
"""
RECORD = '#!/bin/sh\necho "$(basename "$0") $*" >>"$RECORD"\n'


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "checkout"
        self.bin = Path(folder.name) / "bin"
        self.record = Path(folder.name) / "record"
        (self.root / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("setup.sh", "requirements.txt", "announce_download.py"):
            shutil.copy(SOURCE / "tools" / name, self.root / "tools")
        for name in PLAIN_TOOLS + ["basename"]:
            (self.bin / name).symlink_to(shutil.which(name))
        for name in ("cmake", "ninja", "git", "make", "ccache", "mold", "npm"):
            self.stub(name, RECORD)
        self.stub("g++", COMPILER)
        self.stub("python3", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        self.torch = self.make_torch(Path(folder.name) / "torch")
        self.stub("id", "#!/bin/sh\necho 1000\n")

    def stub(self, name, text):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def make_torch(self, folder, version="2.13.0"):
        for name in ("include/ATen/core/Tensor.h", "lib/libtorch_cpu.so"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        (folder / "version.py").write_text(f"__version__ = '{version}+cpu'\n")
        return folder

    def setup_sh(self, *args, **variables):
        env = {"PATH": str(self.bin), "RECORD": str(self.record), "HOME": "/nonexistent", "PIP_NO_INDEX": "1", **variables}
        env = {key: str(value) for key, value in env.items()}
        return subprocess.run([str(self.root / "tools/setup.sh"), *args], env=env, capture_output=True, text=True)

    def chosen(self):
        return (self.root / "build/torch_dir").read_text().strip()

    def fails(self, pattern, **variables):
        done = self.setup_sh(**variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, rf"^setup: error: {pattern}\n$")

    def test_the_script_is_portable_shell(self):
        for shell in ("dash", "bash"):
            if shutil.which(shell):
                subprocess.run([shell, "-n", str(SOURCE / "tools/setup.sh")], check=True)

    def test_missing_packages_without_the_right_to_install_are_one_command(self):
        self.stub("apt-get", RECORD)
        (self.bin / "ninja").unlink()
        self.fails(
            r"packages are missing.*\(Debian 12, Debian 13, Ubuntu 24\.04\): "
            r"sudo apt-get install -y ninja-build libzstd-dev doctest-dev",
            TORCH=self.torch, MISSING_HEADERS=r"zstd\.h\|doctest")
        self.assertFalse(self.record.exists(), "nothing was installed")

    def test_root_installs_just_what_is_missing(self):
        self.stub("id", "#!/bin/sh\necho 0\n")
        self.stub("apt-get", RECORD)
        done = self.setup_sh(TORCH=self.torch, MISSING_HEADERS=r"zstd\.h")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.record.read_text(), "apt-get install -y -q --no-install-recommends libzstd-dev\n")

    def test_sudo_without_a_password_is_used(self):
        self.stub("sudo", '#!/bin/sh\nshift\necho "sudo $*" >>"$RECORD"\n')
        self.stub("apt-get", RECORD)
        self.assertEqual(self.setup_sh(TORCH=self.torch, MISSING_HEADERS=r"zlib\.h").returncode, 0)
        self.assertEqual(self.record.read_text().splitlines(),
                         ["sudo true", "sudo apt-get install -y -q --no-install-recommends zlib1g-dev"])

    def test_only_faster_tools_missing_is_no_obstacle(self):
        (self.bin / "mold").unlink()
        (self.bin / "ccache").unlink()
        done = self.setup_sh(TORCH=self.torch)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("going on without ccache mold", done.stdout)

    def test_a_failing_apt_get_is_one_message_with_its_last_words(self):
        self.stub("id", "#!/bin/sh\necho 0\n")
        self.stub("apt-get", "#!/bin/sh\necho no network >&2\nexit 100\n")
        self.fails(r"apt-get could not install libzstd-dev .*no network", TORCH=self.torch, MISSING_HEADERS=r"zstd\.h")

    def test_an_old_compiler_is_refused_in_one_line(self):
        self.fails(r"g\+\+ is version 11\.4\.0; titan needs g\+\+ 12 or newer \(Debian 12, .*set CXX to one",
                   TORCH=self.torch, GXX_VERSION="11.4.0")

    def test_a_given_torch_is_used_and_remembered(self):
        self.assertEqual(self.setup_sh(TORCH=self.torch).returncode, 0)
        self.assertEqual(self.chosen(), str(self.torch))
        start = time.perf_counter()
        done = self.setup_sh()
        self.assertLess(time.perf_counter() - start, 2)
        self.assertEqual((done.returncode, done.stdout, self.chosen()), (0, "", str(self.torch)))

    def test_a_given_torch_that_is_none_is_one_message(self):
        self.fails(r"TORCH=no/such/dir: no such folder", TORCH="no/such/dir")
        self.fails(r"TORCH=\S+: \S+ holds no include/ATen/core/Tensor\.h and lib/libtorch_cpu\.so; .*", TORCH=self.root)
        self.assertFalse((self.root / "build/torch_dir").exists())

    def python_with_torch(self, version):
        site = self.root.parent / "site"
        torch = self.make_torch(site / "torch", version)
        (torch / "__init__.py").write_text("raise SystemExit('imported')\n")
        self.stub("python3", f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
        return torch

    def test_the_interpreter_s_torch_is_taken_without_importing_it(self):
        torch = self.python_with_torch("2.14.0")
        self.assertEqual(self.setup_sh(TORCH="python").returncode, 0)
        self.assertEqual(self.chosen(), str(torch))

    def test_an_interpreter_without_torch_is_one_message(self):
        self.fails(r"TORCH=python: python3 has no torch; .*", TORCH="python")

    def test_the_interpreter_s_torch_is_preferred_to_a_download(self):
        torch = self.python_with_torch("2.13.0")
        done = self.setup_sh()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("using the torch of python3", done.stdout)
        self.assertEqual(self.chosen(), str(torch))

    def stub_venv(self):
        """A virtual environment whose pip records what it is asked for and then provides torch."""
        venv = self.root / ".venv/bin"
        venv.mkdir(parents=True)
        site = self.root / ".venv/site"
        make = f'mkdir -p {site}; cp -r {self.torch} {site}/torch; : >{site}/torch/__init__.py'
        for name, text in (
            ("pip", f'{RECORD}case "$*" in *torch*) {make} ;; esac\n'),
            ("python", f'{RECORD}PYTHONPATH={site} exec {sys.executable} -S "$@"\n'),
        ):
            (venv / name).write_text(text)
            (venv / name).chmod(0o755)
        (self.root / "tools/announce_download.py").write_text("print('announced')\n")
        return site / "torch"

    def test_without_a_torch_pip_fetches_it_after_the_size_was_told(self):
        torch = self.stub_venv()
        done = self.setup_sh(TITAN_TORCH_INDEX="file:///cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.chosen(), str(torch))
        asked = [line for line in self.record.read_text().splitlines() if "torch==" in line]
        self.assertEqual(asked, ["python tools/announce_download.py --index-url file:///cpu torch==2.13.0",
                                 "pip install -q --index-url file:///cpu torch==2.13.0"])
        self.record.unlink()
        self.assertEqual(self.setup_sh().stdout, "")
        self.assertFalse(self.record.exists(), "the second run asks for nothing")

    def test_only_the_tests_need_npm(self):
        self.stub_venv()
        (self.bin / "npm").unlink()
        self.assertEqual(self.setup_sh(TORCH=self.torch).returncode, 0)
        self.assertIn("apt-get install -y npm\n", self.setup_sh("--oracles", TORCH=self.torch).stderr)

    def test_oracles_are_installed_once(self):
        self.stub_venv()
        self.assertEqual(self.setup_sh("--oracles").returncode, 0)
        self.assertIn("pip install -q -r tools/requirements.txt", self.record.read_text())
        self.record.unlink()
        self.assertEqual(self.setup_sh("--oracles").returncode, 0)
        self.assertFalse(self.record.exists(), "the second run asks for nothing")
        (self.root / "tools/requirements.txt").write_text("torch==2.13.0\nnumpy==2.4.6\n")
        self.assertEqual(self.setup_sh("--oracles").returncode, 0)
        self.assertIn("-r tools/requirements.txt", self.record.read_text())


class AnnounceDownload(unittest.TestCase):
    def announced(self, limit):
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder) / "heavy-1.0-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr("heavy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: heavy\nVersion: 1.0\n")
                archive.writestr("heavy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                archive.writestr("heavy-1.0.dist-info/RECORD", "")
            arguments = ["announce_download.py", "--no-index", "--find-links", folder, "heavy==1.0"]
            printed = io.StringIO()
            with mock.patch.object(sys, "argv", arguments), mock.patch.object(announce_download, "LARGE", limit), \
                    mock.patch.object(sys, "stdin", io.StringIO()), redirect_stdout(printed):
                announce_download.main()
            return printed.getvalue()

    def test_a_large_download_is_told_with_the_ways_round_it(self):
        text = self.announced(limit=100)
        for words in ("pip is about to fetch 0.0 GB: heavy", "TORCH=DIR", "TORCH=python", "TITAN_TORCH_INDEX"):
            self.assertIn(words, text)

    def test_a_small_one_is_not_worth_a_word(self):
        self.assertEqual(self.announced(limit=1e6), "")


if __name__ == "__main__":
    unittest.main()
