"""Runs the commands of a document: `run_docs.py DOCUMENT.md BUILD_DIR`, exit code 1 where one fails.

The fenced blocks of a document run in order, in one shell, in the empty folder BUILD_DIR/docs/NAME, with the built
`titan` on PATH, an empty HOME, and links to the repository's own folders, so
that paths from its root work.

```sh       commands
```console  lines after "$ " are commands; the others must come in their output, in this order; "..." stands for
            anything in a line, a line of "..." for any lines
```cpp, ```python, ```json, ```text   not run; where the first line is `// file: NAME` or `# file: NAME`, the block is
            written to NAME

`make ...` lines are only checked to name targets that exist, `git clone ... DIR` links DIR to the repository, and
`sudo` lines are only checked to be shell.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINKS = ("tests", "tools", "docs", "examples", ".venv")
COMMANDS = ("sh", "console")
FILES = ("cpp", "python", "json", "text", "toml", "yaml", "make", "cmake")
MARK = "@@block "


@dataclass
class Block:
    line: int
    language: str
    text: str


def blocks_of(markdown):
    """The fenced blocks of a document. Raises ValueError for a fence that is not closed or says no language we know."""
    blocks, opened = [], None
    for number, line in enumerate(markdown.splitlines(), 1):
        fence = re.match(r"^(\s*)```\s*(\w*)", line)
        if opened is None and fence:
            if fence[2] not in COMMANDS + FILES:
                raise ValueError(f"line {number}: the block's language '{fence[2]}' is none of {', '.join(COMMANDS + FILES)}")
            opened, indent, body = Block(number, fence[2], ""), fence[1], []
        elif opened is not None and fence:
            opened.text = "\n".join(body) + "\n"
            blocks.append(opened)
            opened = None
        elif opened is not None:
            body.append(line.removeprefix(indent))
    if opened is not None:
        raise ValueError(f"line {opened.line}: the block is not closed")
    return blocks


def linked_clone(match):
    words = match[0].split()
    folder = words[3] if len(words) > 3 else Path(words[2]).name.removesuffix(".git")
    return f"ln -sfn '{ROOT}' {folder} "


def runnable(line):
    """A line of shell as it runs here."""
    if line.lstrip().startswith("sudo "):
        return f": {line}"
    line = re.sub(r"\bgit clone [^&;|]+", linked_clone, line)
    return re.sub(r"(^\s*|&&\s*)make\b([^&;|]*)", rf"\1env -u MAKEFLAGS make -n -C '{ROOT}'\2 >/dev/null ", line)


def commands_of(block):
    """The shell text of a command block."""
    lines = block.text.splitlines()
    if block.language == "console":
        picked, more = [], False
        for line in lines:
            if line.startswith("$ ") or more:
                picked.append(line.removeprefix("$ "))
                more = line.endswith("\\")
        if not picked:
            raise ValueError(f"line {block.line}: a console block without a line that begins with '$ '")
        lines = picked
    return "\n".join(runnable(line) for line in lines)


def expected_of(block):
    """The output lines that a console block shows."""
    lines, more = [], False
    for line in block.text.splitlines() if block.language == "console" else []:
        if not (line.startswith("$ ") or more):
            lines.append(line.rstrip())
        more = (line.startswith("$ ") or more) and line.endswith("\\")
    return [line for line in lines if line and line != "..."]


def missing_line(expected, output):
    """The first expected line that does not come, in order, in the output; None where all do."""
    lines = iter([line.rstrip() for line in output.splitlines()])
    for want in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in want.split("...")))
        if not any(pattern.fullmatch(line) for line in lines):
            return want
    return None


def write_files(blocks, folder):
    """The script that writes the named blocks and runs the command blocks, in the order of the document."""
    script = ["set -e"]
    for index, block in enumerate(blocks):
        named = re.match(r"(?://|#) file: (\S+)", block.text)
        if block.language in COMMANDS:
            script += [f"echo '{MARK}{index}'", commands_of(block)]
        elif named:
            kept = folder / ".blocks" / str(index)
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(block.text)
            script += [f"mkdir -p \"$(dirname '{named[1]}')\"", f"cp '{kept}' '{named[1]}'"]
    return "\n".join(script) + "\n"


def environment(build_dir, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TITAN", "MAKE"))}
    return {**env, "PATH": f"{build_dir / 'bin'}{os.pathsep}{env.get('PATH', '')}", "HOME": str(folder / ".home")}


def run(document, build_dir):
    """What is wrong with the document's commands, as text; "" where nothing is."""
    blocks = blocks_of(document.read_text(encoding="utf-8"))
    name = document.stem
    folder = build_dir / "docs" / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / ".home").mkdir(parents=True)
    for link in LINKS:
        if (ROOT / link).exists():
            (folder / link).symlink_to(ROOT / link)
    script = folder / ".script.sh"
    script.write_text(write_files(blocks, folder))
    done = subprocess.run(["bash", str(script)], cwd=folder, env=environment(build_dir, folder), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    pieces = done.stdout.split(MARK)[1:]
    for piece in pieces:
        number, _, output = piece.partition("\n")
        block = blocks[int(number)]
        want = missing_line(expected_of(block), output)
        if done.returncode != 0 and piece is pieces[-1]:
            return f"{document}:{block.line}: a command failed with {done.returncode}\n{block.text}---\n{output}"
        if want is not None:
            return f"{document}:{block.line}: this line did not come: {want}\n{block.text}---\n{output}"
    if done.returncode != 0:
        return f"{document}: the shell failed with {done.returncode} before the first block\n{done.stdout}"
    print(f"{document.name}: {len(pieces)} blocks of commands ran")
    return ""


def main():
    try:
        problem = run(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    except ValueError as error:
        problem = f"{sys.argv[1]}: {error}"
    if problem:
        sys.exit(problem)


if __name__ == "__main__":
    main()
