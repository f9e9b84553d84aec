"""Small tokenizers, one for each component and option that titan reads, as (name, tokenizer.json) pairs.

Byte-level ones share a model cut from the bundled tokenizer: the 256 bytes and the first merges.
"""

import copy
import json
from pathlib import Path

NUM_MERGES = 200
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "",
    " ",
    "And God said, Let there be light: and there was light.\n",
    "  x\t\ty -> (x):\n\n  return 12345  ",
    "I'LL can't we've 'S 'ſ it’s",
    "X.<|end|> <|end|>Y<|end|><|begin|>",
    "cafe\u0301 café Å \u0301 a\u0323\u0301 가\u11a7\u11a8 \u1100\u1161\u11a8",
    "日本語のテキスト 中文字符。한국어",
    "👩‍👩‍👧 👍🏽 🇫🇷 ❤️",
    "١٢٣ १२३ ½ Ⅷ x² 𝟘",
    "\u00a0\u3000\u2028\u180e\u200b\r\n\v",
    "a-b--c- -the final--countdown",
    "THE İstanbul ǅ ß Lord's WORD",
    "mask masks [MASK]mask  mask [mask]",
]


def byte_level(**options) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def split(pattern: dict, behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(key: str, *parts: dict) -> dict:
    return {"type": "Sequence", key: list(parts)}


def added(identity: int, content: str, **flags) -> dict:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": identity, "content": content, **{name: flags.get(name, False) for name in names}}


def base(bundled: Path) -> dict:
    """GPT-2's components over a small byte-level model."""
    model = json.loads(bundled.read_text(encoding="utf-8"))["model"]
    vocab = {token: i for token, i in model["vocab"].items() if i < 256 + NUM_MERGES}
    merges = [pair for pair in model["merges"] if "".join(pair) in vocab]
    return {
        "version": "1.0",
        "added_tokens": [added(len(vocab), "<|begin|>", special=True), added(len(vocab) + 1, "<|end|>", special=True)],
        "normalizer": None,
        "pre_tokenizer": byte_level(),
        "post_processor": byte_level(),
        "decoder": byte_level(),
        "model": {**model, "vocab": vocab, "merges": merges},
    }


def characters(**options) -> dict:
    """A model over characters with <0x..> tokens: the shape of converted SentencePiece models."""
    tokens = ["<unk>", "<s>"] + [f"<0x{i:02X}>" for i in range(256)] + list("▁abcdefghilnorstuwyTAG.,'-é")
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("a", "n"), ("an", "d"), ("▁", "a"), ("▁", "▁"), ("s", "a")]
    tokens += ["".join(pair) for pair in merges]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    model |= {"vocab": {token: i for i, token in enumerate(tokens)}, "merges": [" ".join(pair) for pair in merges]}
    model |= options
    space = {"String": " "}
    return {
        "version": "1.0",
        "added_tokens": [added(1, "<s>", special=True)],
        "normalizer": sequence(
            "normalizers",
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": space, "content": "▁"},
        ),
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": sequence(
            "decoders",
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ),
        "model": model,
    }


def affixes() -> dict:
    """A model with a prefix on what continues a word and a suffix on what ends it."""
    letters = "abcdefghinorstw"
    vocab = [*letters, *(f"##{c}" for c in letters), *(f"##{c}</w>" for c in letters), *(f"{c}</w>" for c in letters)]
    merges = [("t", "##h"), ("th", "##e</w>"), ("a", "##n"), ("an", "##d</w>"), ("##o", "##r")]
    vocab += ["th", "the</w>", "an", "and</w>", "##or", "<unk>"]
    result = characters(fuse_unk=False, byte_fallback=False, continuing_subword_prefix="##", end_of_word_suffix="</w>")
    result["model"] |= {"vocab": {token: i for i, token in enumerate(vocab)}, "merges": merges}
    return result | {"added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
                     "pre_tokenizer": {"type": "Whitespace"}}


def variants(bundled: Path) -> list[tuple[str, dict]]:
    small = base(bundled)
    result = []

    def add(name: str, start: dict = small, model: dict | None = None, **changes) -> None:
        variant = copy.deepcopy(start) | changes
        variant["model"] |= model or {}
        result.append((name, variant))

    first = len(small["model"]["vocab"])
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [first], "tokens": ["<|begin|>"]}},
    }
    bytes_only = byte_level(use_regex=False)

    add("gpt2", model={"merges": [" ".join(pair) for pair in small["model"]["merges"]]})
    add("gpt2_prefix_space", pre_tokenizer=byte_level(add_prefix_space=True))
    add("llama3", pre_tokenizer=sequence("pretokenizers", split({"Regex": LLAMA3}), bytes_only),
        post_processor=sequence("processors", byte_level(), template), model={"ignore_merges": True})
    add("qwen3", normalizer={"type": "NFC"}, pre_tokenizer=sequence("pretokenizers", split({"Regex": QWEN3}), bytes_only))
    add("o200k", pre_tokenizer=sequence("pretokenizers", split({"Regex": O200K}), bytes_only))
    add("smollm2", pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level()))
    add("digits_together", pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": False}, bytes_only))
    add("byte_level_inside", pre_tokenizer=sequence(
        "pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(),
        {"type": "Digits", "individual_digits": False}, split({"Regex": "[0-9][0-9][0-9]"})),
        model={"unk_token": None})
    add("ignore_merges", model={"ignore_merges": True, "merges": small["model"]["merges"][::2]})
    add("dropout_zero", model={"dropout": 0.0})
    add("missing_bytes", model={"vocab": {t: i for t, i in small["model"]["vocab"].items() if t not in "zÃØ"}})
    for pattern in ({"String": "-"}, {"Regex": r"\s+|the"}, {"Regex": r"\w*"}):
        for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
            for invert in (False, True):
                name = f"split_{behavior}_{'invert_' if invert else ''}{next(iter(pattern.values()))}"
                add(name, pre_tokenizer=sequence("pretokenizers", split(pattern, behavior, invert), bytes_only))
    for kind in ("Whitespace", "WhitespaceSplit"):
        add(kind, pre_tokenizer=sequence("pretokenizers", {"type": kind}, bytes_only))
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        add(form, normalizer={"type": form})
    add("strip", normalizer={"type": "Strip", "strip_left": True, "strip_right": True})
    add("strip_left", normalizer=sequence("normalizers", {"type": "NFD"}, {"type": "Strip", "strip_left": True, "strip_right": False}))
    add("replace_regex", normalizer={"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "})
    add("added_tokens", normalizer={"type": "Lowercase"}, added_tokens=[
        added(first, "[MASK]", lstrip=True, special=True),
        added(first + 1, "<|end|>", rstrip=True),
        added(first + 2, "mask", single_word=True),
        added(first + 3, "Light", normalized=True),
        added(first + 4, "<|end|><|begin|>"),
        added(first + 5, "God", lstrip=True, rstrip=True, single_word=True, normalized=True),
    ])
    add("no_decoder", decoder=None)
    add("characters", characters())
    add("characters_no_fallback", characters(byte_fallback=False))
    add("characters_separate_unknown", characters(byte_fallback=False, fuse_unk=False))
    add("characters_no_unknown", characters(byte_fallback=False, unk_token=None))
    add("affixes", affixes())
    return result
