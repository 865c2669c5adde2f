# SPDX-License-Identifier: Apache-2.0
"""Lesson 5: layer normalisation, forward and backward.

Each row is shifted to mean 0 and scaled to deviation 1, and both numbers are kept for the way back.
Forward, a row may be longer than a tile: the kernel goes over it in steps of BLOCK and carries a tile
of partial sums through the loop, which it reduces once at the end.

Backward there are two kinds of sums. The gradient of x needs sums along each row, which one program
has in its tile. The gradients of weight and bias are sums over all rows: each program adds up its
share of the rows in two tiles that a loop carries, and a second kernel adds up the shares. That takes
no atomics, so the result is the same to the bit each time. New here: tiles carried by a loop, results
that are scalars, and a reduction over the whole grid.

    python 05_layer_norm.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def layer_norm(x, out, weight, bias, mean_out, rstd_out, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x + cols, mask=cols < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        a = tl.load(x + cols, mask=cols < n, other=0.0).to(tl.float32)
        d = tl.where(cols < n, a - mean, 0.0)
        squares += d * d
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        w = tl.load(weight + cols, mask=mask)
        b = tl.load(bias + cols, mask=mask)
        a = tl.load(x + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + cols, (a - mean) * rstd * w + b, mask=mask)


@libtile.jit
def layer_norm_backward(dout, x, weight, mean_in, rstd_in, dx, dweight_parts, dbias_parts, rows, n,
                        BLOCK: tl.constexpr):
    part = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    w = tl.load(weight + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], dtype=tl.float32)
    dbias = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(part, rows, tl.num_programs(0)):
        g = tl.load(dout + row * n + cols, mask=mask, other=0.0).to(tl.float32)
        a = tl.load(x + row * n + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_in + row)
        normal = tl.where(mask, (a - tl.load(mean_in + row)) * rstd, 0.0)
        gw = g * w
        # The mean and the deviation depend on every x of the row: these are the two ways through them.
        through_mean = tl.sum(gw, axis=0) / n
        through_rstd = tl.sum(gw * normal, axis=0) / n
        tl.store(dx + row * n + cols, (gw - through_mean - normal * through_rstd) * rstd, mask=mask)
        dweight += g * normal
        dbias += g
    tl.store(dweight_parts + part * n + cols, dweight, mask=mask)
    tl.store(dbias_parts + part * n + cols, dbias, mask=mask)


@libtile.jit
def add_parts(dweight_parts, dbias_parts, dweight, dbias, parts, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    w = tl.zeros([BLOCK], dtype=tl.float32)
    b = tl.zeros([BLOCK], dtype=tl.float32)
    for part in range(parts):
        w += tl.load(dweight_parts + part * n + cols, mask=mask, other=0.0)
        b += tl.load(dbias_parts + part * n + cols, mask=mask, other=0.0)
    tl.store(dweight + cols, w, mask=mask)
    tl.store(dbias + cols, b, mask=mask)


def run(x, weight, bias, out, mean, rstd, eps=1e-5, block=None):
    """out = (x - mean) / sqrt(variance + eps) * weight + bias for each row of the 2-D array x."""
    rows, n = x.shape
    block = block or min(libtile.next_power_of_2(n), 16384)
    layer_norm[(rows,)](x, out, weight, bias, mean, rstd, n, n, eps, BLOCK=block)
    return out


def run_backward(dout, x, weight, mean, rstd, dx, dweight_parts, dbias_parts, dweight, dbias):
    """dx, dweight, dbias of a loss whose gradient by `out` is dout; rows fit into one tile.

    dweight_parts, dbias_parts: fp32 arrays of [programs, columns] for sums of shares of the rows.
    """
    (rows, n), parts = x.shape, dweight_parts.shape[0]
    block = libtile.next_power_of_2(n)
    # A loop that carries two rows: with 256 elements to a warp they stay in a GPU's registers.
    layer_norm_backward[(parts,)](dout, x, weight, mean, rstd, dx, dweight_parts, dbias_parts, rows, n, BLOCK=block,
                                  num_warps=min(max(block // 256, 1), 16))
    add_parts[(libtile.cdiv(n, 128),)](dweight_parts, dbias_parts, dweight, dbias, parts, n, BLOCK=128)
    return dx, dweight, dbias


def reference(x, weight, bias, eps=1e-5):
    """In float64, with NumPy: out, mean and 1/deviation."""
    x = x.astype(np.float64)
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + eps)
    out = (x - mean) * rstd * weight.astype(np.float64) + bias.astype(np.float64)
    return out, mean[:, 0], rstd[:, 0]


def reference_backward(dout, x, weight, eps=1e-5):
    """In float64, with NumPy: dx, dweight, dbias."""
    dout, x, weight = (array.astype(np.float64) for array in (dout, x, weight))
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + eps)
    normal = (x - x.mean(axis=1, keepdims=True)) * rstd
    g = dout * weight
    dx = (g - g.mean(axis=1, keepdims=True) - normal * (g * normal).mean(axis=1, keepdims=True)) * rstd
    return dx, (dout * normal).sum(axis=0), dout.sum(axis=0)


def check(device):
    rng = np.random.default_rng(0)
    for rows, n in ((5, 3), (151, 1000), (64, 8192)):
        x, dout = rng.standard_normal((2, rows, n), dtype=np.float32)
        weight, bias = rng.standard_normal((2, n), dtype=np.float32)
        x_, dout_, weight_, bias_ = lesson.place(device, x, dout, weight, bias)
        out, mean, rstd = lesson.place(device, *(lesson.unwritten(shape) for shape in ((rows, n), rows, rows)))
        run(x_, weight_, bias_, out, mean, rstd)
        want, want_mean, want_rstd = reference(x, weight, bias)
        np.testing.assert_allclose(lesson.host(out), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(lesson.host(mean), want_mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(lesson.host(rstd), want_rstd, rtol=1e-5)
        shapes = ((rows, n), (7, n), (7, n), n, n)
        places = lesson.place(device, *(lesson.unwritten(shape) for shape in shapes))
        got = run_backward(dout_, x_, weight_, mean, rstd, *places)
        for name, one, wanted in zip(("dx", "dweight", "dbias"), got, reference_backward(dout, x, weight)):
            # Sums of up to 8,192 terms of about 1.
            np.testing.assert_allclose(lesson.host(one), wanted, rtol=1e-4, atol=1e-4, err_msg=name)
        print(f"{rows} x {n}, forward and backward: right")


def backward_by_numpy(dout, x, weight, mean, rstd):
    normal = (x - mean[:, None]) * rstd[:, None]
    g = dout * weight
    dx = (g - g.mean(axis=1, keepdims=True) - normal * (g * normal).mean(axis=1, keepdims=True)) * rstd[:, None]
    return dx, (dout * normal).sum(axis=0), dout.sum(axis=0)


def backward_by_torch(dout, x, weight, mean, rstd):
    return lesson.torch().ops.aten.native_layer_norm_backward(
        dout, x, (x.shape[1],), mean[:, None], rstd[:, None], weight, weight, [True, True, True])


def measure(columns, provider, device):
    """The way back. It reads x and dout, and writes dx."""
    rng = np.random.default_rng(0)
    rows = 512 if device == "cpu" else 4096
    x, dout = rng.standard_normal((2, rows, columns), dtype=np.float32)
    weight = rng.standard_normal(columns, dtype=np.float32)
    mean, rstd = x.mean(axis=1), 1 / np.sqrt(x.var(axis=1) + 1e-5)
    inputs = lesson.place(device, dout, x, weight, mean, rstd, provider=provider)
    parts = np.empty((2, 8 if device == "cpu" else 264, columns), np.float32)
    outputs = lesson.place(device, np.empty_like(x), *parts, *np.empty((2, columns), np.float32), provider=provider)
    calls = {
        "libtile": lambda: run_backward(*inputs, *outputs),
        "Triton": lambda: lesson.by_triton(__file__).run_backward(*inputs, *outputs),
        "torch": lambda: backward_by_torch(*inputs),
        "NumPy": lambda: backward_by_numpy(*inputs),
    }
    return lesson.rate(calls[provider], 3 * x.nbytes, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "layer norm backward", "columns", [256, 781, 1024, 2048, 4096], "GB/s")
