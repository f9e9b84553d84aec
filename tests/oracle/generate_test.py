"""`titan generate` beside transformers' own generation, on a tiny random checkpoint with the bundled tokenizer."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

TITAN = os.environ["TITAN"]
TOKENIZER = Path(os.environ["TITAN_SOURCE_DIR"]) / "tests/assets/tokenizer"
PROMPT = "In the beginning God created"


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        torch.manual_seed(0)
        cls.model = Qwen3ForCausalLM(Qwen3Config(
            vocab_size=2048, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=64, tie_word_embeddings=True,
            initializer_range=0.3, rope_parameters={"rope_type": "default", "rope_theta": 1e6}))
        cls.model.save_pretrained(cls.folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(TOKENIZER / name, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_titan(self, *flags, prompt=PROMPT, code=0):
        done = subprocess.run([TITAN, "generate", "--assets", self.folder, "--prompt", prompt, *flags],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_greedy_text_is_transformers_text(self):
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        for prompt in (PROMPT, "é漢😀 ab", "x"):
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            out = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False,
                                      pad_token_id=0)
            expected = tokenizer.decode([i for i in out[0] if i != tokenizer.eos_token_id])
            self.assertEqual(self.run_titan("--max-new-tokens", "24", prompt=prompt), expected + "\n")

    def test_generation_stops_at_the_end_token(self):
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        ids = tokenizer(PROMPT, return_tensors="pt").input_ids
        out = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False,
                                  pad_token_id=0)[0].tolist()
        end = out[ids.shape[1] + 5]
        first = out.index(end, ids.shape[1])
        path = self.folder / "tokenizer_config.json"
        before = path.read_text()
        try:
            path.write_text(json.dumps({**json.loads(before), "eos_token": tokenizer.convert_ids_to_tokens(end)}))
            self.assertEqual(self.run_titan("--max-new-tokens", "24"), tokenizer.decode(out[:first]) + "\n")
        finally:
            path.write_text(before)

    def test_sampling_repeats_with_its_seed_and_only_then(self):
        def sampled(*flags):
            return self.run_titan("--temperature", "1.0", "--max-new-tokens", "20", *flags)
        self.assertEqual(sampled("--seed", "5"), sampled("--seed", "5"))
        self.assertNotEqual(sampled("--seed", "5"), sampled("--seed", "6"))

    def test_one_candidate_is_greedy_whatever_the_temperature(self):
        greedy = self.run_titan("--max-new-tokens", "20")
        self.assertEqual(self.run_titan("--max-new-tokens", "20", "--temperature", "3", "--top-k", "1", "--seed", "1"), greedy)
        self.assertEqual(self.run_titan("--max-new-tokens", "20", "--temperature", "3", "--top-p", "0.0001", "--seed", "1"), greedy)

    def test_generation_ends_at_the_models_last_position(self):
        tokens = AutoTokenizer.from_pretrained(self.folder)(PROMPT).input_ids
        text = self.run_titan("--max-new-tokens", "1000")
        self.assertGreater(len(text), len(PROMPT))
        done = self.run_titan(prompt="word " * 80, code=1)
        self.assertIn("leave no room in the model's 64 positions", done)
        self.assertLess(len(tokens), 64)

    def test_wrong_flags_are_named(self):
        self.assertIn("--temperature", self.run_titan("--temperature", "-1", code=2))
        self.assertIn("did you mean --prompt", self.run_titan("--promt", "x", code=2))
        self.assertIn("--max-new-tokens", self.run_titan("--max-new-tokens", "0", code=2))
        self.assertIn("--top-p", self.run_titan("--top-p", "1.5", code=2))
        self.assertIn("--dtype must be float32 or bfloat16", self.run_titan("--dtype", "float64", code=2))
        self.assertIn("--prompt TEXT is required", subprocess.run(
            [TITAN, "generate", "--assets", self.folder], capture_output=True, text=True).stderr)

    def test_an_empty_prompt_starts_from_the_tokenizers_own_token(self):
        self.run_titan("--max-new-tokens", "3", prompt="")


if __name__ == "__main__":
    unittest.main()
