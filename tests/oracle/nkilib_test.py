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

    def kernel(self, name, cores=(1, 2), **inputs):
        """{cores: results} of a kernel on one and on two cores, which run beside each other."""
        source = self.folder / "in.safetensors"
        save_file({key: value.contiguous() for key, value in inputs.items()}, source)
        results = {lnc: self.folder / f"out{lnc}.safetensors" for lnc in cores}
        runs = [subprocess.Popen([TITAN, "kernel", "run", name, "--inputs", source, "--outputs", result, "--lnc", str(lnc)],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for lnc, result in results.items()]
        for run in runs:
            said = run.communicate()[1]
            self.assertEqual(run.returncode, 0, said)
        return {lnc: load_file(result) for lnc, result in results.items()}

    def close(self, got, expected, bounds, dtype):
        self.assertEqual(got.shape, expected.shape)
        self.assertTrue(torch.isfinite(got).all())
        difference = float((got.double() - expected.detach()).abs().max() / expected.detach().abs().max())
        self.assertLessEqual(difference, BOUNDS[bounds][dtype])

    def test_rope_hf_gives_the_bits_of_pytorch(self):
        shapes = [(1, 32, 8, 256, 128), (2, 16, 4, 512, 128), (1, 32, 8, 512, 64), (4, 4, 2, 256, 64), (4, 1, 1, 512, 128)]
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
                forward = self.kernel("rope_hf", q=q.detach(), k=k.detach(), rope_cache=cache)
                backward = self.kernel("rope_hf_backward", q=grads[0], k=grads[1], rope_cache=cache)
                for lnc in forward:
                    with self.subTest(shape=shapes[case], dtype=dtype, lnc=lnc):
                        for got, expected in ((forward[lnc], rotated), (backward[lnc], turned_back)):
                            for name, reference in zip(("q_out", "k_out"), expected):
                                self.assertEqual(got[name].dtype, dtype)
                                self.assertEqual(float((got[name] - reference.detach()).abs().max()), 0.0)

    def rmsnorm_case(self, rows, features, dtype, cores=(1, 2)):
        x, dy = (normal(rows, features, dtype=dtype, seed=seed) for seed in (rows, 10 + rows))
        weight = (1 + 0.2 * normal(features, dtype=FP32, seed=20 + rows)).to(dtype)
        exact = [t.double().requires_grad_() for t in (x, weight)]
        rstd = torch.rsqrt(exact[0].pow(2).mean(-1, keepdim=True) + 1e-6)
        y = exact[0] * rstd * exact[1]
        dx, dweight = torch.autograd.grad(y, exact, dy.double())
        forward = self.kernel("rmsnorm", cores, x=x, weight=weight)
        backward = self.kernel("rmsnorm_backward", cores, dy=dy, x=x, weight=weight, rstd=forward[cores[0]]["rstd"])
        for lnc in cores:
            with self.subTest(shape=(rows, features), dtype=dtype, lnc=lnc):
                self.close(forward[lnc]["y"], y, "rmsnorm", dtype)
                self.close(forward[lnc]["rstd"], rstd, "rmsnorm", FP32)
                self.close(backward[lnc]["dx"], dx, "rmsnorm", dtype)
                self.close(backward[lnc]["dweight"], dweight, "rmsnorm", dtype)

    def test_rmsnorm(self):
        for rows, features in [(256, 1024), (130, 128), (1, 96), (200, 5120)]:
            for dtype in (FP32, BF16):
                self.rmsnorm_case(rows, features, dtype)

    def test_rmsnorm_of_the_public_rows(self):
        for rows, dtype in [(2, FP32), (2, BF16), (160, FP32), (160, BF16), (2048, BF16)]:
            self.rmsnorm_case(rows, 16384, dtype, cores=(2,))

    def cross_entropy_case(self, rows, words, dtype, cores=(1, 2), reference=torch.float64):
        logits = 2 * normal(rows, words, dtype=dtype, seed=rows)
        targets = torch.randint(words, (rows,), generator=torch.Generator().manual_seed(rows), dtype=torch.int32)
        targets[0], targets[1] = 0, words - 1
        exact = logits.to(reference).requires_grad_()
        loss, lse = F.cross_entropy(exact, targets.long(), reduction="none"), torch.logsumexp(exact, -1)
        gradient, = torch.autograd.grad(loss.mean(), exact)
        forward = self.kernel("cross_entropy", cores, logits=logits, targets=targets)
        # lse in bfloat16 would change each probability by up to e to the 2^-8 of it.
        backward = self.kernel("cross_entropy_backward", cores, logits=logits, targets=targets, lse=lse.float())
        for lnc in cores:
            with self.subTest(shape=(rows, words), dtype=dtype, lnc=lnc):
                self.close(forward[lnc]["loss"], loss, "cross_entropy", dtype)
                self.close(forward[lnc]["lse"], lse, "cross_entropy", dtype)
                self.close(backward[lnc]["dlogits"], gradient, "cross_entropy", dtype)

    def test_cross_entropy_of_the_public_vocabularies(self):
        for rows, words in [(96, 1000), (64, 32128), (33, 129280), (33, 151936), (5, 201088), (5, 202408)]:
            for dtype in (FP32, BF16):
                self.cross_entropy_case(rows, words, dtype)

    def test_cross_entropy_of_the_public_number_of_rows(self):
        # Of the smallest vocabulary, and with a reference whose errors are far below the bound: gigabytes otherwise.
        self.cross_entropy_case(4096, 32128, BF16, cores=(2,), reference=FP32)

    def attention_case(self, shape, dtype, has_documents, cores=(1, 2)):
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
        with torch.no_grad():
            scores = heads_first[0] @ heads_first[1].repeat_interleave(q_heads // k_heads, 1).transpose(2, 3) / dim**0.5
            lse = scores.masked_fill_(~visible, -torch.inf).logsumexp(-1)

        first_key = {"first_key": starts.int()} if has_documents else {}
        forward = self.kernel("attention", cores, q=q, k=k, v=v, **first_key)
        backward = self.kernel("attention_backward", cores, q=q, k=k, v=v, dout=dout, **forward[cores[0]], **first_key)
        for lnc in cores:
            with self.subTest(shape=shape, dtype=dtype, documents=has_documents, lnc=lnc):
                self.close(forward[lnc]["out"], out, "attention", dtype)
                self.close(forward[lnc]["lse"], lse, "attention", FP32)
                for name, expected in zip(("dq", "dk", "dv"), gradients):
                    self.close(backward[lnc][name], expected, "attention", dtype)

    def test_attention(self):
        for shape in [(1, 256, 8, 2, 128), (2, 640, 3, 3, 64), (4, 128, 4, 1, 16)]:
            for dtype in (FP32, BF16):
                for has_documents in (False, True):
                    self.attention_case(shape, dtype, has_documents)

    def test_attention_of_the_public_lengths(self):
        # Backward two of the 16 query heads over the 8 key heads of the public test, which differ in nothing but their numbers.
        forward = [((1, 256, 1, 1, 128), 2), ((2, 512, 1, 1, 128), 2), ((2, 1024, 1, 1, 128), 2), ((3, 2048, 1, 1, 128), 1),
                   ((1, 8192, 1, 1, 128), 2)]
        backward = [((1, 4096, 2, 1, 128), 2)]
        for shape, lnc in forward + backward:
            for dtype in (FP32, BF16) if (shape, lnc) in backward else (BF16,):
                with self.subTest(shape=shape, dtype=dtype):
                    batch, length, q_heads, k_heads, dim = shape
                    q, dout = (normal(batch, length, q_heads, dim, dtype=dtype, seed=seed) for seed in (1, 4))
                    k, v = (normal(batch, length, k_heads, dim, dtype=dtype, seed=seed) for seed in (2, 3))
                    exact = [t.double().requires_grad_() for t in (q, k, v)]
                    heads_first = [t.repeat_interleave(q_heads // t.shape[2], 2).transpose(1, 2) for t in exact]
                    out = F.scaled_dot_product_attention(*heads_first, is_causal=True).transpose(1, 2)
                    got = self.kernel("attention", (lnc,), q=q, k=k, v=v)[lnc]
                    self.close(got["out"], out, "attention", dtype)
                    if (shape, lnc) in backward:
                        back = self.kernel("attention_backward", (lnc,), q=q, k=k, v=v, dout=dout, **got)[lnc]
                        for name, expected in zip(("dq", "dk", "dv"), torch.autograd.grad(out, exact, dout.double())):
                            self.close(back[name], expected, "attention", dtype)


if __name__ == "__main__":
    unittest.main(verbosity=2)
