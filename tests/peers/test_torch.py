# SPDX-License-Identifier: Apache-2.0
"""torch tensors as arguments, on the CPU and on CUDA."""
import numpy as np
import pytest
import torch

import libtile
import libtile.language as tl

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
          torch.int64, torch.uint8]


@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def random(n, dtype, device):
    if dtype.is_floating_point:
        return torch.randn(n, device=device).to(dtype)
    return torch.randint(-100, 100, (n,), device=device).to(dtype)


def run(x, y, out, block=256):
    n = x.numel()
    return add[(libtile.cdiv(n, block),)](x, y, out, n, BLOCK=block)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 1000, 100_003])
def test_add(device, dtype, n):
    x, y = random(n, dtype, device), random(n, dtype, device)
    out = torch.zeros_like(x)
    run(x, y, out)
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("device", DEVICES)
def test_views_share_their_storage(device):
    """In place, and shifted by less than a tile, where the whole is one program."""
    x = torch.arange(100.0, device=device)
    run(x, x, x)
    assert torch.equal(x, 2 * torch.arange(100.0, device=device))
    x = torch.arange(101.0, device=device)
    want = torch.cat([x[:1], x[:100] + 1])
    run(x[:100], torch.ones(100, device=device), x[1:])
    assert torch.equal(x, want)


