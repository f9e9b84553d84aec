"""Times each operator against PyTorch's own, forward and forward + backward, in one process.

    python bench/ops.py build/release/lib/libtitan.so [--threads 2] [--runs 15]

Sizes: batch 4 x 512, hidden 256, 16 heads on 8, head dimension 32, feed-forward 768, vocabulary 2,048, float32.
Medians of at least five runs. With one thread CPU time is measured, which other programs disturb least.
"""

import argparse
import ctypes
import time

import torch
import torch.nn.functional as F

BATCH, TOKENS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 4, 512, 256, 16, 8, 32, 768, 2048


def median_ms(fns, runs, clock):
    """Median of each function; they take turns, so that none pays alone for what the allocator learns."""
    times = [[] for _ in fns]
    for _ in range(runs + 2):
        for fn, of_fn in zip(fns, times):
            start = clock()
            fn()
            of_fn.append(clock() - start)
    return [sorted(of_fn[2:])[runs // 2] * 1e3 for of_fn in times]


def with_backward(fn, inputs):
    leaves = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    grad = torch.randn(fn(*leaves).shape)

    def run():
        for leaf in leaves:
            leaf.grad = None
        fn(*leaves).backward(grad)

    return run


def keep_freed_memory():
    """Has the C library keep what is freed: fresh pages would cost whoever runs first a fifth of a matmul."""
    mmap_threshold, trim_threshold = -3, -1
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, 2**31 - 1)


def rotate_half(x):
    return torch.cat([-x[..., HEAD_DIM // 2 :], x[..., : HEAD_DIM // 2]], -1)


def transformers_rms_norm(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def grouped_sdpa(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def cases(titan):
    randn = torch.randn
    positions = torch.arange(TOKENS).repeat(BATCH, 1)
    frequencies = 1.0 / (1e6 ** (torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM))
    cache = titan.rope_cache(positions, frequencies)
    cos, sin = (part.contiguous() for part in cache.unsqueeze(2).split(HEAD_DIM, -1))
    whole = torch.zeros(BATCH, TOKENS, dtype=torch.int32)
    documents = titan.first_keys(positions % 128)
    labels, ids = torch.randint(0, VOCAB, (2, BATCH, TOKENS))
    x, q = randn(BATCH, TOKENS, HIDDEN), randn(BATCH, TOKENS, HEADS, HEAD_DIM)
    k, v = randn(2, BATCH, TOKENS, KV_HEADS, HEAD_DIM)
    scale = HEAD_DIM**-0.5

    def attend(first_key):
        return lambda q, k, v: titan.attention(q, k, v, first_key, scale)[0]

    def norm(x, weight):
        return titan.rms_norm(x, weight, 1e-6)[0]

    def torch_norm(x, weight):
        return F.rms_norm(x, weight.shape, weight, 1e-6)

    def loss(x, weight):
        return titan.linear_cross_entropy(x, weight, labels, float(BATCH * TOKENS), 0, [False, False])[0]

    yield "linear", titan.linear, F.linear, (x, randn(FFN, HIDDEN))
    yield "rms_norm (transformers' formula)", norm, transformers_rms_norm, (x, randn(HIDDEN))
    yield "rms_norm (F.rms_norm)", norm, torch_norm, (x, randn(HIDDEN))
    yield "query norm (F.rms_norm)", norm, torch_norm, (q, randn(HEAD_DIM))
    yield "rope", lambda q, k: torch.cat(titan.rope(q, k, cache, False), 2), lambda q, k: torch.cat(
        [q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin], 2
    ), (q, k)
    yield "swiglu", titan.swiglu, lambda g, u: F.silu(g) * u, (randn(BATCH, TOKENS, FFN), randn(BATCH, TOKENS, FFN))
    yield "attention, causal (SDPA)", attend(whole), grouped_sdpa, (q, k, v)
    yield "attention, documents of 128 (causal SDPA)", attend(documents), grouped_sdpa, (q, k, v)
    yield "linear_cross_entropy", loss, lambda x, w: F.cross_entropy((x @ w.t()).flatten(0, 1), labels.flatten()), (
        x,
        randn(VOCAB, HIDDEN) * 0.02,
    )
    yield "embedding", lambda w: titan.embedding(w, ids, torch.float32), lambda w: F.embedding(ids, w), (
        randn(VOCAB, HIDDEN),
    )


def optimizer(titan, runs, clock):
    layer = [(512, HIDDEN), (256, HIDDEN), (256, HIDDEN), (HIDDEN, 512), (FFN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN)]
    params = [torch.randn(size) for size in [(VOCAB, HIDDEN)] + 8 * layer]
    grads, m, v = ([torch.randn_like(p) for p in params] for _ in range(3))
    v = [x.abs() for x in v]
    peers = [p.clone().requires_grad_() for p in params]
    for peer, grad in zip(peers, grads):
        peer.grad = grad.clone()
    adamw = torch.optim.AdamW(peers, lr=1e-3, fused=True)

    def ours():
        norm = titan.squared_norm(grads).sqrt().item()
        titan.adamw_(params, grads, m, v, 1e-3, 0.9, 0.95, 1e-8, 0.1, 5, min(1.0, 1.0 / norm))

    def theirs():
        torch.nn.utils.clip_grad_norm_(peers, 1.0)
        adamw.step()

    return median_ms((ours, theirs), runs, clock)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libtitan.so")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    torch.ops.load_library(args.library)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    runs = max(5, args.runs)
    row = "{:42s} {:>9} {:>9} {:>6}   {:>9} {:>9} {:>6}"
    print(row.format(f"ms, {args.threads} thread(s)", "forward", "torch", "x", "+backward", "torch", "x"))
    for name, ours, theirs, inputs in cases(torch.ops.titan):
        with torch.no_grad():
            forward = median_ms((lambda: ours(*inputs), lambda: theirs(*inputs)), runs, clock)
        both = median_ms((with_backward(ours, inputs), with_backward(theirs, inputs)), runs, clock)
        numbers = [*forward, forward[1] / forward[0], *both, both[1] / both[0]]
        print(row.format(name, *(f"{number:.2f}" for number in numbers)))
    ours, theirs = optimizer(torch.ops.titan, runs, clock)
    print(row.format("clip + AdamW (fused)", f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}", "", "", ""))


if __name__ == "__main__":
    main()
