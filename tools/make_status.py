"""Writes docs/status.md: `make_status.py TITAN_PROGRAM` (with --check: exit code 1 where the file is not up to date).

All tables but one come from `titan config --status`, the flags from each command's help, and the file dtypes from the
table in the source that refuses what is not in it.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "status.md"
COMMANDS = ("train", "config", "forward", "generate", "tokenize", "version")

INTRO = """# Status

Made by `tools/make_status.py` from the program and its sources; a test fails when it is not up to date.

- **works**: setting it changes what the run does; tests/cli/works_fields_test.py sets each one and looks.
- **not built yet**: any value but the default stops the program, naming the field.
- **no meaning here**: accepted; any value but the default warns once that it has no effect.
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def flags(titan):
    """Each command's own flags; the fields that follow them in some help texts stand in tables of their own."""
    text = "\n## Flags\n"
    for command in COMMANDS:
        usage = output_of(titan, command, "--help").split("\nFields,")[0].strip()
        text += f"\n```text\n{usage}\n```\n"
    return text


def file_dtypes():
    source = (ROOT / "titan/checkpoint/safetensors_dtype.cpp").read_text()
    rows = re.findall(r'\{\w+, "(\w+)", (\d+)\}', source)
    if not rows:
        raise SystemExit("make_status.py: titan/checkpoint/safetensors_dtype.cpp has no table of dtypes")
    plain = ("F64", "F32", "F16", "BF16")
    text = "\n## Number types of safetensors files\n\n| dtype | bits | use |\n| --- | --- | --- |\n"
    for name, bits in rows:
        use = "weights" if name in plain else "weights with a scale" if name in ("F8_E4M3", "F8_E5M2") else "read only"
        text += f"| {name} | {bits} | {use} |\n"
    return text


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    if len(arguments) != 1:
        raise SystemExit("usage: make_status.py TITAN_PROGRAM [--check]")
    titan = arguments[0]
    text = INTRO + output_of(titan, "config", "--status") + file_dtypes() + flags(titan)
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        raise SystemExit(f"docs/status.md is not up to date; run: python3 tools/make_status.py {titan}")


if __name__ == "__main__":
    main()
