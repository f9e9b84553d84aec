"""Checks that no file names a place that only one machine has: `check_words.py [ROOT]`, exit code 1 with what it found.

Addresses of other hosts are allowed for the hosts listed here only; package indexes come from the user's pip and
environment. Absolute paths must be ones that every system has.
"""

import re
import subprocess
import sys
from pathlib import Path

HOSTS = {"localhost", "127.0.0.1", "github.com", "git-lfs", "git-lfs.github.com", "arxiv.org", "www.apache.org", "pytorch.org",
         "huggingface.co", "www.w3.org", "example.com"}
URL = re.compile(r"\bhttps?://([\w.-]+)")
# A home, a mounted work folder or an optional package tree, as a path's first part.
MACHINE_PATH = re.compile(r"(?<![\w./~$}>*-])/(?:home|root|work|workspace|opt|mnt|Users|srv)/[\w.]")
DATA = (".gz", ".zst", ".safetensors", ".jsonl", ".bin", ".png", ".svg")


def problems_in(path, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [f"{path}:{number}: the host {host}" for host in URL.findall(line) if host not in HOSTS]
        match = MACHINE_PATH.search(line)
        if match:
            found.append(f"{path}:{number}: a path of one machine: {line[match.start():match.start() + 40].strip()}")
    return found


def listed(root):
    """The files that git tracks, or all where there is no git."""
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True)
    if git.returncode == 0 and git.stdout:
        return [Path(name) for name in git.stdout.split("\0") if name]
    return [file.relative_to(root) for file in sorted(root.rglob("*")) if file.is_file()]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    problems, count = [], 0
    for path in listed(root):
        if path.suffix in DATA or path.name in ("tokenizer.json", "LICENSE") or not (root / path).is_file():
            continue
        count += 1
        problems += problems_in(path.as_posix(), (root / path).read_text(encoding="utf-8", errors="replace"))
    print("\n".join(problems + [f"words: {count} files, {len(problems)} problems"]))
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
