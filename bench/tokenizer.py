#!/usr/bin/env python3
"""Speed of `titan tokenize --jsonl` beside `tokenizers`, one thread each, same documents, same run: medians in MB per
second of processor time, which other work on the machine disturbs little.

Titan's time is that of the whole program, reading and printing JSON included, less that of a run without documents.

    bench/tokenizer.py build/build/bin/titan [ASSETS ...]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / "tools")]

import fetch_test_assets  # noqa: E402
import tokenizer_corpus as corpus  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

ROUNDS = 5


def seconds(work, of: int) -> float:
    """Processor seconds that `work` takes in this process or its children."""
    before = resource.getrusage(of)
    work()
    after = resource.getrusage(of)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    titan = sys.argv[1]
    folders = [Path(name) for name in sys.argv[2:]]
    folders = folders or [fetch_test_assets.fetch("qwen3"), fetch_test_assets.fetch("smollm2"), ROOT / "tests/assets/tokenizer"]
    sets = {
        "text": corpus.bundled(ROOT / "tests/assets/c4_test/data.jsonl.gz", 4_000_000),
        "code": corpus.sources(3_000_000),
        "mixed": corpus.generated(2_000_000, 1),
    }
    print(f"{'tokenizer':12} {'documents':10} {'titan':>8} {'tokenizers':>11} {'ratio':>6}")
    for folder in folders:
        theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
        command = [titan, "tokenize", "--assets", folder, "--jsonl"]
        for name, documents in sets.items():
            megabytes = sum(len(document.encode()) for document in documents) / 1e6
            lines = "".join(json.dumps({"text": document}) + "\n" for document in documents).encode()
            run = lambda data: subprocess.run(command, input=data, stdout=subprocess.DEVNULL, check=True)  # noqa: E731
            ours, peers = [], []
            for _ in range(ROUNDS):
                idle = seconds(lambda: run(b""), resource.RUSAGE_CHILDREN)
                ours.append(seconds(lambda: run(lines), resource.RUSAGE_CHILDREN) - idle)
                encode = lambda: [theirs.encode_batch_fast([document]) for document in documents]  # noqa: E731
                peers.append(seconds(encode, resource.RUSAGE_SELF))
            ours, peers = megabytes / statistics.median(ours), megabytes / statistics.median(peers)
            print(f"{folder.name:12} {name:10} {ours:8.1f} {peers:11.1f} {ours / peers:5.1f}x", flush=True)


if __name__ == "__main__":
    main()
