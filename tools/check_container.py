"""Checks a Containerfile without an engine: `check_container.py [ROOT]` prints what is wrong with ROOT/Containerfile, exit
code 1.

Known instructions only, a tagged Debian or Ubuntu base, RUN lines that are shell, make targets and COPY sources that exist,
apt-get that asks nothing, an entrypoint that is titan, and an ignore file that keeps the build out of the image.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "ARG", "ENTRYPOINT", "CMD", "LABEL", "USER", "EXPOSE", "VOLUME"}
IGNORED = {".venv", "build", "outputs"}


def instructions_of(text):
    """(line number, instruction, rest) with continued lines joined and comments left out."""
    found, joined, begin = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begin = begin if joined else number
        joined += line.rstrip().removesuffix("\\") + " "
        if line.rstrip().endswith("\\"):
            continue
        name, _, rest = joined.strip().partition(" ")
        found.append((begin, name, rest.strip()))
        joined = ""
    if joined:
        found.append((begin, "", "the last line is continued by nothing"))
    return found


def check_run(root, command):
    """What is wrong with a RUN line."""
    shell = subprocess.run(["sh", "-n", "-c", command], capture_output=True, text=True)
    if shell.returncode != 0:
        return [f"is no shell: {shell.stderr.strip()}"]
    problems = []
    for part in re.split(r"&&|;|\|\|", command):
        words = part.split()
        if words[:2] == ["apt-get", "install"] and "-y" not in words:
            problems.append("apt-get install without -y waits for an answer")
        if words[:1] == ["make"] and subprocess.run(["make", "-n", "-C", root, *words[1:]], capture_output=True).returncode != 0:
            problems.append(f"there is no `{' '.join(words)}`")
    return problems


def check_instruction(root, name, rest):
    if name not in KNOWN:
        return [f"{name or rest}: no instruction of a Containerfile"]
    if name == "RUN":
        return check_run(root, rest)
    if name == "FROM" and not re.fullmatch(r"(docker\.io/(library/)?)?(debian|ubuntu):[\w.-]+", rest):
        return [f"FROM {rest}: want debian:TAG or ubuntu:TAG"]
    if name == "COPY":
        return [f"COPY: {source} does not exist" for source in rest.split()[:-1] if not (root / source).exists()]
    if name in ("ENTRYPOINT", "CMD"):
        try:
            words = json.loads(rest)
        except ValueError:
            return [f'{name} must be a list: ["titan"]']
        return [f"ENTRYPOINT is {rest}, want titan"] if name == "ENTRYPOINT" and words != ["titan"] else []
    return []


def problems_of(root):
    instructions = instructions_of((root / "Containerfile").read_text(encoding="utf-8"))
    problems = [f"Containerfile:{line}: {problem}" for line, name, rest in instructions for problem in check_instruction(root, name, rest)]
    names = [name for _, name, _ in instructions]
    if names[:1] != ["FROM"]:
        problems.append("Containerfile: the first instruction is not FROM")
    if "ENTRYPOINT" not in names:
        problems.append("Containerfile: there is no ENTRYPOINT")
    ignore = root / ".dockerignore"
    listed = set(ignore.read_text(encoding="utf-8").split()) if ignore.exists() else set()
    return problems + [f".dockerignore: {name} would go into the image" for name in sorted(IGNORED - listed)]


def main():
    problems = problems_of(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve())
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
