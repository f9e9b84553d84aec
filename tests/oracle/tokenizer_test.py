"""Token ids and decoded text against `tokenizers`, on the published tokenizers and on one variant per component."""

import filecmp
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tokenizer_corpus as corpus
import tokenizer_variants
from tokenizers import Tokenizer

SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
TITAN = os.environ["TITAN"]
BUNDLED = SOURCE / "tests" / "assets" / "tokenizer"
TEXT = SOURCE / "tests" / "assets" / "c4_test" / "data.jsonl.gz"
SEED = 20260720

sys.path.insert(0, str(SOURCE / "tools"))
import fetch_test_assets  # noqa: E402


def titan(assets: Path, lines: list, *flags: str) -> list:
    """What `titan tokenize --jsonl` answers to each line."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    result = subprocess.run([TITAN, "tokenize", "--assets", assets, "--jsonl", *flags], input=text.encode(), capture_output=True)
    if result.returncode:
        raise AssertionError(result.stderr.decode())
    return [json.loads(line) for line in result.stdout.splitlines()]


def encode(assets: Path, documents: list[str], *flags: str) -> list[list[int]]:
    return titan(assets, [{"text": document} for document in documents], *flags)


def decode(assets: Path, ids: list[list[int]], *flags: str) -> list[str]:
    return [line["text"] for line in titan(assets, ids, "--decode", *flags)]


class Tokenizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.documents = corpus.bundled(TEXT, 2_000_000) + corpus.sources(2_500_000) + corpus.generated(6_000_000, SEED)
        cls.documents += corpus.every_code_point()[::8]
        size = sum(len(document.encode()) for document in cls.documents)
        assert size >= 10_000_000, f"the corpus has {size} bytes only"

    def equal(self, assets: Path, documents: list[str]) -> list[list[int]]:
        """Checks ids and decoded text, without and with special tokens; returns the ids."""
        theirs = Tokenizer.from_file(str(assets / "tokenizer.json"))
        expected = [encoding.ids for encoding in theirs.encode_batch_fast(documents)]
        actual = encode(assets, documents)
        self.assertEqual(len(actual), len(expected))
        for document, ours, wanted in zip(documents, actual, expected):
            if ours != wanted:
                at = next((i for i, (a, b) in enumerate(zip(ours, wanted)) if a != b), min(len(ours), len(wanted)))
                around = theirs.decode(wanted[max(0, at - 3) : at + 4])
                self.fail(f"{assets.name}: id {at}, near {around!r}: {ours[at:at + 4]}, not {wanted[at:at + 4]}, of {document[:80]!r}")
        for skip, flags in ((False, ()), (True, ("--skip-special-tokens",))):
            wanted = theirs.decode_batch(actual, skip_special_tokens=skip)
            for ours, text in zip(decode(assets, actual, *flags), wanted):
                self.assertEqual(ours, text, assets.name)
        return actual

    def test_qwen3(self):
        self.equal(fetch_test_assets.fetch("qwen3"), self.documents)

    def test_bundled(self):
        self.equal(BUNDLED, self.documents)

    def test_smollm2_which_gives_the_bytes_back(self):
        assets = fetch_test_assets.fetch("smollm2")
        ids = self.equal(assets, self.documents)
        # The vocabulary has no token for some bytes; tokenizers drops them and so do we.
        vocabulary = Tokenizer.from_file(str(assets / "tokenizer.json")).get_vocab()
        stand_ins = Tokenizer.from_file(str(BUNDLED / "tokenizer.json")).get_vocab()
        missing = {token for token in stand_ins if len(token) == 1 and token not in vocabulary}
        lost = {byte for byte in range(256) if stand_in(byte) in missing}
        whole = [(d, i) for d, i in zip(self.documents, ids) if not lost & set(d.encode())]
        self.assertGreater(len(whole), 900)
        for (document, _), back in zip(whole, decode(assets, [i for _, i in whole])):
            self.assertEqual(back, document)

    def test_every_component(self):
        documents = tokenizer_variants.TEXTS + corpus.generated(60_000, SEED)
        with tempfile.TemporaryDirectory() as folder:
            for name, variant in tokenizer_variants.variants(BUNDLED / "tokenizer.json"):
                with self.subTest(name):
                    assets = Path(folder) / "variant"
                    assets.mkdir(exist_ok=True)
                    (assets / "tokenizer.json").write_text(json.dumps(variant), encoding="utf-8")
                    self.equal(assets, documents)
                    theirs = Tokenizer.from_file(str(assets / "tokenizer.json"))
                    plain = [e.ids for e in theirs.encode_batch_fast(documents, add_special_tokens=False)]
                    self.assertEqual(encode(assets, documents, "--no-special-tokens"), plain)

    def test_long_runs(self):
        documents = [unit * (400_000 // len(unit)) for unit in ("a", " ", "\n", "=", "7", "字", "\u0301", "ab", "-\n")]
        self.equal(BUNDLED, documents)

    def test_shipped_files_are_what_the_script_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, SOURCE / "tools" / "train_tokenizer.py", TEXT, folder], check=True)
            for name in ("tokenizer.json", "tokenizer_config.json"):
                self.assertTrue(filecmp.cmp(Path(folder) / name, BUNDLED / name, shallow=False), name)

    def test_transformers_loads_the_bundled_tokenizer(self):
        from transformers import AutoTokenizer

        theirs = AutoTokenizer.from_pretrained(BUNDLED)
        self.assertEqual(len(theirs), 2048)
        self.assertEqual(theirs.eos_token, "<|endoftext|>")
        texts = ["And it came to pass<|im_end|> 123", "cafe\u0301"]
        self.assertEqual(encode(BUNDLED, texts), [theirs(text)["input_ids"] for text in texts])


def stand_in(byte: int) -> str:
    """ByteLevel's character for a byte, from the library itself."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return chr(byte if byte in printable else 256 + others.index(byte))


if __name__ == "__main__":
    unittest.main()
