# SPDX-License-Identifier: Apache-2.0
"""The lessons' kernels on torch tensors, against torch in float64; strided views; DLPack alone."""
import importlib
import sys
from pathlib import Path

import pytest
import torch

import libtile
import libtile.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tutorials"))
add = importlib.import_module("01_vector_add")
softmax = importlib.import_module("02_fused_softmax")
layer_norm = importlib.import_module("05_layer_norm")
matmul = importlib.import_module("03_matmul")
search = importlib.import_module("13_semantic_search")
minilm = importlib.import_module("minilm")

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
on_each_device = pytest.mark.parametrize("device", DEVICES)
in_each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def rounding(dtype):
    """Half a unit in the last place of 1."""
    return torch.finfo(dtype).eps / 2


def assert_near(out, want, bound):
    assert ((out.double() - want).abs() <= bound).all(), (out.double() - want).abs().max()


@on_each_device
@in_each_float
@pytest.mark.parametrize("shape", [(1, 1), (37, 781), (5, 4096)])
def test_softmax(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    out = softmax.run(x, torch.full_like(x, float("nan")))
    want = torch.softmax(x.double(), 1)
    # In float32 inside, then one rounding; half of float16's smallest number where results vanish.
    assert_near(out, want, want * (1e-5 + 2 * rounding(dtype)) + 2.0**-24)


@on_each_device
@in_each_float
@pytest.mark.parametrize("shape", [(3, 7), (11, 1000), (2, 20_000)])
def test_layer_norm(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    weight, bias = (torch.randn(shape[1], device=device).to(dtype) for _ in range(2))
    mean, rstd = (torch.empty(shape[0], device=device) for _ in range(2))
    out = layer_norm.run(x, weight, bias, torch.full_like(x, float("nan")), mean, rstd)
    want = torch.nn.functional.layer_norm(x.double(), shape[1:], weight.double(), bias.double(), 1e-5)
    assert_near(out, want, 1e-4 * (1 + want.abs()) + 2 * rounding(dtype) * want.abs())


@on_each_device
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8], ids=str)
@pytest.mark.parametrize("size", [(64, 64, 64), (100, 37, 250), (33, 129, 65)])
def test_matmul(device, dtype, size):
    m, n, k = size
    if dtype == torch.int8:
        a, b = (torch.randint(-128, 128, shape, device=device, dtype=dtype) for shape in ((m, k), (k, n)))
        out = matmul.run(a, b, torch.zeros(m, n, device=device, dtype=torch.int32), 64, 64, 32)
        assert torch.equal(out.double(), a.double() @ b.double())
        return
    a, b = (torch.randn(shape, device=device).to(dtype) for shape in ((m, k), (k, n)))
    out = matmul.run(a, b, torch.full((m, n), float("nan"), device=device, dtype=dtype), 64, 64, 32)
    want = a.double() @ b.double()
    absolute = a.double().abs() @ b.double().abs()
    # tensor cores round float32 to tf32: 11 bits of each factor
    inputs = 2.0**-10 if dtype == torch.float32 and device == "cuda" else 0.0
    assert_near(out, want, absolute * (k * 2.0**-24 + inputs) + 2 * rounding(dtype) * want.abs())


@libtile.jit
def scale(x, out, rows, cols, x_row, x_col, out_row, out_col, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    a = tl.load(x + r * x_row + c * x_col, mask=c < cols)
    tl.store(out + r * out_row + c * out_col, a * 2, mask=c < cols)


@on_each_device
@pytest.mark.parametrize("view", [
    lambda t: t.T, lambda t: t[1:, 3:], lambda t: t[::2, ::3], lambda t: t[:, 5:6].expand(-1, 9)],
    ids=["transposed", "offset", "steps", "expanded"])
def test_strided_views(device, view):
    x = view(torch.randn(20, 33, device=device))
    memory = torch.zeros(x.shape[1], x.shape[0], device=device)
    out = memory.T
    scale[(x.shape[0],)](x, out, *x.shape, *x.stride(), *out.stride(), BLOCK=64)
    assert torch.equal(out, x * 2)


class OnlyDLPack:
    """An array of which nothing but the protocol is known."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32,
                                   torch.int64], ids=str)
def test_dlpack(device, dtype):
    x = torch.arange(-50, 50, device=device).to(dtype)
    out = torch.zeros_like(x)
    add.add[(1,)](OnlyDLPack(x), OnlyDLPack(x[:]), OnlyDLPack(out), 100, BLOCK=128)
    assert torch.equal(out, x + x)


def test_dlpack_gives_its_capsules_back():
    """The tensors die once nothing but the launch had them."""
    import weakref
    x = torch.ones(10)
    ref = weakref.ref(x)
    add.add[(1,)](OnlyDLPack(x), OnlyDLPack(x), OnlyDLPack(torch.zeros(10)), 10, BLOCK=16)
    del x
    assert ref() is None


@on_each_device
def test_a_whole_model_and_its_peer(device):
    weights = minilm.small()
    tokens = [minilm.random_tokens(length) for length in (1, 15, 16, 17, 40)]
    want = torch.from_numpy(minilm.by_numpy(weights, tokens))
    theirs = minilm.by_torch(weights, device, torch.float64)(*minilm.padded(tokens, device))
    assert_near(theirs.cpu(), want, 1e-6)  # its last steps are in float32
    ours = torch.from_numpy(search.Model(weights, device).embeddings(tokens))
    assert_near(ours, want, 1e-5 if device == "cpu" else 5e-3)
