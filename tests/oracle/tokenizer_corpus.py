"""Documents on which tokenizers tend to differ, the same for the same seed (but for the interpreter's own sources)."""

import gzip
import json
import random
import sysconfig
import unicodedata
from pathlib import Path

SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u180e"]
SPACES += ["\u2000", "\u2003", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]
CONTRACTIONS = ["'s", "'S", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'ſ", "’s", "'ſt", "' s", "''s", "'"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["->", "=>", "(x):\n", "...", "…", "—", "«", "»", "¿", "、", "。"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "🇯🇵", "❤️", "☃", "✈️", "1️⃣", "🧑🏿‍💻", "\U0001fae8"]
WORDS = ["the", "And", "naïve", "Ελληνικά", "Привет", "שָׁלוֹם", "مرحبا", "हिन्दी", "ภาษาไทย", "日本語", "中文字符", "한국어", "がぎぐ", "Việt"]
WORDS += ["ﬁne", "Å", "Å", "ǅ", "ß", "İstanbul", "ı", "Ⅷ", "½", "①", "x²", "10ª", "١٢٣", "१२३", "𝟘𝟙", "𐍈", "𠀀", "HTTPServer2", "snake_case"]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u0327\u0328\u0591\u05b0\u064b\u0651\u093c\u094d\u0e31\u3099\u309a\u20dd\ufe0f\u200d")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<|fim_prefix|>", "<file_sep>"]
SPECIAL += ["<|im_", "|>", "<|", "<|im_end|", "<|endoftext|><|endoftext|>", "<|im_start|>user\n", "X.<|im_end|>", " <|im_end|> "]


def random_character(source: random.Random) -> str:
    """Any code point but surrogates, the lower planes more often."""
    plane = source.choice([0x250, 0x3000, 0x10000, 0x20000, 0x110000])
    code = source.randrange(plane)
    return chr(code) if not 0xD800 <= code < 0xE000 else " "


def piece(source: random.Random) -> str:
    kind = source.randrange(13)
    if kind == 0:
        return "".join(source.choice("0123456789") for _ in range(source.randrange(1, 12)))
    if kind == 1:
        return source.choice(SPACES) * source.choice([1, 1, 2, 3, 7, 30])
    if kind == 2:
        return source.choice(WORDS) + source.choice(CONTRACTIONS)
    if kind == 3:
        return "".join(source.choice(PUNCTUATION) for _ in range(source.randrange(1, 6)))
    if kind == 4:
        return source.choice(EMOJI) * source.randrange(1, 3)
    if kind == 5:
        return source.choice("aeiounAEO한가がカ") + "".join(source.choice(MARKS) for _ in range(source.randrange(1, 5)))
    if kind == 6:
        return source.choice(SPECIAL)
    if kind == 7:
        return "".join(chr(source.randrange(0x4E00, 0x9FFF)) for _ in range(source.randrange(1, 20)))
    if kind == 8:
        return unicodedata.normalize(source.choice(["NFD", "NFC", "NFKD"]), source.choice(WORDS))
    if kind == 9:
        return "".join(random_character(source) for _ in range(source.randrange(1, 6)))
    if kind == 10:
        return source.choice("aZ0 -=_.\n") * source.choice([1, 5, 40, 300])
    if kind == 11:
        return "".join(chr(source.choice([0x1100, 0x1161, 0x11A7]) + source.randrange(21)) for _ in range(source.randrange(1, 6)))
    return source.choice(WORDS)


def generated(size: int, seed: int) -> list[str]:
    """Documents of random pieces, `size` bytes in all."""
    source = random.Random(seed)
    result, total = [], 0
    while total < size:
        joiner = source.choice(["", " ", " ", "\n"])
        document = joiner.join(piece(source) for _ in range(source.randrange(1, 600)))
        result.append(document)
        total += len(document.encode())
    return result


def bundled(path: Path, size: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return take((json.loads(line)["text"] for line in lines), size)


def sources(size: int) -> list[str]:
    """Python's standard library, as far as it is UTF-8."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return take((file.read_bytes().decode("utf-8", "ignore") for file in files), size)


def take(documents, size: int) -> list[str]:
    result, total = [], 0
    for document in documents:
        result.append(document)
        total += len(document.encode())
        if total >= size:
            break
    return result


def every_code_point() -> list[str]:
    """Each code point between a letter, a digit and a space, 256 to a document."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    return ["".join(f"a{chr(c)}{chr(c)} {chr(c)}1" for c in codes[i : i + 256]) for i in range(0, len(codes), 256)]
