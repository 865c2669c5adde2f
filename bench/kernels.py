# SPDX-License-Identifier: Apache-2.0
"""The kernels that are measured: the tutorials' own, with their data, peer and check.

`cases(device)` yields Case objects. A case makes its arrays when `prepare()` is called, so that only
one holds memory at a time. Peers are torch's operators (`torch`; on a CPU also
what torch.compile makes of them), cuBLAS through torch (`cublas`), a device copy (`copy`), Triton running the same source
(`triton`), numba (`numba`) or our own tile (`tile`).
"""
import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Callable

import libtile
import model_kernels
import row_kernels

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tutorials"))
add = importlib.import_module("01_vector_add")
softmax = importlib.import_module("02_fused_softmax")
layer_norm = importlib.import_module("05_layer_norm")
matmul = importlib.import_module("03_matmul")
attention_kernels = importlib.import_module("attention_kernels")  # these take lessons from there too
product_kernels = importlib.import_module("product_kernels")
grouped_kernels = importlib.import_module("grouped_kernels")
cpu_kernels = importlib.import_module("cpu_kernels")
configuration_kernels = importlib.import_module("configuration_kernels")


@dataclass
class Prepared:
    ours: Callable
    peer: Callable
    check: Callable  # raises AssertionError when ours' last result is wrong
    lesson: object   # the tutorial, whose kernel says the path that it took
    config: object = None  # that the tuner chose
    more: dict = field(default_factory=dict)  # of the row


@dataclass
class Case:
    name: str        # device/kernel/dtype/size
    peer: str
    prepare: Callable
    timing: dict = field(default_factory=dict)  # rounds and round_seconds, where not the usual ones
    given: bool = False  # the configuration, not found by a tuner: it may ask for more than there is room for


def _close(out, want, rtol, atol):
    import torch
    torch.testing.assert_close(out.double(), want.double(), rtol=rtol, atol=atol)


def _add(device, n):
    import torch

    def prepare():
        x, y = (torch.randn(n, device=device) for _ in range(2))
        out, other = torch.empty_like(x), torch.empty_like(x)
        block = 4096
        return Prepared(lambda: add.run(x, y, out, block), lambda: torch.add(x, y, out=other),
                        lambda: _close(out, x + y, 0, 0), add)
    return prepare


def _softmax(device, dtype, rows, cols):
    import torch

    def prepare():
        x = torch.randn(rows, cols, device=device, dtype=dtype)
        out, other = torch.empty_like(x), torch.empty_like(x)
        tolerance = 1e-5 if dtype == torch.float32 else 2e-3

        def check():
            part = slice(0, min(rows, 4096))
            _close(out[part], torch.softmax(x[part].double(), 1), tolerance, tolerance * 1e-2)
        return Prepared(lambda: softmax.run(x, out), lambda: other.copy_(x), check, softmax)
    return prepare


def _layer_norm(device, dtype, rows, cols, peer):
    import torch

    def prepare():
        x = torch.randn(rows, cols, device=device, dtype=dtype)
        weight, bias = (torch.randn(cols, device=device, dtype=dtype) for _ in range(2))
        out, other = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = (torch.empty(rows, device=device) for _ in range(2))
        theirs = {"triton": lambda: _triton_layer_norm(x, weight, bias, mean, rstd),
                  "copy": lambda: lambda: other.copy_(x),
                  "copy kernel": lambda: lambda: row_kernels.copy[(rows,)](x, other, cols, BLOCK=libtile.next_power_of_2(cols))}[peer]()

        def check():
            want = torch.nn.functional.layer_norm(x.double(), (cols,), weight.double(),
                                                  bias.double(), 1e-5)
            tolerance = 1e-4 if dtype == torch.float32 else 1e-2
            _close(out, want, tolerance, tolerance)
        return Prepared(lambda: layer_norm.run(x, weight, bias, out, mean, rstd), theirs, check,
                        layer_norm)
    return prepare


