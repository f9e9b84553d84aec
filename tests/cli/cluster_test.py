"""examples/slurm.sh under stand-ins for Slurm, and the Containerfile: checked, and built where an engine is at hand."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
SLURM = SOURCE / "examples" / "slurm.sh"
sys.path.insert(0, str(SOURCE / "tools"))
import check_container  # noqa: E402

# srun starts one task a node; `titan` stands for the program and says what it was given.
SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
i=0
pids=
while [ $i -lt "$SLURM_JOB_NUM_NODES" ]; do "$@" & pids="$pids $!"; i=$((i + 1)); done
for pid in $pids; do wait "$pid" || exit; done
"""
# Everything but what is started is the script's own command line.
LAUNCHER = f"""#!/bin/sh
for word; do
  shift
  if [ "$word" = -m ]; then set -- "$@" --no_python sh -c 'echo started "$RANK" of "$WORLD_SIZE": "$@"' --
  else set -- "$@" "$word"; fi
done
exec '{TITAN}' "$@"
"""


class Slurm(unittest.TestCase):
    def test_it_is_shell_and_settings_stand_before_commands(self):
        self.assertEqual(subprocess.run(["sh", "-n", SLURM]).returncode, 0)
        lines = SLURM.read_text().splitlines()
        settings = [i for i, line in enumerate(lines) if line.startswith("#SBATCH ")]
        first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
        self.assertTrue(settings)
        self.assertLess(max(settings), first_command)
        self.assertTrue(os.access(SLURM, os.X_OK))

    def test_its_launchers_meet_and_start_all_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"srun": SRUN, "scontrol": "#!/bin/sh\necho localhost\necho node2\n", "launcher": LAUNCHER}.items():
                (Path(folder) / name).write_text(text)
                (Path(folder) / name).chmod(0o755)
            env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "TITAN": f"{folder}/launcher", "SLURM_JOB_ID": str(os.getpid()),
                   "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "localhost,node2", "WORKERS_PER_NODE": "2", "LOGS": f"{folder}/logs"}
            done = subprocess.run([SLURM, "--module", "m"], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            logs = sorted(p.read_text() for p in Path(folder).rglob("stdout.log"))
        self.assertEqual(len(logs), 4, done.stderr)
        self.assertTrue(logs[3].startswith("started 3 of 4: "), logs)
        self.assertTrue(all("titan.train --module m" in log for log in logs), logs)
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)  # the first of each node


class Container(unittest.TestCase):
    def test_the_containerfile_is_sound(self):
        self.assertEqual(check_container.problems_of(SOURCE), [])

    def test_what_is_wrong_with_one_is_found(self):
        good = (SOURCE / "Containerfile").read_text()
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "Makefile").write_text("all:\ninstall:\n")
            (root / ".dockerignore").write_text((SOURCE / ".dockerignore").read_text())

            def problems(text):
                (root / "Containerfile").write_text(text)
                return " ".join(check_container.problems_of(root))

            self.assertEqual(problems(good), "")
            for old, new, word in [("debian:bookworm-slim", "debian", "TAG"), ("install -y", "install", "waits for an answer"),
                                   ("make install", "make instal", "there is no `make instal"), ('["titan"]', "titan", "must be a list"),
                                   ('["titan"]', '["sh"]', "want titan"), ("COPY .", "COPY missing", "missing does not exist"),
                                   ("RUN make", "RUN (make", "is no shell"), ("WORKDIR /work", "WORKDIRS /work", "no instruction"),
                                   ("FROM", "# FROM", "first instruction"), ("ENTRYPOINT", "LABEL", "no ENTRYPOINT")]:
                self.assertIn(word, problems(good.replace(old, new)), old)
            (root / ".dockerignore").write_text("build\n")
            self.assertIn(".venv would go into the image", problems(good))

    def test_it_builds_where_an_engine_runs(self):
        for engine in ("podman", "docker", "buildah"):
            if shutil.which(engine) and subprocess.run([engine, "info"], capture_output=True, timeout=60).returncode == 0:
                break
        else:
            self.skipTest("no container engine runs here")
        build = "bud" if engine == "buildah" else "build"
        done = subprocess.run([engine, build, "-f", "Containerfile", "-t", "titan-test", "."], cwd=SOURCE, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])


if __name__ == "__main__":
    unittest.main()
