#!/usr/bin/env python3
"""Writes tests/unit/data/tokenizer_golden.json: ids and decoded text of `tokenizers` for small tokenizers, so that the
unit tests need neither Python nor a network. `make_tokenizer_golden.py` writes it anew; the result is the same each time.
"""

import json
from pathlib import Path

import tokenizer_variants
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "unit" / "data" / "tokenizer_golden.json"
CASES = """gpt2 gpt2_prefix_space llama3 qwen3 o200k smollm2 byte_level_inside ignore_merges missing_bytes split_Removed_-
split_Contiguous_invert_- split_MergedWithPrevious_- split_MergedWithNext_- split_Isolated_\\w* Whitespace NFKC strip
replace_regex added_tokens no_decoder characters characters_no_fallback characters_separate_unknown affixes""".split()


def main() -> None:
    variants = dict(tokenizer_variants.variants(ROOT / "tests" / "assets" / "tokenizer" / "tokenizer.json"))
    models, cases = [], []
    for name in CASES:
        variant = variants[name]
        tokenizer = Tokenizer.from_str(json.dumps(variant))
        ids = [tokenizer.encode(text).ids for text in tokenizer_variants.TEXTS]
        model = variant.pop("model")
        if model not in models:
            models.append(model)
        cases.append({
            "name": name,
            "parts": variant,
            "model": models.index(model),
            "ids": ids,
            "decoded": [tokenizer.decode(row, skip_special_tokens=False) for row in ids],
        })
    lines = ",\n".join(json.dumps(case) for case in cases)
    shared = ",\n".join(json.dumps(model) for model in models)
    texts = json.dumps(tokenizer_variants.TEXTS)
    GOLDEN.write_text(f'{{"texts": {texts},\n"models": [\n{shared}],\n"cases": [\n{lines}]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
