#!/usr/bin/env python3
"""Splits a JSON-lines corpus into the bundled training and validation sets.

Every 20th document, from the 20th on, goes to validation, the others to training; the order stays, so two runs give the
same bytes.

    tools/split_bundled_text.py kjv.jsonl.gz tests/assets
"""

import argparse
import gzip
from pathlib import Path

PERIOD = 20


def write(path: Path, lines: list[bytes]) -> None:
    """Writes gzip data without a time stamp or a name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as packed:
        packed.writelines(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="gzip-packed JSON lines")
    parser.add_argument("assets", type=Path, help="folder that gets c4_test/ and c4_test_validation/")
    args = parser.parse_args()
    with gzip.open(args.corpus) as packed:
        lines = packed.readlines()
    held_out = lines[PERIOD - 1 :: PERIOD]
    kept = [line for number, line in enumerate(lines, 1) if number % PERIOD]
    write(args.assets / "c4_test" / "data.jsonl.gz", kept)
    write(args.assets / "c4_test_validation" / "data.jsonl.gz", held_out)
    print(f"{len(kept)} documents for training, {len(held_out)} for validation")


if __name__ == "__main__":
    main()
