# SPDX-License-Identifier: Apache-2.0
"""The lessons' and models' kernels on a CPU, beside the faster of torch's operator and what torch.compile makes of it.

`cases()` yields what a Case is made of: name, peer, prepare, timing. Peers write into a given array where torch can; what
they allocate otherwise is theirs. The peer of a tile picked for GPUs is our own tile, that of a first launch is numba's.
"""
import importlib
from types import SimpleNamespace

import numpy as np

import libtile
import libtile.language as tl
import measure
import model_kernels
from fitted import least_in_turns

add = importlib.import_module("01_vector_add")
softmax = importlib.import_module("02_fused_softmax")
matmul = importlib.import_module("03_matmul")
layer_norm = importlib.import_module("05_layer_norm")
attention = importlib.import_module("06_attention")

ELEMENTS = 8 << 20
WIDTHS = (781, 1000, 1024, 1040, 4096, 4097, 16384)
PRODUCT_TILES = ((192, 256, 64), (256, 512, 64), (128, 128, 64), (96, 128, 64))  # rows, columns and depth
ATTENTION_TILES = ((128, 64), (128, 128), (256, 256))  # of queries and keys
BACKWARD_TILES = ((64, 64), (64, 128), (128, 256))
GPU_TILES = ((128, 128, 64), (64, 256, 32))
SIZES = {"512": (512, 512, 512), "1024": (1024, 1024, 1024), "2048": (2048, 2048, 2048), "1000x777x1234": (1000, 777, 1234)}
SHORT = {"rounds": 7, "round_seconds": 0.06}
SLOW = {"rounds": 2, "round_seconds": 0.06}  # a peer that takes seconds where its machine lacks the type's instructions
HEADS, TOKENS = 8, 1024


@libtile.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@libtile.jit
def gelu_of_each(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, gelu(tl.load(x + i, mask=i < n)), mask=i < n)


@libtile.jit
def matmul_bias_gelu(a, b, bias, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        i = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows * K + i[None, :], mask=(rows < M) & (i[None, :] < K), other=0.0)
        y = tl.load(b + i[:, None] * N + cols, mask=(i[:, None] < K) & (cols < N), other=0.0)
        acc = tl.dot(x, y, acc)
    acc = gelu(acc + tl.load(bias + cols, mask=cols < N).to(tl.float32))
    tl.store(c + rows * N + cols, acc.to(c.dtype.element_ty), mask=(rows < M) & (cols < N))


@libtile.jit
def matmul_batch(a, b, c, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = tl.program_id(0) * SIZE * SIZE + i[:, None] * SIZE + i[None, :]
    acc_dtype: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=acc_dtype).to(c.dtype.element_ty))


def _close(out, want, rtol, atol):
    import torch
    torch.testing.assert_close(out.double(), want.double(), rtol=rtol, atol=atol)


def _faster(eager, function, outs, *inputs):
    """torch's operator, or what its compiler makes of the function, writing into `outs`; and which of them it is."""
    import torch
    torch._dynamo.reset()  # what it keeps of other cases is of no use

    @torch.compile(dynamic=False)
    def into(outs, *inputs):
        results = function(*inputs)
        for out, result in zip(outs, results if isinstance(results, tuple) else (results,)):
            out.copy_(result)
    sides = {"eager": eager, "compiled": lambda: into(outs, *inputs)}
    for side in sides.values():
        side()
    taken = {name: min(measure._wall(side, 3) for _ in range(5)) for name, side in sides.items()}
    best = min(taken, key=taken.get)
    return {"peer": sides[best], "more": {"peer_is": best}}


