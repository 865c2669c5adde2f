# SPDX-License-Identifier: Apache-2.0
"""torch tensors as arguments, on the CPU and on CUDA."""
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


def test_numpy_and_torch_mix_on_the_cpu():
    import numpy as np
    x, out = torch.arange(10.0), np.zeros(10, np.float32)
    run(x, x, out)
    assert (out == 2 * x.numpy()).all()


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_the_current_stream_is_used():
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


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_mixed_devices_are_refused():
    with pytest.raises(ValueError, match="another device"):
        run(torch.zeros(4, device="cuda"), torch.zeros(4), torch.zeros(4))


@pytest.mark.parametrize("bad", [torch.zeros(4, dtype=torch.complex64), torch.zeros(4, device="meta")])
def test_refused(bad):
    with pytest.raises(TypeError):
        run(bad, torch.zeros(4), torch.zeros(4))


def test_warmup_takes_torch_dtypes():
    kernel = add.warmup(torch.float16, torch.float16, torch.float16, "i32", grid=(1,), target="avx512",
                        BLOCK=64)
    assert "fp16" in kernel.signature