def _triton_layer_norm(x, weight, bias, mean, rstd):
    """The tutorial's own source, compiled by Triton."""
    import triton
    import torch
    kernel = triton_twin(layer_norm.layer_norm)
    out = torch.empty_like(x)
    rows, n = x.shape
    block = min(triton.next_power_of_2(n), 16384)
    warps = min(max(block // 256, 1), 8)
    return lambda: kernel[(rows,)](x, out, weight, bias, mean, rstd, n, n, 1e-5, BLOCK=block,
                                   num_warps=warps)


def _layer_norm_backward(cols):
    import torch
    rows, parts = 4096, 264

    def prepare():
        dout, x = (torch.randn(rows, cols, device="cuda") for _ in range(2))
        weight, mean, rstd = torch.randn(cols, device="cuda"), x.mean(1), 1 / torch.sqrt(x.var(1, unbiased=False) + 1e-5)
        dx, other = torch.empty_like(x), torch.empty_like(x)
        sums, others = torch.empty(2, parts, cols, device="cuda"), torch.empty(2, parts, cols, device="cuda")
        options = {"BLOCK": libtile.next_power_of_2(cols), "num_warps": min(max(cols // 256, 1), 16)}
        lesson, theirs = SimpleNamespace(kernel=layer_norm.layer_norm_backward), triton_twin(layer_norm.layer_norm_backward)

        def launch(kernel, to, sums):
            return kernel[(parts,)](dout, x, weight, mean, rstd, to, *sums, rows, cols, **options)

        def check():
            want, *sums_wanted = cpu_kernels.layer_norm_gradients(dout, x, mean, rstd, weight)
            _close(dx, want, 1e-4, 1e-4)
            _close(sums.double().sum(1), torch.stack(sums_wanted), 1e-4, 1e-3)
        return Prepared(lambda: launch(lesson.kernel, dx, sums), lambda: launch(theirs, other, others), check, lesson)
    return prepare


def triton_twin(function):
    """The jit function's source as a Triton kernel, from a file of its own (Triton reads files)."""
    import inspect
    import tempfile
    source = inspect.getsource(function.fn).replace("@libtile.jit", "@triton.jit")
    folder = Path(tempfile.mkdtemp(prefix="triton_twin_"))
    (folder / "twin.py").write_text("import triton\nimport triton.language as tl\n\n" + source)
    spec = importlib.util.spec_from_file_location("twin", folder / "twin.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function.fn.__name__)


def _rows(device):
    import torch
    for name in row_kernels.ROWS:
        for cols in (1024, 32768):
            for peer in ("torch", "triton")[:2 if device == "cuda" else 1]:
                twin = triton_twin if peer == "triton" else None
                yield Case(f"{device}/{name}/{row_kernels.TYPES.get(name, 'f32')}/{cols}" + ("/triton" if twin else ""), peer,
                           lambda name=name, cols=cols, twin=twin:
                           Prepared(*row_kernels.prepare(device, name, cols, twin)))
    f32, bf16, fp8 = torch.float32, torch.bfloat16, torch.float8_e4m3fn
    for source, result, what in ((f32, bf16, "f32_bf16"), (bf16, fp8, "bf16_fp8"), (fp8, bf16, "fp8_bf16")):
        n = 1 << (28 if device == "cuda" else 24)
        yield Case(f"{device}/cast/{what}/{n}", "copy",
                   lambda source=source, result=result, n=n: Prepared(*row_kernels.prepare_cast(device, source, result, n)))
    if device == "cuda":
        for name, what in (("count", "i32/65536"), ("scatter_add", "f32/1048576")):
            yield Case(f"cuda/{name}/{what}", "triton",
                       lambda name=name: Prepared(*row_kernels.prepare_atomic(device, name, triton_twin)))


def cases(device):
    import torch
    yield from _rows(device)
    f32, f16 = torch.float32, torch.float16
    if device == "cpu":
        yield Case("cpu/add/f32/16777216", "torch", _add(device, 1 << 24))
        for name, peer, prepare, timing in cpu_kernels.cases():
            yield Case(f"cpu/{name}", peer, lambda prepare=prepare: Prepared(**prepare()), timing)
        return
    yield Case(f"cuda/add/f32/{1 << 28}", "torch", _add(device, 1 << 28))
    for dtype, name in ((f16, "f16"), (f32, "f32")):
        for cols in (781, 1024, 4096, 12672, 32768):
            rows = (2 << 30) // (cols * dtype.itemsize)
            yield Case(f"cuda/softmax/{name}/{cols}", "copy",
                       _softmax(device, dtype, rows, cols))
    for cols in (1024, 4096, 8192, 16384):
        yield Case(f"cuda/layer_norm/f16/{cols}", "triton",
                   _layer_norm(device, f16, 4096, cols, "triton"))
        for peer in ("copy", "copy kernel"):
            yield Case(f"cuda/layer_norm/f16/{cols}/{peer.replace(' ', '_')}", peer, _layer_norm(device, f16, 4096, cols, peer))
        if cols <= 8192:  # a row is a tile
            yield Case(f"cuda/layer_norm_backward/f32/{cols}", "triton", _layer_norm_backward(cols))
    for name, (_, sizes, *_) in model_kernels.ROWS.items():
        for size in sizes:
            yield Case(f"cuda/{name}/bf16/{size}", "triton",
                       lambda name=name, size=size: Prepared(*model_kernels.prepare(name, size, triton_twin)))
    for name, arguments in product_kernels.cases():
        yield Case(f"cuda/{name}", "triton" if name.endswith("/triton") else "cublas",
                   lambda arguments=arguments: Prepared(*product_kernels.prepare(*arguments, twin=triton_twin)))
    for name, arguments in grouped_kernels.cases():
        yield Case(f"cuda/{name}", "torch", lambda arguments=arguments: Prepared(*grouped_kernels.prepare(*arguments, triton_twin)))
    for name, arguments in configuration_kernels.cases():
        yield Case(f"cuda/{name}", "triton",
                   lambda arguments=arguments: Prepared(*configuration_kernels.prepare(*arguments, triton_twin)),
                   {"rounds": 5, "round_seconds": 0.03}, given=True)
    for name, peer, arguments in attention_kernels.cases():
        backward = name.startswith("attention_backward")
        yield Case(f"cuda/{name}", peer, lambda arguments=arguments, backward=backward: Prepared(*(
            attention_kernels.prepare_backward(*arguments) if backward else attention_kernels.prepare(*arguments, twin=triton_twin))))
