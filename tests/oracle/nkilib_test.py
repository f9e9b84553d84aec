"""Kernels of nkilib (`titan kernel run`) against PyTorch: forward and backward, one and two cores, float32 and bfloat16."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

TITAN = os.environ["TITAN"]
FP32, BF16 = torch.float32, torch.bfloat16

# Largest difference over the largest value of the reference, which is computed in float64 from the same inputs.
# float32: sums of up to 5,120 numbers in one order, and exponentials of two roundings. bfloat16 stores 8 bits: results are off by 2^-9 of
# themselves, the gradients of attention by the rounding of its probabilities too (the public tests allow 2e-2, and 1e-2
# for the cross entropy, whose exponentials are rounded before they are summed).
BOUNDS = {"rmsnorm": {FP32: 4e-6, BF16: 2**-8},
          "cross_entropy": {FP32: 1e-5, BF16: 1e-2}, "attention": {FP32: 1e-5, BF16: 2e-2}}


def normal(*shape, dtype, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def document_starts(batch, length):
    """[B, S]: where the document of each position begins; each row has documents of its own."""
    starts = torch.zeros(batch, length, dtype=torch.int64)
    for row in range(batch):
        for first in range(37 + 11 * row, length, 61 + 23 * row):
            starts[row, first:] = first
    return starts


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Nkilib(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="titan_nkilib.")
        cls.folder = Path(cls.kept.name)

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def kernel(self, name, lnc, **inputs):
        source, result = self.folder / "in.safetensors", self.folder / "out.safetensors"
        save_file({key: value.contiguous() for key, value in inputs.items()}, source)
        done = subprocess.run([TITAN, "kernel", "run", name, "--inputs", source, "--outputs", result, "--lnc", str(lnc)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return load_file(result)

    def close(self, got, expected, bounds, dtype):
        self.assertEqual(got.shape, expected.shape)
        self.assertTrue(torch.isfinite(got).all())
        difference = float((got.double() - expected.detach()).abs().max() / expected.detach().abs().max())
        self.assertLessEqual(difference, BOUNDS[bounds][dtype])

    def test_rope_hf_gives_the_bits_of_pytorch(self):
        shapes = [(1, 32, 8, 256, 128), (1, 32, 8, 512, 64), (4, 4, 2, 256, 64), (4, 1, 1, 512, 128)]
        for case, (batch, q_heads, k_heads, length, dim) in enumerate(shapes):
            positions = torch.arange(length) - document_starts(batch, length)
            angles = positions[..., None] / 1e6 ** (torch.arange(0, dim, 2) / dim)
            cache = torch.cat([angles.cos(), angles.cos(), angles.sin(), angles.sin()], -1).float()
            for dtype in (FP32, BF16):
                q = normal(batch, q_heads, length, dim, dtype=dtype, seed=case).requires_grad_()
                k = normal(batch, k_heads, length, dim, dtype=dtype, seed=100 + case).requires_grad_()
                grads = [normal(*x.shape, dtype=dtype, seed=200 + x.shape[1]) for x in (q, k)]
                cos, sin = cache.to(dtype)[:, None].chunk(2, -1)
                rotated = [x * cos + rotate_half(x) * sin for x in (q, k)]
                turned_back = torch.autograd.grad(rotated, (q, k), grads)
                for lnc in (1, 2):
                    with self.subTest(shape=shapes[case], dtype=dtype, lnc=lnc):
                        forward = self.kernel("rope_hf", lnc, q=q.detach(), k=k.detach(), rope_cache=cache)
                        backward = self.kernel("rope_hf_backward", lnc, q=grads[0], k=grads[1], rope_cache=cache)
                        for got, expected in ((forward, rotated), (backward, turned_back)):
                            for name, reference in zip(("q_out", "k_out"), expected):
                                self.assertEqual(got[name].dtype, dtype)
                                self.assertEqual(float((got[name] - reference.detach()).abs().max()), 0.0)

    def test_rmsnorm(self):
        for case, (rows, features) in enumerate([(256, 1024), (130, 128), (1, 96), (200, 5120)]):
            for dtype in (FP32, BF16):
                x, dy = (normal(rows, features, dtype=dtype, seed=seed) for seed in (case, 10 + case))
                weight = (1 + 0.2 * normal(features, dtype=FP32, seed=20 + case)).to(dtype)
                exact = [t.double().requires_grad_() for t in (x, weight)]
                rstd = torch.rsqrt(exact[0].pow(2).mean(-1, keepdim=True) + 1e-6)
                y = exact[0] * rstd * exact[1]
                dx, dweight = torch.autograd.grad(y, exact, dy.double())
                for lnc in (1, 2):
                    with self.subTest(shape=(rows, features), dtype=dtype, lnc=lnc):
                        got = self.kernel("rmsnorm", lnc, x=x, weight=weight)
                        self.close(got["y"], y, "rmsnorm", dtype)
                        self.close(got["rstd"], rstd, "rmsnorm", FP32)
                        back = self.kernel("rmsnorm_backward", lnc, dy=dy, x=x, weight=weight, rstd=got["rstd"])
                        self.close(back["dx"], dx, "rmsnorm", dtype)
                        self.close(back["dweight"], dweight, "rmsnorm", dtype)

    def test_cross_entropy(self):
        for case, (rows, words) in enumerate([(96, 1000), (64, 32128), (33, 129280), (33, 151936), (5, 201088),
                                              (5, 202408)]):
            for dtype in (FP32, BF16):
                logits = 2 * normal(rows, words, dtype=dtype, seed=case)
                targets = torch.randint(words, (rows,), generator=torch.Generator().manual_seed(case), dtype=torch.int32)
                targets[0], targets[1] = 0, words - 1
                exact = logits.double().requires_grad_()
                loss, lse = F.cross_entropy(exact, targets.long(), reduction="none"), torch.logsumexp(exact, -1)
                gradient, = torch.autograd.grad(loss.mean(), exact)
                for lnc in (1, 2):
                    with self.subTest(shape=(rows, words), dtype=dtype, lnc=lnc):
                        got = self.kernel("cross_entropy", lnc, logits=logits, targets=targets)
                        self.close(got["loss"], loss, "cross_entropy", dtype)
                        self.close(got["lse"], lse, "cross_entropy", dtype)
                        # lse in bfloat16 would change each probability by up to e to the 2^-8 of it.
                        back = self.kernel("cross_entropy_backward", lnc, logits=logits, targets=targets, lse=lse.float())
                        self.close(back["dlogits"], gradient, "cross_entropy", dtype)

    def attention_case(self, shape, dtype, has_documents, lnc):
        batch, length, q_heads, k_heads, dim = shape
        q = normal(batch, length, q_heads, dim, dtype=dtype, seed=1)
        k, v = (normal(batch, length, k_heads, dim, dtype=dtype, seed=seed) for seed in (2, 3))
        dout = normal(*q.shape, dtype=dtype, seed=4)
        exact = [t.double().requires_grad_() for t in (q, k, v)]
        heads_first = [t.transpose(1, 2) for t in exact]
        keys, queries = torch.arange(length), torch.arange(length)[:, None]
        starts = document_starts(batch, length) if has_documents else torch.zeros(batch, length, dtype=torch.int64)
        visible = ((keys <= queries) & (keys >= starts[..., None]))[:, None]
        out = F.scaled_dot_product_attention(*heads_first, attn_mask=visible, enable_gqa=True).transpose(1, 2)
        gradients = torch.autograd.grad(out, exact, dout.double())
        scores = heads_first[0] @ heads_first[1].repeat_interleave(q_heads // k_heads, 1).transpose(2, 3) / dim**0.5
        lse = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)

        first_key = {"first_key": starts.int()} if has_documents else {}
        got = self.kernel("attention", lnc, q=q, k=k, v=v, **first_key)
        self.close(got["out"], out, "attention", dtype)
        self.close(got["lse"], lse, "attention", FP32)
        back = self.kernel("attention_backward", lnc, q=q, k=k, v=v, dout=dout, **got, **first_key)
        for name, expected in zip(("dq", "dk", "dv"), gradients):
            self.close(back[name], expected, "attention", dtype)

    def test_attention(self):
        for shape in [(1, 256, 8, 2, 128), (2, 640, 3, 3, 64), (4, 128, 4, 1, 16)]:
            for dtype in (FP32, BF16):
                for has_documents in (False, True):
                    for lnc in (1, 2):
                        with self.subTest(shape=shape, dtype=dtype, documents=has_documents, lnc=lnc):
                            self.attention_case(shape, dtype, has_documents, lnc)


if __name__ == "__main__":
    unittest.main(verbosity=2)
