# SPDX-License-Identifier: Apache-2.0
"""Attention beside torch: lesson 6's kernels as they stand, fitted by the tuner to each size.

The peer is the fastest of torch's backends (cuDNN, flash attention) on the same arrays, or Triton with the lesson's own
text and the best of the same configurations. `prepare` gives what is measured (kernels.Prepared's fields).
"""
import importlib
from types import SimpleNamespace

import libtile
from fitted import fitted

attention = importlib.import_module("06_attention")

TOKENS = 1 << 18  # heads times tokens

# (BLOCK_M, BLOCK_N, num_warps, num_stages), each as it is and with share_blocks, which Triton has not
SHAPES = ((128, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (128, 128, 8, 3), (64, 64, 4, 2), (64, 128, 4, 2),
          (64, 128, 8, 2))


def cases():
    """(name, peer, arguments of prepare)."""
    for d in (64, 96, 128, 256):
        for n in (1024, 4096, 16384):
            for causal in (False, True):
                name = f"f16/d{d}/{n}" + "/causal" * causal
                yield f"attention/{name}", "torch", ("f16", d, n, causal, False)
                if d in (64, 128):
                    yield f"attention/{name}/triton", "triton", ("f16", d, n, causal, True)
    yield "attention/bf16/d128/4096", "torch", ("bf16", 128, 4096, False, False)
    for causal in (False, True):  # eight heads of queries share one of keys
        yield "attention/f16/d128/4096/shared" + "/causal" * causal, "torch", ("f16", 128, 4096, causal, False, 8)
    for d in (64, 128):
        for causal in (False, True):
            yield f"attention_backward/f16/d{d}/4096" + "/causal" * causal, "torch", ("f16", d, 4096, causal)


def _new(torch, kind, d, n, arrays, group=1):
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    return [torch.randn(TOKENS // n // group, n, d, device="cuda").to(dtype) for _ in range(arrays)]


def _tuned(language, kernel, launch):
    """The keywords of the fastest of SHAPES."""
    shared = [{}, {"share_blocks": True}] if language is libtile else [{}]
    configs = [language.Config({"BLOCK_M": m, "BLOCK_N": n, **more}, num_warps=warps, num_stages=stages)
               for m, n, warps, stages in SHAPES for more in shared]
    return fitted(language, kernel, configs, ["n", "D"], launch)


def _fastest_backend(torch, q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    import measure
    found = []
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal,
                                                                        enable_gqa=k.shape != q.shape)
        try:
            run()
            found.append((min(measure._cuda(run, 3) for _ in range(3)), run))
        except RuntimeError:
            continue  # it does not take this size
    return min(found, key=lambda pair: pair[0])[1]


def prepare(kind, d, n, causal, by_triton, group=1, *, twin):
    """(ours, theirs, check, lesson, configuration)."""
    import torch
    (q,), (k, v) = _new(torch, kind, d, n, 1), _new(torch, kind, d, n, 2, group)
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
    heads = q.shape[0]

    def launch(kernel, **options):
        return kernel[lambda meta: (-(-n // meta["BLOCK_M"]), heads)](q, k, v, out, lse, n, d**-0.5, D=d, CAUSAL=causal,
                                                                              GROUP=group, **options)
    lesson = SimpleNamespace(kernel=attention.attention)
    ours = _tuned(libtile, attention.attention, launch)
    if by_triton:
        import triton
        kernel = twin(attention.attention)
        options = _tuned(triton, kernel, launch)
        theirs = lambda: launch(kernel, **options)
    else:
        theirs = _fastest_backend(torch, q, k, v, causal)
    out.fill_(float("nan"))

    def check():
        scores = q[0].double() @ k[0].double().T * d**-0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
        want = torch.softmax(scores, 1) @ v[0].double()
        # P and the result are rounded to the kind's mantissa.
        unit = torch.finfo(q.dtype).eps
        torch.testing.assert_close(out[0].double(), want, rtol=2 * unit, atol=2 * unit)
        assert torch.isfinite(out).all()
    return lambda: launch(lesson.kernel, **ours), theirs, check, lesson, ours


def prepare_backward(kind, d, n, causal):
    """(ours, theirs, check, lesson, configuration): both kernels of the way back beside torch's gradient of its fastest backend."""
    import torch
    q, k, v, dout = _new(torch, kind, d, n, 4)
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
    attention.run(q, k, v, out, lse, causal, 128, 64)
    delta, dq, dk, dv = torch.empty_like(lse), torch.zeros(q.shape, device="cuda"), torch.empty_like(k), torch.empty_like(v)
    heads = q.shape[0]

    def launch(kernel, **options):
        return kernel[lambda meta: (-(-n // meta["BLOCK_N"]), heads)](
            q, k, v, dout, lse, delta, dq, dk, dv, n, d**-0.5, D=d, CAUSAL=causal, **options)
    attention.row_products[(-(-heads * n // 64),)](out, dout, delta, heads * n, D=d, BLOCK=64)
    best = _tuned(libtile, attention.attention_backward, launch)
    lesson = SimpleNamespace(kernel=attention.attention_backward)

    def ours():
        attention.row_products[(-(-heads * n // 64),)](out, dout, delta, heads * n, D=d, BLOCK=64)
        dq.zero_()
        return launch(lesson.kernel, **best)
    leaves = [x[None].clone().requires_grad_() for x in (q, k, v)]
    result = _fastest_backend(torch, *(x[0] for x in leaves), causal)()
    theirs = lambda: torch.autograd.grad(result, leaves, dout[None], retain_graph=True)

    def check():
        wants = [x[0].double() for x in theirs()]
        for got, want in zip((dq, dk, dv), wants):
            # Both sides round P and dS to the kind's mantissa before sums of n products.
            error = (got.double() - want).norm() / want.norm()
            assert error < 8 * torch.finfo(q.dtype).eps, error
    return ours, theirs, check, lesson, best
