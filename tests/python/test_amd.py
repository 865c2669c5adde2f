# SPDX-License-Identifier: Apache-2.0
"""Code for AMD's GPUs, which nothing runs here: that there is code for each target, what it asks of the machine, and what is refused."""
import re

import pytest
from random_kernels import Kernel, kernel_of

import libtile
import libtile.language as tl

WAVES = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1101": 32, "gfx1102": 32, "gfx1150": 32, "gfx1151": 32,
         "gfx1200": 32, "gfx1201": 32}
pytestmark = pytest.mark.not_interpreted("it compiles for GPUs")


@pytest.fixture(params=WAVES)
def target(request):
    if request.param == "gfx950":
        try:
            add.warmup("*fp32", "*fp32", "*fp32", "i32", B=64, target="gfx950", grid=(1,))
        except libtile.UnsupportedError as error:
            assert "needs LLVM 20" in str(error)
            pytest.skip("this build's LLVM does not know it")
    return request.param


@libtile.jit
def add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(z + i, tl.load(x + i, m) + tl.load(y + i, m), m)


@libtile.jit
def softmax(x, z, n, s, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * s + i, i < n, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(z + tl.program_id(0) * s + i, e / tl.sum(e, 0), i < n)


@libtile.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + i + k), tl.load(b + (i + k)[:, None] * N + n), acc)
    tl.store(c + m[:, None] * N + n, acc)


@libtile.jit
def many(x, o, count, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, 0))
    tl.store(o + B + i, tl.sort(v))
    tl.store(o + 2 * B + i, tl.gather(v, (i * 7) % B, 0))
    tl.atomic_add(count + i % 3, i)
    tl.atomic_cas(count + 3, 0, tl.program_id(1) + tl.num_programs(2))


def number(text, name):
    return int(re.search(rf"\.{name}:?\s+(\d+)", text)[1])


def test_code_of_each_target(target):
    pairs = [(add, ["*fp32"] * 3 + ["i32"], {"B": 512}), (softmax, ["*fp16", "*bf16", "i32", "i32"], {"B": 2048}),
             (matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32"], {"BM": 32, "BN": 32, "BK": 32}),
             (many, ["*i32", "*i32", "*i32"], {"B": 128})]
    for kernel, types, constants in pairs:
        made = kernel.warmup(*types, **constants, target=target, grid=(1,), num_warps=4)
        text = made.asm["asm"]
        assert f'.amdgcn_target "amdgcn-amd-amdhsa--{target}"' in text and "s_endpgm" in text
        assert number(text, "wavefront_size") == WAVES[target]
        assert number(text, "max_flat_workgroup_size") == made.metadata["threads"] == 4 * WAVES[target]
        assert number(text, "group_segment_fixed_size") == made.metadata["shared_bytes"]
        assert number(text, "private_segment_fixed_size") == 0, "registers are spilled"
        assert number(text, "kernarg_segment_size") >= 8 * 2


def test_dots_are_recorded_as_what_they_are(target):
    made = matmul.warmup("*fp16", "*fp16", "*fp32", "i32", "i32", BM=32, BN=32, BK=32, target=target, grid=(1,))
    assert any("dot by fused multiply-adds" in fallback for fallback in made.fallbacks)


def test_what_a_workgroup_has(target):
    with pytest.raises(libtile.OutOfResources, match=f"{target} has 1024 a program"):
        add.warmup("*fp32", "*fp32", "*fp32", "i32", B=4096, target=target, grid=(1,), num_warps=2048 // WAVES[target])
    with pytest.raises(libtile.OutOfResources, match="shared memory"):
        many.warmup("*i32", "*i32", "*i32", B=2**16, target=target, grid=(1,))


@libtile.jit
def asserts(x):
    tl.device_assert(tl.load(x) > 0, "positive")


@libtile.jit
def prints(x):
    tl.device_print("x", tl.load(x))


@libtile.jit
def assembles(x):
    tl.store(x, tl.inline_asm_elementwise("add.s32 $0, $1, 1;", "=r,r", [tl.load(x)], tl.int32, True, 1))


@pytest.mark.parametrize("kernel, what, options", [(asserts, "assert", {"debug": True}), (prints, "print", {}), (assembles, "assembly", {})])
def test_what_there_is_not_says_so(kernel, what, options):
    with pytest.raises(libtile.UnsupportedError, match=f"(?s){what}.* not supported on gfx942 yet"):
        kernel.warmup("*i32", target="gfx942", grid=(1,), **options)


@pytest.mark.parametrize("name", ["gfx942", "gfx1100"])
def test_random_kernels_have_code(name, tmp_path):
    """Or say what there is not; LLVM's verifier looks at each."""
    refused = []
    for seed in range(40):
        made = Kernel(seed, 4)
        try:
            text = kernel_of(made.text, tmp_path, seed).warmup(*made.arguments.values(), target=name, grid=(1,), **made.options).asm["asm"]
            assert "s_endpgm" in text
        except libtile.UnsupportedError as error:
            assert isinstance(error, libtile.OutOfResources) or re.search("(assert|assembly|print).* not supported on", str(error)), error
            refused.append(seed)
    assert len(refused) < 20
