"""`titan tokenize`: text and JSON lines to ids and back, streaming, and what it says about bad input."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
BUNDLED = str(Path(os.environ["TITAN_SOURCE_DIR"]) / "tests" / "assets" / "tokenizer")


def tokenize(text, *flags, assets=BUNDLED):
    data = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([TITAN, "tokenize", "--assets", assets, *flags], input=data, capture_output=True)


class Tokenize(unittest.TestCase):
    def answer(self, text, *flags):
        done = tokenize(text, *flags)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def refused(self, code, pattern, text, *flags, assets=BUNDLED):
        done = tokenize(text, *flags, assets=assets)
        self.assertEqual(done.returncode, code)
        message = done.stderr.decode()
        self.assertRegex(message, rf"^titan: error: .*{pattern}")
        self.assertEqual(message.count("\n"), 1)
        return done.stdout.decode()

    def test_a_text_becomes_one_list(self):
        self.assertEqual(self.answer("And it came to pass, 12.\n"), "[296, 353, 472, 289, 601, 11, 220, 16, 17, 279]\n")
        self.assertEqual(self.answer("<|im_end|>"), "[2047]\n")

    def test_no_text_is_an_empty_list(self):
        self.assertEqual(self.answer(""), "[]\n")
        self.assertEqual(self.answer("", "--jsonl"), "")
        self.assertEqual(self.answer("", "--decode"), "")

    def test_a_text_comes_back_byte_by_byte(self):
        text = "  def f(x):\r\n\treturn 'naïve 日本語 👍🏽'\n\n\n"
        self.assertEqual(tokenize(self.answer(text), "--decode").stdout, text.encode())
        nul = "a\0b"
        self.assertEqual(tokenize(self.answer(nul), "--decode").stdout, nul.encode())

    def test_json_lines_become_a_list_each_and_come_back(self):
        texts = ["a b", "", "two\nlines", "\u2028 é"]
        lines = "".join(json.dumps({"n": i, "text": text}) + "\n\n" for i, text in enumerate(texts))
        ids = self.answer(lines, "--jsonl")
        self.assertEqual(len(ids.splitlines()), len(texts))
        back = self.answer(ids, "--decode", "--jsonl")
        self.assertEqual([json.loads(line) for line in back.split("\n")[:-1]], [{"text": text} for text in texts])
        other = self.answer('{"body": "a b"}\n', "--jsonl", "--text-key", "body")
        self.assertEqual(other, ids.splitlines(True)[0])
        self.assertEqual(self.answer(other, "--decode", "--jsonl", "--text-key=body"), '{"body": "a b"}\n')

    def test_special_tokens_are_added_and_left_out_on_demand(self):
        self.assertEqual(self.answer("a", "--add-eos", "--add-bos"), "[64, 2045]\n")
        self.assertEqual(self.answer("[64, 2045]", "--decode"), "a<|endoftext|>")
        self.assertEqual(self.answer("[64, 2045]", "--decode", "--skip-special-tokens"), "a")
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = json.loads((Path(BUNDLED) / "tokenizer.json").read_text())
            tokenizer["post_processor"] = {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {"x": {"id": "x", "ids": [2046], "tokens": ["<|im_start|>"]}},
            }
            (Path(folder) / "tokenizer.json").write_text(json.dumps(tokenizer))
            self.assertEqual(tokenize("a", assets=folder).stdout, b"[2046, 64]\n")
            self.assertEqual(tokenize("a", "--no-special-tokens", assets=folder).stdout, b"[64]\n")

    def test_json_lines_are_answered_as_they_come(self):
        command = [TITAN, "tokenize", "--assets", BUNDLED, "--jsonl"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            process.stdin.write(b'{"text": "a"}\n{"text"')
            self.assertEqual(process.stdout.read(5), b"[64]\n")
            process.stdin.write(b': "a"}\n')
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"[64]\n")

    def test_a_broken_line_is_named_after_the_answers_before_it(self):
        before = self.refused(1, "stdin, line 3: .*JSON", '{"text": "a"}\n\n{"text": "b"\n{"text": "c"}\n', "--jsonl")
        self.assertEqual(before, "[64]\n")
        self.refused(1, "stdin, line 1: .*body", '{"body": "a"}\n', "--jsonl")
        self.refused(1, "stdin, line 2: .*string", '{"text": "a"}\n{"text": 3}\n', "--jsonl")
        self.refused(1, "stdin, line 1: .*UTF-8", b'{"text": "\xff"}\n', "--jsonl")

    def test_bytes_that_are_not_utf8_are_named_by_offset(self):
        self.assertEqual(self.refused(1, "offset 2", b"ab\xffc"), "")

    def test_lists_that_cannot_be_decoded_are_named(self):
        self.refused(1, "line 1: .*id 2048 .position 1.*end at 2047", "[1, 2048]", "--decode")
        self.refused(1, "line 1: .*-1 is not an id", "[-1]", "--decode")
        self.refused(1, "line 1: .*1.5 is not an id", "[1.5]", "--decode")
        self.refused(1, "line 1: an object is not a JSON list", "{}", "--decode")
        self.refused(1, "line 1: .*not valid JSON", "[1, 2", "--decode")
        self.refused(1, "line 2: .*--jsonl", "[1]\n[2]\n", "--decode")

    def test_flags_that_say_nothing_are_refused(self):
        self.refused(2, "--skip-special-tokens needs --decode", "", "--skip-special-tokens")
        self.refused(2, "--add-eos has no meaning with --decode", "", "--decode", "--add-eos")
        self.refused(2, "--text-key needs --jsonl", "", "--text-key", "body")
        self.refused(2, "did you mean --decode", "", "--deocde")
        done = subprocess.run([TITAN, "tokenize"], input=b"", capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--assets DIR is required", done.stderr)

    def test_assets_that_cannot_be_read_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(1, "has no tokenizer.json", "a", assets=folder)
            whole = (Path(BUNDLED) / "tokenizer.json").read_text()
            (Path(folder) / "tokenizer.json").write_text(whole[: len(whole) // 2])
            self.refused(1, "tokenizer.json is not valid JSON", "a", assets=folder)
            (Path(folder) / "tokenizer.json").write_text(whole.replace('"NFC"', '"Nmt"'))
            self.refused(1, 'tokenizer.json: normalizer is of type "Nmt", which is not supported', "a", assets=folder)


if __name__ == "__main__":
    unittest.main()