def _softmax(dtype, cols):
    import torch
    x = torch.randn(ELEMENTS // cols, cols).to(dtype)
    out, other = torch.full_like(x, float("nan")), torch.empty_like(x)
    tolerance = 1e-5 if dtype == torch.float32 else 8e-3
    return {"ours": lambda: softmax.run(x, out), "lesson": softmax,
            "check": lambda: _close(out, torch.softmax(x.double(), 1), tolerance, tolerance * 1e-2),
            **_faster(lambda: torch.softmax(x, 1, out=other), lambda x: torch.softmax(x, 1), [other], x)}


def _layer_norm(cols):
    import torch
    x, (weight, bias) = torch.randn(ELEMENTS // cols, cols), torch.randn(2, cols)
    out, (mean, rstd) = torch.full_like(x, float("nan")), torch.empty(2, x.shape[0])

    def function(x, weight, bias):
        return torch.nn.functional.layer_norm(x, (cols,), weight, bias, 1e-5)
    inputs = (x, weight, bias)
    return {"ours": lambda: layer_norm.run(*inputs, out, mean, rstd), "lesson": layer_norm,
            "check": lambda: _close(out, function(*(each.double() for each in inputs)), 1e-4, 1e-4),
            **_faster(lambda: function(*inputs), function, [torch.empty_like(x)], *inputs)}


def layer_norm_gradients(dout, x, mean, rstd, weight):
    """dx, dweight, dbias in float64."""
    normal, g = (x.double() - mean.double()[:, None]) * rstd.double()[:, None], dout.double() * weight.double()
    dx = (g - g.mean(1, keepdim=True) - normal * (g * normal).mean(1, keepdim=True)) * rstd.double()[:, None]
    return dx, (dout.double() * normal).sum(0), dout.double().sum(0)


def _layer_norm_backward(cols):
    import torch
    rows, parts, block = ELEMENTS // cols, 64, libtile.next_power_of_2(cols)
    (dout, x), (weight, dweight, dbias) = torch.randn(2, rows, cols), torch.randn(3, cols)
    mean, rstd = x.mean(1), 1 / torch.sqrt(x.var(1, unbiased=False) + 1e-5)
    dx, sums = torch.full_like(x, float("nan")), torch.empty(2, parts, cols)
    lesson = SimpleNamespace(kernel=layer_norm.layer_norm_backward)

    def ours():
        lesson.kernel[(parts,)](dout, x, weight, mean, rstd, dx, *sums, rows, cols, BLOCK=block)
        layer_norm.add_parts[(-(-cols // 128),)](*sums, dweight, dbias, parts, cols, BLOCK=128)

    def function(dout, x, mean, rstd, weight):
        return torch.ops.aten.native_layer_norm_backward(dout, x, [cols], mean[:, None], rstd[:, None], weight, weight, [True] * 3)
    inputs = (dout, x, mean, rstd, weight)

    def check():
        want, *sums_wanted = layer_norm_gradients(*inputs)
        _close(dx, want, 1e-4, 1e-4)
        for got, want in zip((dweight, dbias), sums_wanted):
            _close(got, want, 1e-4, 1e-2)  # sums of up to 10740 numbers
    others = [torch.empty_like(each) for each in (x, weight, weight)]
    return {"ours": ours, "lesson": lesson, "check": check, **_faster(lambda: function(*inputs), function, others, *inputs)}


def _model(name, cols):
    """A kernel of model_kernels beside torch's function."""
    import torch
    functional = torch.nn.functional
    function = {"rms_norm": lambda x, weight: functional.rms_norm(x, (cols,), weight, model_kernels.EPS),
                "cross_entropy": lambda x, target: functional.cross_entropy(x, target, reduction="none"),
                "swiglu": lambda gate, up: functional.silu(gate) * up}[name]
    ours, check, lesson, inputs, out = model_kernels.prepare_ours("cpu", name, cols, torch.float32, ELEMENTS // cols)
    return {"ours": ours, "lesson": lesson, "check": check,
            **_faster(lambda: function(*inputs), function, [torch.empty_like(out)], *inputs)}


def _gelu():
    import torch
    x = torch.randn(ELEMENTS)
    out, other = torch.full_like(x, float("nan")), torch.empty_like(x)
    lesson, function = SimpleNamespace(kernel=gelu_of_each), torch.nn.functional.gelu
    return {"ours": lambda: lesson.kernel[(-(-ELEMENTS // 4096),)](x, out, ELEMENTS, BLOCK=4096), "lesson": lesson,
            "check": lambda: _close(out, function(x.double()), 1e-5, 1e-6),
            **_faster(lambda: torch.ops.aten.gelu.out(x, out=other), function, [other], x)}


def _matrices(dtype, *shapes):
    import torch
    if dtype == torch.int8:
        return [torch.randint(-128, 128, shape, dtype=dtype) for shape in shapes]
    return [torch.randn(shape).to(dtype) for shape in shapes]


def _results(dtype, *shape):
    import torch
    return [torch.zeros(shape, dtype=torch.int32 if dtype == torch.int8 else dtype) for _ in range(2)]


def _check_product(a, b, out):
    import torch
    unit = torch.finfo(out.dtype).eps if out.dtype.is_floating_point else 0.0
    a, b = a.double(), b.double()
    # Products are exact in f32; sums of k terms and one final rounding are not.
    bound = (a.abs() @ b.abs()) * a.shape[-1] * 2.0**-24 + (a @ b).abs() * unit
    assert ((out.double() - a @ b).abs() <= bound).all()


def _by_best_tile(tiles, run):
    """`ours` of a case, and the tile by which it is: that of the list with which `run(*tile)` takes least."""
    for tile in tiles:  # compiled before it is measured
        run(*tile)
    tile = least_in_turns(tiles, lambda tile: measure._wall(lambda: run(*tile), 1))
    return {"ours": lambda: run(*tile), "more": {"tile": "x".join(map(str, tile))}}


def _matmul(dtype, m, n, k):
    import torch
    (a, b), (out, other) = _matrices(dtype, (m, k), (k, n)), _results(dtype, m, n)
    product = torch._int_mm if dtype == torch.int8 else torch.matmul
    return _by_best_tile(PRODUCT_TILES, lambda *tile: matmul.run(a, b, out, *tile)) | {
        "lesson": matmul, "peer": lambda: product(a, b, out=other), "check": lambda: _check_product(a, b, out)}


def _picked_tile(dtype, size, tile):
    """Beside the best tile of our own."""
    (a, b), (out, other) = _matrices(dtype, (size, size), (size, size)), _results(dtype, size, size)
    best = _by_best_tile(PRODUCT_TILES, lambda *own: matmul.run(a, b, other, *own))
    return {"ours": lambda: matmul.run(a, b, out, *tile), "lesson": matmul, "peer": best["ours"],
            "more": {"peer_tile": best["more"]["tile"]}, "check": lambda: _check_product(a, b, out)}


def _linear(dtype, m, n, k):
    """The weights of a linear layer lie along k."""
    import torch
    (a, weights), (out, other) = _matrices(dtype, (m, k), (n, k)), _results(dtype, m, n)
    product = torch._int_mm if dtype == torch.int8 else torch.matmul

    def run(rows, columns, depth):
        return matmul.matmul[(-(-m // rows) * -(-n // columns),)](a, weights, out, m, n, k, k, 1, 1, k, n, 1, GROUP_M=8,
                                                                 BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=depth)
    return _by_best_tile(PRODUCT_TILES, run) | {"lesson": matmul, "peer": lambda: product(a, weights.t(), out=other),
                                                "check": lambda: _check_product(a, weights.t(), out)}


def _matmul_batch(dtype, count, size):
    import torch
    (a, b), (out, other) = _matrices(dtype, (count, size, size), (count, size, size)), _results(dtype, count, size, size)
    lesson = SimpleNamespace(kernel=matmul_batch)

    def peer():
        if dtype == torch.int8:  # torch has no batches of it
            return [torch._int_mm(x, y, out=z) for x, y, z in zip(a, b, other)]
        return torch.bmm(a, b, out=other)
    return {"ours": lambda: lesson.kernel[(count,)](a, b, out, SIZE=size), "lesson": lesson, "peer": peer,
            "check": lambda: _check_product(a, b, out)}


def _matmul_bias_gelu(dtype, m, n, k):
    import torch
    (a, b, bias), (out, other) = _matrices(dtype, (m, k), (k, n), (n,)), _results(dtype, m, n)
    lesson = SimpleNamespace(kernel=matmul_bias_gelu)

    def run(rows, columns, depth):
        return lesson.kernel[(-(-m // rows), -(-n // columns))](a, b, bias, out, m, n, k, BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=depth)

    def function(a, b, bias):
        return torch.nn.functional.gelu(torch.addmm(bias, a, b))

    def check():
        want = function(a.double(), b.double(), bias.double())
        # gelu's slope is at most 1.13.
        bound = 1.2 * (a.double().abs() @ b.double().abs() + bias.abs()) * k * 2.0**-24 + want.abs() * torch.finfo(dtype).eps
        assert ((out.double() - want).abs() <= bound).all()
    case, peer = _by_best_tile(PRODUCT_TILES, run), _faster(lambda: function(a, b, bias), function, [other], a, b, bias)
    return case | peer | {"more": case["more"] | peer["more"], "lesson": lesson, "check": check}


def _torch_attention(q, k, v, causal):
    import torch
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]


def _attention(dtype, d, causal):
    import torch
    q, k, v, out = (torch.randn(HEADS, TOKENS, d).to(dtype) for _ in range(4))
    lse, unit = torch.empty(HEADS, TOKENS), max(torch.finfo(dtype).eps, 2.0**-20)
    case = _by_best_tile(ATTENTION_TILES, lambda *tile: attention.run(q, k, v, out, lse, causal, *tile))
    out.fill_(float("nan"))
    return case | {"lesson": attention, "peer": lambda: _torch_attention(q, k, v, causal),
                   "check": lambda: _close(out, _torch_attention(q.double(), k.double(), v.double(), causal), 2 * unit, 2 * unit)}


def _attention_backward(d, causal):
    import torch
    q, k, v, dout, out, dq, dk, dv = torch.randn(8, HEADS, TOKENS, d)
    lse, delta = torch.empty(2, HEADS, TOKENS)
    attention.run(q, k, v, out, lse, causal)
    lesson, rows = SimpleNamespace(kernel=attention.attention_backward), HEADS * TOKENS

    def run(queries, keys):
        attention.row_products[(-(-rows // 64),)](out, dout, delta, rows, D=d, BLOCK=64)
        dq.zero_()
        lesson.kernel[(-(-TOKENS // keys), HEADS)](q, k, v, dout, lse, delta, dq, dk, dv, TOKENS, d**-0.5, D=d, BLOCK_M=queries, BLOCK_N=keys,
                                                  CAUSAL=causal)

    def gradients(q, k, v, dout):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        result = _torch_attention(*leaves, causal)
        return lambda: torch.autograd.grad(result, leaves, dout, retain_graph=True)

    def check():
        for got, want in zip((dq, dk, dv), gradients(q.double(), k.double(), v.double(), dout.double())()):
            assert (got.double() - want).norm() / want.norm() < 1e-5
    return _by_best_tile(BACKWARD_TILES, run) | {"lesson": lesson, "peer": gradients(q, k, v, dout), "check": check}


def _launch(of_torch):
    import torch
    x, y, out = arrays = torch.randn(3, 16).unbind()
    # By name, as the peer's: unpacking a list for a call takes a quarter of a launch.
    a, b, c = arrays if of_torch else [array.numpy() for array in arrays]
    return {"ours": lambda: add.add[(1,)](a, b, c, 16, BLOCK=16), "lesson": add, "peer": lambda: torch.add(x, y, out=out),
            "check": lambda: _close(out, x + y, 0, 0)}


def _first_launch(module, loops, *shapes):
    """A lesson's first launch, on small arrays, compiles its kernel; beside it numba's of the same in loops."""
    import numba
    arrays = [np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in shapes]
    mine, theirs = ([array.copy() for array in arrays] for _ in range(2))
    kernel = next(value for value in vars(module).values() if isinstance(value, libtile.JITFunction))

    def ours():
        kernel.clear()
        module.run(*mine)

    def check():
        for each in (mine, theirs):
            each[-1].fill(np.nan)
        ours()
        loops(*theirs)
        np.testing.assert_allclose(mine[-1], theirs[-1], rtol=1e-4, atol=1e-5)
    return {"ours": ours, "lesson": module, "peer": lambda: numba.njit(loops)(*theirs), "check": check}


def _add_loops(x, y, out):
    for i in range(x.size):
        out[i] = x[i] + y[i]


def _softmax_loops(x, out):
    for row in range(x.shape[0]):
        largest = x[row].max()
        total = 0.0
        for i in range(x.shape[1]):
            out[row, i] = np.exp(x[row, i] - largest)
            total += out[row, i]
        for i in range(x.shape[1]):
            out[row, i] /= total


def _matmul_loops(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


def _row_cases():
    """name, prepare and its arguments."""
    import torch
    for dtype, kind in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for cols in WIDTHS:
            yield f"softmax/{kind}/{cols}", _softmax, (dtype, cols)
    for cols in WIDTHS:
        yield f"layer_norm/f32/{cols}", _layer_norm, (cols,)
    for cols in (781, 1024, 4096, 16384):
        yield f"layer_norm_backward/f32/{cols}", _layer_norm_backward, (cols,)
    for name in ("rms_norm", "cross_entropy"):
        for cols in (781, 1024, 4096, 16384):
            yield f"{name}/f32/{cols}", _model, (name, cols)
    yield "swiglu/f32/4096", _model, ("swiglu", 4096)
    yield f"gelu/f32/{ELEMENTS}", _gelu, ()


def _product_cases():
    import torch
    for dtype, kind in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.int8, "int8")):
        for size in SIZES if dtype != torch.float16 else ("1024",):
            yield f"matmul/{kind}/{size}", _matmul, (dtype, *SIZES[size])
        yield f"matmul/{kind}/1024/bt", _linear, (dtype, *SIZES["1024"])
        if dtype != torch.float16:
            yield f"batched/{kind}/64x64x64x64", _matmul_batch, (dtype, 64, 64)
    for size, sizes in SIZES.items():
        yield f"matmul_bias_gelu/f32/{size}", _matmul_bias_gelu, (torch.float32, *sizes)
    for dtype, kind in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for d in (64, 128):
            for causal in (False, True):
                yield f"attention/{kind}/d{d}/{TOKENS}" + "/causal" * causal, _attention, (dtype, d, causal)
    for d in (64, 128):
        for causal in (False, True):
            yield f"attention_backward/f32/d{d}/{TOKENS}" + "/causal" * causal, _attention_backward, (d, causal)


def cases():
    import torch
    for name, prepare, arguments in (*_row_cases(), *_product_cases()):
        slow = name.startswith(("matmul/bf16", "matmul/f16", "matmul/int8"))
        yield name, "torch", lambda prepare=prepare, arguments=arguments: prepare(*arguments), SLOW if slow else SHORT
    for tile in GPU_TILES:
        for dtype, kind in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            name = f"tiles_of_{'x'.join(map(str, tile))}/{kind}/1024"
            yield name, "tile", lambda dtype=dtype, tile=tile: _picked_tile(dtype, 1024, tile), SHORT
    for of_torch in (False, True):
        yield f"launch_{'torch' if of_torch else 'numpy'}/f32/16", "torch", lambda of_torch=of_torch: _launch(of_torch), SHORT
    for name, module, loops, shapes in (("add", add, _add_loops, [(64,)] * 3), ("softmax", softmax, _softmax_loops, [(4, 100)] * 2),
                                        ("matmul", matmul, _matmul_loops, [(64, 64)] * 3)):
        yield (f"first_launch_{name}/f32/{shapes[0][-1]}", "numba",
               lambda module=module, loops=loops, shapes=shapes: _first_launch(module, loops, *shapes), SHORT)