@libtile.jit(check=True)
def copy_at(x, out, at, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + at + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("view, low, high", [
    (lambda x: x, 0, 99), (lambda x: x[40:50], -40, 59), (lambda x: x.view(10, 10).T[3:], -3, 96),
    (lambda x: x[::7], 0, 99), (lambda x: x[40:50].numpy(), -40, 59)])
def test_checked_launches_reach_all_of_a_storage(view, low, high):
    x, out = view(torch.arange(100.0)), torch.zeros(64)
    for at in (low, high):
        copy_at[(1,)](x, out, at, 1, BLOCK=64)
        assert out[0] == at - low
    for at in (low - 1, high + 1):
        with pytest.raises(libtile.OutOfBoundsError, match=rf"x\[{at}\] is out of bounds: x holds {low} .. {high};"):
            copy_at[(1,)](x, out, at, 1, BLOCK=64)
    with pytest.raises(libtile.OutOfBoundsError, match="x holds nothing"):
        copy_at[(1,)](torch.zeros(0), out, 0, 1, BLOCK=64)


WINDOWS = {
    "torch": lambda a: (torch.from_numpy(a[:100]), torch.from_numpy(a[1:])),
    "numpy_first": lambda a: (a[:100], torch.from_numpy(a[1:])),
    "numpy_second": lambda a: (torch.from_numpy(a[:100]), a[1:]),
    "dlpack": lambda a: (torch.from_dlpack(a[:100]), torch.from_numpy(a)[1:]),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_storages_that_share_memory(kind):
    """Two storages over one NumPy array: neither knows of the other."""
    a = np.arange(101, dtype=np.float32)
    want = np.concatenate([a[:1], a[:100] + 1])
    x, out = WINDOWS[kind](a)
    add[(1,)](x, torch.ones(100), out, 100, BLOCK=256)
    np.testing.assert_array_equal(a, want)


def test_numpy_and_torch_mix_on_the_cpu():
    x, out = torch.arange(10.0), np.zeros(10, np.float32)
    run(x, x, out)
    assert (out == 2 * x.numpy()).all()


def lacks_cuda():
    """Without a GPU, asking for one is the error; else False."""
    if "cuda" in DEVICES:
        return False
    with pytest.raises(libtile.DeviceError, match="cuda"):
        libtile.to_device([1.0], "cuda")
    return True


def test_the_current_stream_is_used():
    if lacks_cuda():
        return
    stream = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    y = torch.ones_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(1)
        run(x, y, x)  # only right behind the two on the same stream
    stream.synchronize()
    assert (x == 2).all()


def test_mixed_devices_are_refused():
    if lacks_cuda():
        return
    with pytest.raises(ValueError, match="another device"):
        run(torch.zeros(4, device="cuda"), torch.zeros(4), torch.zeros(4))


# ---- sorts of tensors

class Subclass(torch.Tensor):
    pass


class WithoutExchange(torch.Tensor):
    """As torch before DLPack's C functions: read by its methods."""
    __dlpack_c_exchange_api__ = None


SORTS = {
    "requires_grad": lambda t: t.clone().requires_grad_(),
    "parameter": torch.nn.Parameter,
    "subclass": lambda t: t.as_subclass(Subclass),
    "methods": lambda t: t.as_subclass(WithoutExchange),
    "no_unit_stride": lambda t: torch.stack([t, t], 1).flatten()[::2],
    "one_element_axes": lambda t: t[None, :, None],
    "offset": lambda t: torch.cat([torch.zeros(5, dtype=t.dtype, device=t.device), t])[5:],
    "resolved": lambda t: torch.complex(t, t).conj().imag.resolve_neg().neg(),
}


@libtile.jit
def strided_add(x, y, out, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sum = tl.load(x + i * stride, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(out + i, sum, mask=i < n)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("n", [1, 777])
def test_sorts_of_tensors(device, sort, n):
    values, y = random(n, torch.float32, device), random(n, torch.float32, device)
    x, out = SORTS[sort](values), torch.zeros(n, device=device)
    strided_add[(libtile.cdiv(n, 256),)](x, y, out, n, 2 if sort == "no_unit_stride" else 1, BLOCK=256)
    assert torch.equal(out, values + y)


def test_scalars_and_empty_tensors():
    out = torch.zeros(())
    run(torch.tensor(2.0), torch.tensor(3.0), out)
    assert out.item() == 5
    run(torch.zeros(0), torch.zeros(0), torch.zeros(0))


@libtile.jit
def fibonacci(first, second, n):
    """second[i] = first[i] + first[i + 1], where second may be first + 2: each sum needs the ones before."""
    for i in range(n):
        tl.store(second + i, tl.load(first + i) + tl.load(first + i + 1))


@libtile.jit
def take(first, second, out, reach, n, BLOCK: tl.constexpr):
    """Copies the row `reach` elements from `first` to `out`, after which `second`, the same row, becomes 0."""
    i = tl.arange(0, BLOCK)
    old = tl.load(first + reach + i, mask=i < n)
    tl.store(second + i, i * 0.0, mask=i < n)
    tl.store(out + i, old, mask=i < n)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_view_reaches_its_whole_storage(device, mode):
    with mode():
        x = torch.ones(32, device=device)
        fibonacci[(1,)](x[:2], x[2:], 30)
        want = [1.0, 1.0]
        while len(want) < 32:
            want.append(want[-2] + want[-1])
        assert x.tolist() == want
        for near, far in ((0, 1), (1, 0)):
            rows, out = torch.arange(20.0, device=device).reshape(2, 10), torch.zeros(10, device=device)
            take[(1,)](rows[near], rows[far], out, 10 * (far - near), 10, BLOCK=16)
            assert out.tolist() == list(range(10 * far, 10 * far + 10)) and (rows[far] == 0).all()


def fake():
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        return torch.zeros(4)


class Wrapper(torch.Tensor):
    """A tensor without memory of its own."""
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


REFUSED = {
    "complex": (lambda: torch.zeros(4, dtype=torch.complex64), "complex64"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.qint8), "qint8"),
    "meta": (lambda: torch.zeros(4, device="meta"), "neither on the CPU nor on a GPU of NVIDIA's or AMD's"),
    "fake": (fake, "no memory of its own"),
    "wrapper": (lambda: Wrapper(torch.zeros(4)), "no memory of its own"),
    "negated": (lambda: torch.zeros(4, dtype=torch.complex64).conj().imag, "negated view"),
    "negated_one": (lambda: torch.zeros(1, dtype=torch.complex64).conj().imag, "negated view"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("place", [0, 2])
def test_refused(what, place):
    make, message = REFUSED[what]
    arguments = [torch.zeros(4), torch.zeros(4), torch.zeros(4)]
    arguments[place] = make()
    with pytest.raises(TypeError, match=f"'{'x' if place == 0 else 'out'}'.*{message}"):
        add[(1,)](*arguments, 4, BLOCK=16)


def test_sparse_tensors_are_refused():
    with pytest.raises(RuntimeError, match="storage"):
        add[(1,)](torch.eye(4).to_sparse(), torch.zeros(4), torch.zeros(4), 4, BLOCK=16)


def test_warmup_takes_torch_dtypes():
    kernel = add.warmup(torch.float16, torch.float16, torch.float16, "i32", grid=(1,), target="avx512",
                        BLOCK=64)
    assert "fp16" in kernel.signature
