# SPDX-License-Identifier: Apache-2.0
"""Autotuned kernels with torch's tensors: reset, restored, copied into another process, on the CPU and on CUDA."""
import contextlib

import ml_dtypes  # noqa: F401  with it NumPy has bfloat16, which torch does not give it
import pytest
import torch

import libtile
import libtile.language as tl
from libtile import Config, testing

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def add_up(x, stride, out, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride, mask=i < n, other=0.0)
    tl.store(out + i, tl.load(out + i, mask=i < n) + v, mask=i < n)
    tl.atomic_add(total, v.sum())


def configs(*blocks):
    return [Config({"BLOCK": block}) for block in blocks]


@libtile.autotune(configs(16, 64), ["n"], reset_to_zero=["out"], restore_value=["total"], warmup=1, rep=1, isolate=True)
@libtile.jit
def isolated(x, stride, out, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride, mask=i < n, other=0.0)
    tl.store(out + i, tl.load(out + i, mask=i < n) + v, mask=i < n)
    tl.atomic_add(total, v.sum())


def grid(meta):
    return (libtile.cdiv(meta["n"], meta["BLOCK"]),)


def test_graphs_are_measured_on_gpus():
    if "cuda" in DEVICES:
        x = torch.zeros(1 << 20, device="cuda")
        assert testing.do_bench_cudagraph(lambda: x.add_(1), rep=1) > 0
    else:
        with pytest.raises(libtile.DeviceError, match="do_bench_cudagraph needs a GPU"):
            testing.do_bench_cudagraph(lambda: None)


@pytest.mark.parametrize("device, kind", [("cpu", "here"), ("cpu", "isolated"),
                                          *((device, kind) for device in DEVICES[1:] for kind in ("here", "isolated", "graph"))])
def test_arrays_are_as_after_one_launch(device, kind):
    kernel = isolated
    if kind != "isolated":
        kernel = libtile.autotune(configs(16, 64), ["n"], reset_to_zero=["out"], restore_value=["total"], warmup=1,
                                  rep=1, use_cuda_graph=kind == "graph")(libtile.jit(add_up))
    x = torch.arange(400, dtype=torch.float32, device=device).reshape(100, 4)[:, 1]
    out, total = torch.full((100,), 3.0, device=device), torch.full((1,), 5.0, device=device)
    kernel[grid](x, x.stride(0), out, total, 100)
    assert torch.equal(out, x) and total.item() == 5 + x.sum().item() and kernel.skipped == {}
    kernel[grid](x, x.stride(0), out, total, 100)
    assert torch.equal(out, 2 * x) and list(kernel.cache)[-1][-1].startswith(device)


@pytest.mark.parametrize("device", DEVICES)
def test_times_are_those_of_the_current_stream(device):
    x = torch.zeros(1 << 24, device=device)
    with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext():
        times = testing.do_bench(lambda: x.add_(1), 5, 20, return_mode="all", device=device)
    assert times[0] > 0.005  # 128 MB moved; of another stream there is nothing to time


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.float8_e5m2])
def test_assert_close(dtype):
    x = torch.tensor([1.0, 2.0]).to(dtype)
    testing.assert_close(x, x.float())
    with pytest.raises(AssertionError):
        testing.assert_close(x, x.float() + 1)
    asked = []
    testing.assert_close(x, x.float() + 1, atol=lambda dtype: asked.append(dtype) or 1)
    assert asked == [dtype]


def test_gradients_are_dropped():
    x = torch.ones(3, requires_grad=True)
    testing.do_bench(lambda: (x * 2).sum().backward(), 0, 0, grad_to_none=[x], device="cpu")
    assert torch.equal(x.grad, torch.full((3,), 2.0))
