"""`titan forward` against transformers on tiny random Qwen3 checkpoints: logits, loss, every gradient."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

TITAN = os.environ["TITAN"]

# Both sides sum in float32 in different orders; 2e-5 of the largest value is some 170 roundings.
LOGIT_TOLERANCE = 2e-5
LOSS_TOLERANCE = 1e-5
GRAD_TOLERANCE = 1e-4

BASE = dict(vocab_size=331, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False,
            initializer_range=0.1)

# Each differs from BASE in what readers of config.json get wrong.
CASES = {
    "plain": {},
    "head_dim_is_not_hidden_over_heads": dict(hidden_size=48, head_dim=32),
    "one_kv_head": dict(num_key_value_heads=1),
    "as_many_kv_heads_as_heads": dict(num_key_value_heads=4),
    "odd_heads": dict(num_attention_heads=3, num_key_value_heads=3, hidden_size=60, head_dim=20),
    "five_heads_one_kv": dict(num_attention_heads=5, num_key_value_heads=1, hidden_size=40, head_dim=8),
    "tied": dict(tie_word_embeddings=True),
    "theta_5e6_and_eps": dict(rope_parameters={"rope_type": "default", "rope_theta": 5e6}, rms_norm_eps=1e-5),
    "odd_vocabulary_and_ffn": dict(vocab_size=257, intermediate_size=77, num_hidden_layers=1),
    "wide_head": dict(head_dim=128, num_attention_heads=2, num_key_value_heads=1),
}


def make_checkpoint(folder, case, dtype=torch.float32, **save_options):
    torch.manual_seed(len(case))
    config = Qwen3Config(**{**BASE, **CASES[case]}, attn_implementation="eager")
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():  # norms away from their initial ones
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    model.to(dtype).save_pretrained(folder, **save_options)
    # Read back, since rounding a model in place would round its table of rotary frequencies too.
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def titan_forward(folder, inputs, *flags):
    source, result = folder / "in.safetensors", folder / "out.safetensors"
    save_file(inputs, source)
    subprocess.run([TITAN, "forward", "--assets", folder, "--in", source, "--out", result, *flags], check=True,
                   stdout=subprocess.PIPE)
    return load_file(result)


def reference(model, ids, labels, positions=None, mask=None):
    model.zero_grad()
    logits = model(input_ids=ids, position_ids=positions, attention_mask=mask).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss.backward()
    return logits.detach(), loss.detach(), {n: p.grad for n, p in model.named_parameters()}


def random_tokens(model, batch, tokens):
    generator = torch.Generator().manual_seed(batch * 1000 + tokens)
    ids = torch.randint(model.config.vocab_size, (batch, tokens), generator=generator)
    labels = torch.randint(model.config.vocab_size, (batch, tokens), generator=generator)
    labels[torch.rand(batch, tokens, generator=generator) < 0.2] = -100
    return ids, labels


class Parity(unittest.TestCase):
    def compare(self, case, expected, result, bound=1.0):
        logits, loss, grads = expected
        scale = logits.abs().max()
        self.assertLessEqual((result["logits"] - logits).abs().max(), bound * LOGIT_TOLERANCE * scale, case)
        self.assertLessEqual(abs(result["loss"] - loss), bound * LOSS_TOLERANCE * abs(loss), case)
        self.assertEqual({name for name in result if name.startswith("grads.")}, {f"grads.{n}" for n in grads}, case)
        for name, grad in grads.items():
            error = (result[f"grads.{name}"] - grad).norm() / grad.norm()
            self.assertLessEqual(error, bound * GRAD_TOLERANCE, f"{case}: {name}")

    def test_every_architecture_gives_transformers_numbers(self):
        for case in CASES:
            with self.subTest(case), tempfile.TemporaryDirectory() as folder:
                model = make_checkpoint(Path(folder), case)
                ids, labels = random_tokens(model, 3, 37)
                result = titan_forward(Path(folder), {"input_ids": ids, "labels": labels}, "--grads")
                self.compare(case, reference(model, ids, labels), result)

    def test_theta_is_found_under_rope_parameters_and_at_the_top(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model = make_checkpoint(folder, "theta_5e6_and_eps")
            ids, labels = random_tokens(model, 2, 60)
            expected = reference(model, ids, labels)
            path = folder / "config.json"
            config = json.loads(path.read_text())
            self.assertNotIn("rope_theta", config)
            self.compare("nested", expected, titan_forward(folder, {"input_ids": ids, "labels": labels}, "--grads"))
            config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
            path.write_text(json.dumps(config))
            self.compare("top", expected, titan_forward(folder, {"input_ids": ids, "labels": labels}, "--grads"))
            del config["rope_theta"]
            path.write_text(json.dumps(config))
            failed = subprocess.run([TITAN, "forward", "--assets", folder, "--in", folder / "in.safetensors", "--out",
                                     folder / "no.safetensors"], capture_output=True, text=True)
            self.assertNotEqual(failed.returncode, 0)
            self.assertIn("rope_theta", failed.stderr)

    def test_bfloat16_on_disk_and_a_sharded_index(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model = make_checkpoint(folder, "tied", torch.bfloat16, max_shard_size="50KB")
            self.assertGreater(len(list(folder.glob("model-*.safetensors"))), 2)
            ids, labels = random_tokens(model, 2, 33)
            result = titan_forward(folder, {"input_ids": ids, "labels": labels}, "--grads")
            self.compare("sharded bfloat16", reference(model, ids, labels), result)

    def test_position_ids_that_restart_begin_a_document(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model = make_checkpoint(folder, "plain")
            ids, labels = random_tokens(model, 2, 30)
            positions = torch.cat([torch.arange(13), torch.arange(17)]).expand(2, -1).contiguous()
            inputs = {"input_ids": ids, "labels": labels, "position_ids": positions}
            document = torch.arange(30) >= 13
            same = document[:, None] == document[None, :]
            causal = torch.ones(30, 30, dtype=torch.bool).tril()
            for mask, allowed in [("document", causal & same), ("causal", causal)]:
                bias = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[None, None].expand(2, 1, -1, -1)
                expected = reference(model, ids, labels, positions, bias)
                self.compare(mask, expected, titan_forward(folder, inputs, "--grads", "--mask", mask))

    def test_bfloat16_compute_stays_close(self):
        with tempfile.TemporaryDirectory() as folder:
            model = make_checkpoint(Path(folder), "plain")
            ids, labels = random_tokens(model, 2, 40)
            logits, loss, grads = reference(model, ids, labels)
            result = titan_forward(Path(folder), {"input_ids": ids, "labels": labels}, "--grads", "--dtype", "bfloat16")
            grads = {name: grad.clone() for name, grad in grads.items()}
            lower, _, lower_grads = reference(model.to(torch.bfloat16), ids, labels)
            # As near to float32 as transformers' own bfloat16, within a factor that its luck may vary by.
            self.assertLessEqual((result["logits"] - logits).norm(), 1.5 * (lower.float() - logits).norm())
            self.assertLess(abs(result["loss"] - loss), 0.02 * loss)
            self.assertGreater((result["logits"] - logits).abs().max(), 1e-4, "it computed in float32")
            for name, grad in grads.items():
                error = (result[f"grads.{name}"] - grad).norm()
                self.assertLessEqual(error, 2.0 * (lower_grads[name].float() - grad).norm() + 1e-6, name)


class Refusals(unittest.TestCase):
    def check(self, inputs, message, *flags):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            make_checkpoint(folder, "plain")
            save_file(inputs, folder / "in.safetensors")
            done = subprocess.run([TITAN, "forward", "--assets", folder, "--in", folder / "in.safetensors", "--out",
                                   folder / "out.safetensors", *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse((folder / "out.safetensors").exists())

    def test_inputs_that_do_not_fit_are_named(self):
        ids = torch.zeros(1, 4, dtype=torch.int64)
        self.check({"tokens": ids}, "the tensor tokens has no use here")
        self.check({"labels": ids}, "has no tensor input_ids")
        self.check({"input_ids": ids, "label": ids.clone()}, "did you mean labels?")
        self.check({"input_ids": ids.float()}, "must be integers")
        self.check({"input_ids": ids + 331}, "input_ids holds 331 at [0, 0]")
        self.check({"input_ids": torch.zeros(1, 257, dtype=torch.int64)}, "longer than the model's 256 positions")
        self.check({"input_ids": ids, "labels": ids[:, :3].clone()}, "labels has shape [1, 3]")
        self.check({"input_ids": ids, "labels": ids - 100}, "every label is -100")
        self.check({"input_ids": ids}, "--grads needs labels", "--grads")


if __name__ == "__main__":
    unittest.main()
