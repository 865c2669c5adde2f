# SPDX-License-Identifier: Apache-2.0
"""Lessons in one configuration beside Triton in the same one: those of lesson 3's list, and tiles by 1 to 16 warps.

A row has the bytes of our PTX too. Both sides' results are compared with each other. Where Triton finds no room for a
configuration, the row has no ratio. `prepare` gives what is measured (kernels.Prepared's fields).

    python bench/configuration_kernels.py PART PARTS    compiles Triton's kernels of a part of the rows, into its cache
"""
import importlib
import itertools
import sys
from types import SimpleNamespace

matmul = importlib.import_module("03_matmul")
softmax = importlib.import_module("02_fused_softmax")
layer_norm = importlib.import_module("05_layer_norm")
attention = importlib.import_module("06_attention")

LARGEST_PTX = 200_000  # bytes
WARPS = (1, 2, 4, 8, 16)
SIZE = 4096  # of matrices, and of rows
TOKENS = 1 << 16  # heads times tokens


def _matmul(torch):
    a, b = (torch.randn(SIZE, SIZE, device="cuda").half() for _ in range(2))
    c = torch.empty_like(a)

    def launch(kernel, **options):
        grid = lambda meta: (-(-SIZE // meta["BLOCK_M"]) * -(-SIZE // meta["BLOCK_N"]),)
        return kernel[grid](a, b, c, SIZE, SIZE, SIZE, SIZE, 1, SIZE, 1, SIZE, 1, **options)
    return launch, (c,)


def _softmax(torch):
    x = torch.randn(SIZE, SIZE, device="cuda")
    out = torch.empty_like(x)
    return lambda kernel, **options: kernel[(SIZE,)](out, x, SIZE, SIZE, SIZE, SIZE, **options), (out,)


def _layer_norm(torch):
    x, out = (torch.randn(SIZE, SIZE, device="cuda").half() for _ in range(2))
    weight, bias = (torch.randn(SIZE, device="cuda").half() for _ in range(2))
    mean, rstd = (torch.empty(SIZE, device="cuda") for _ in range(2))
    return lambda kernel, **options: kernel[(SIZE,)](x, out, weight, bias, mean, rstd, SIZE, SIZE, 1e-5, **options), (out, mean)


def _layer_norm_backward(torch):
    dout, x = (torch.randn(SIZE, SIZE, device="cuda") for _ in range(2))
    weight, mean = (torch.randn(SIZE, device="cuda") for _ in range(2))
    rstd, dx, parts = torch.ones(SIZE, device="cuda"), torch.empty_like(x), torch.empty(2, 264, SIZE, device="cuda")
    return (lambda kernel, **options: kernel[(264,)](dout, x, weight, mean, rstd, dx, *parts, SIZE, SIZE, **options)), (dx, parts)


def _heads(torch, d, arrays):
    return [torch.randn(TOKENS // SIZE, SIZE, d, device="cuda").half() for _ in range(arrays)]


def _attention(torch, d, causal):
    q, k, v, out = _heads(torch, d, 4)
    lse = torch.empty(q.shape[:2], device="cuda")
    return (lambda kernel, **options: kernel[lambda meta: (-(-SIZE // meta["BLOCK_M"]), q.shape[0])](
        q, k, v, out, lse, SIZE, d**-0.5, D=d, CAUSAL=causal, **options)), (out, lse)


def _attention_backward(torch, d, causal):
    q, k, v, dout, dk, dv = _heads(torch, d, 6)
    lse, delta, dq = torch.full(q.shape[:2], 16.0, device="cuda"), torch.zeros(q.shape[:2], device="cuda"), torch.empty(q.shape, device="cuda")
    return (lambda kernel, **options: kernel[lambda meta: (-(-SIZE // meta["BLOCK_N"]), q.shape[0])](
        q, k, v, dout, lse, delta, dq, dk, dv, SIZE, d**-0.5, D=d, CAUSAL=causal, **options)), (dk, dv)


def _cases():
    """(name, kernel, what makes (launch, results), its arguments, configurations)."""
    listed = [config for config in matmul.CONFIGS if config.kwargs["BLOCK_M"] != 192]  # Triton takes powers of two alone
    yield "list/matmul", matmul.matmul, _matmul, (), [config.all_kwargs() for config in listed]
    blocks = list({tuple(config.kwargs.items()): config.kwargs for config in listed}.values())
    yield "warps/matmul", matmul.matmul, _matmul, (), _by_warps(blocks)
    rows = [{"BLOCK": SIZE}]
    for kernel, make in ((softmax.softmax, _softmax), (layer_norm.layer_norm, _layer_norm),
                         (layer_norm.layer_norm_backward, _layer_norm_backward)):
        yield f"warps/{kernel.fn.__name__}", kernel, make, (), _by_warps(rows)
    tiles = [{"BLOCK_M": m, "BLOCK_N": n} for m, n in itertools.product((64, 128), (64, 128))]
    for d, causal in itertools.product((64, 128), (False, True)):
        what = f"d{d}" + "/causal" * causal
        yield f"warps/attention/{what}", attention.attention, _attention, (d, causal), _by_warps(tiles)
        yield f"warps/attention_backward/{what}", attention.attention_backward, _attention_backward, (d, causal), _by_warps(tiles[:1])


def _by_warps(blocks):
    return [{**block, "num_warps": warps, "num_stages": 3} for block in blocks for warps in WARPS]


def cases():
    """(name, arguments of prepare)."""
    for name, kernel, make, arguments, configs in _cases():
        for config in configs:
            sizes = "x".join(str(value) for key, value in config.items() if key.startswith(("BLOCK", "num_")) and key != "num_ctas")
            yield f"configuration/{name}/{sizes}", (kernel, make, arguments, config)


def prepare(kernel, make, arguments, config, twin):
    """(ours, theirs, check, lesson, more of the row); theirs is None where Triton has no room."""
    import torch
    launch, results = make(torch, *arguments)
    lesson = SimpleNamespace(kernel=kernel)
    compiled, other = launch(kernel, **config), twin(kernel)
    wants = [torch.empty_like(result) for result in results]
    try:
        launch(other, **config)
        for want, result in zip(wants, results):
            want.copy_(result)
        theirs = lambda: launch(other, **config)
    except Exception as error:  # Triton's class of it stands in different places in its versions
        if "OutOfResources" not in type(error).__name__:
            raise
        theirs = None

    def check():
        if theirs is None:
            return
        launch(lesson.kernel, **config)
        for result, want in zip(results, wants):
            # Both sides sum in fp32, in orders of their own, and round to the kind's mantissa.
            torch.testing.assert_close(result.float(), want.float(), rtol=2e-2, atol=2e-2 * float(want.float().abs().mean()))
    size = len(compiled.asm["ptx"])
    more = {"ptx_bytes": size, **({"error": f"more than {LARGEST_PTX} bytes of PTX"} if size > LARGEST_PTX else {})}
    return lambda: launch(lesson.kernel, **config), theirs, check, lesson, None, more


def _compile_theirs(part, parts):
    import kernels
    import torch
    twins = {}
    for number, (_, (kernel, make, arguments, config)) in enumerate(cases()):
        if number % parts == part:
            twin = twins.setdefault(kernel, kernels.triton_twin(kernel))
            launch, _ = make(torch, *arguments)
            try:
                launch(twin, **config)
            except Exception as error:
                print(config, type(error).__name__, error)


if __name__ == "__main__":
    _compile_theirs(*map(int, sys.argv[1:]))
