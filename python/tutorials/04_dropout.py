# SPDX-License-Identifier: Apache-2.0
"""Lesson 4: dropout that stores no mask.

The way back through dropout drops the same elements, and a seed is enough to know which ones. Dropout
sets a share p of the elements to zero and multiplies the others by 1 / (1 - p). A stored mask costs a
byte for each element, written once and read once. But `tl.rand(seed, i)` is a function of its two
arguments and of nothing else: the same seed and index give the same number, in any program, on any
device. So the mask is computed twice, and stored never. New here: random numbers.

    python 04_dropout.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a = tl.load(x + i, mask=mask)
    # Uniform in [0, 1): it is at least p with probability 1 - p.
    keep = tl.rand(seed, i) >= p
    tl.store(out + i, tl.where(keep, a / (1 - p), 0.0), mask=mask)


def run(x, out, p, seed, block=1024):
    """out = x with a share p of its elements dropped. The gradient: the same with dout in place of x."""
    n = x.shape[0]
    dropout[(libtile.cdiv(n, block),)](x, out, n, p, seed, BLOCK=block)
    return out


def check(device):
    rng = np.random.default_rng(0)
    n, p = 100_003, 0.3
    x = 1 + rng.random(n, dtype=np.float32)  # no zero of its own
    gradient = 1 + rng.random(n, dtype=np.float32)
    outs = {}
    for seed in (1, 2):
        out = outs[seed] = lesson.host(run(*lesson.place(device, x, lesson.unwritten(n)), p, seed))
        kept = out != 0
        # Of n independent choices the share is off by four standard deviations once in 16,000 seeds.
        assert abs(kept.mean() - (1 - p)) <= 4 * np.sqrt(p * (1 - p) / n)
        np.testing.assert_allclose(out[kept], x[kept].astype(np.float64) / (1 - np.float32(p)), rtol=3e-7)
        back = lesson.host(run(*lesson.place(device, gradient, lesson.unwritten(n)), p, seed, block=256))
        np.testing.assert_array_equal(back != 0, kept)
        print(f"seed {seed}: {kept.mean():.3f} kept, and the same ones on the way back: right")
    both = ((outs[1] != 0) & (outs[2] != 0)).mean()
    assert abs(both - (1 - p) ** 2) < 0.01, "two seeds have nothing to do with each other"


def dropout_by_numpy(x, p):
    keep = np.random.default_rng().random(x.size, dtype=np.float32) >= p
    return np.where(keep, x / np.float32(1 - p), np.float32(0))


def measure(n, provider, device):
    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    x, out = lesson.place(device, x, np.empty_like(x), provider=provider)
    calls = {
        "libtile": lambda: run(x, out, 0.5, 123),
        "Triton": lambda: lesson.by_triton(__file__).run(x, out, 0.5, 123),
        "torch": lambda: lesson.torch().nn.functional.dropout(x, 0.5),
        "NumPy": lambda: dropout_by_numpy(x, 0.5),
    }
    return lesson.rate(calls[provider], 2 * x.nbytes, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "dropout", "n", [2**k for k in range(14, 23, 2)], "GB/s")
