#!/usr/bin/env python3
"""Trains the bundled byte-level BPE tokenizer and writes its two files.

The tokenizer has Qwen3's shape: NFC, the Qwen pre-tokenizer expression, byte level, special tokens last. The number
of ids is exact: byte alphabet, merges and special tokens together.

    tools/train_tokenizer.py tests/assets/c4_test/data.jsonl.gz tests/assets/tokenizer
"""

import argparse
import gzip
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def documents(path: Path):
    """Yields the text of each line of a JSON-lines file, plain or gzip."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as lines:
        for line in lines:
            yield json.loads(line)["text"]


def train(corpus: Path, num_ids: int) -> Tokenizer:
    """Returns a tokenizer with exactly `num_ids` ids, special tokens last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=num_ids - len(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents(corpus), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    if tokenizer.get_vocab_size() != num_ids:
        raise SystemExit(f"{corpus} gives {tokenizer.get_vocab_size()} ids, not {num_ids}: the corpus is too small")
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help='JSON lines with a "text" key, plain or .gz')
    parser.add_argument("folder", type=Path, help="where tokenizer.json and tokenizer_config.json go")
    parser.add_argument("--num-ids", type=int, default=2048, help="ids in all, special tokens included (2048)")
    arguments = parser.parse_args()

    tokenizer = train(arguments.corpus, arguments.num_ids)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.folder / "tokenizer.json"), pretty=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
    }
    (arguments.folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
