# SPDX-License-Identifier: Apache-2.0
"""Instructions of AMD's GPUs one by one, by inline assembly, beside NumPy: what the emulator (tests/amd) takes them for, and on a
GPU what they are."""
import numpy as np
import pytest
from spine import DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

pytestmark = pytest.mark.not_interpreted("it is about a GPU")
U, S, N = np.uint32, np.int32, 1024


@libtile.jit
def of_words(x, y, z, out, TEXT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    words = [tl.load(x + i), tl.load(y + i), tl.load(z + i)]
    tl.store(out + i, tl.inline_asm_elementwise(TEXT, "=&v,v,v,v", words, tl.uint32, True, 1))


def wide(x):
    return x.astype(np.uint64)


def signed(x):
    return x.view(S).astype(np.int64)


def as_float(f):
    def g(a, b, c):
        with np.errstate(all="ignore"):
            return f(*(v.view(F32).astype(np.float64) for v in (a, b, c))).astype(F32).view(U)
    return g


def bits_of(a, b, c):
    return np.where(c & 31 == 0, 0, wide(a) >> wide(b & 31) & ((np.uint64(1) << wide(c & 31)) - np.uint64(1)))


def saturated(x, low, high):
    x = x.astype(np.float64)
    return np.clip(np.where(np.isnan(x), 0, np.trunc(x)), low, high).astype(np.int64)


WORDS = {
    "v_and_or_b32 $0, $1, $2, $3": lambda a, b, c: a & b | c,
    "v_or3_b32 $0, $1, $2, $3": lambda a, b, c: a | b | c,
    "v_bfi_b32 $0, $1, $2, $3": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32 $0, $1, $2, $3": bits_of,
    "v_add3_u32 $0, $1, $2, $3": lambda a, b, c: a + b + c,
    "v_lshl_add_u32 $0, $1, $2, $3": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32 $0, $1, $2, $3": lambda a, b, c: (a + b) << (c & 31),
    "v_xad_u32 $0, $1, $2, $3": lambda a, b, c: (a ^ b) + c,
    "v_alignbit_b32 $0, $1, $2, $3": lambda a, b, c: (wide(a) << np.uint64(32) | wide(b)) >> wide(c & 31),
    "v_mul_lo_u32 $0, $1, $2": lambda a, b, c: a * b,
    "v_mul_hi_u32 $0, $1, $2": lambda a, b, c: wide(a) * wide(b) >> np.uint64(32),
    "v_mul_hi_i32 $0, $1, $2": lambda a, b, c: signed(a) * signed(b) >> 32,
    "v_mul_u32_u24 $0, $1, $2": lambda a, b, c: (wide(a) & np.uint64(0xFFFFFF)) * (wide(b) & np.uint64(0xFFFFFF)),
    "v_mad_u32_u24 $0, $1, $2, $3": lambda a, b, c: (wide(a) & np.uint64(0xFFFFFF)) * (wide(b) & np.uint64(0xFFFFFF)) + wide(c),
    "v_med3_i32 $0, $1, $2, $3": lambda a, b, c: np.sort([signed(a), signed(b), signed(c)], 0)[1],
    "v_max3_u32 $0, $1, $2, $3": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_min3_i32 $0, $1, $2, $3": lambda a, b, c: np.minimum(np.minimum(signed(a), signed(b)), signed(c)),
    "v_ashrrev_i32 $0, $1, $2": lambda a, b, c: signed(b) >> (a & 31).astype(np.int64),
    "v_bcnt_u32_b32 $0, $1, $2": lambda a, b, c: np.array([bin(v).count("1") for v in a.tolist()], U) + b,
    "v_bfrev_b32 $0, $1": lambda a, b, c: np.array([int(f"{v:032b}"[::-1], 2) for v in a.tolist()], U),
    "v_cvt_f32_u32 $0, $1": lambda a, b, c: a.astype(F32).view(U),
    "v_cvt_f32_i32 $0, $1": lambda a, b, c: a.view(S).astype(F32).view(U),
    "v_cvt_u32_f32 $0, $1": lambda a, b, c: saturated(a.view(F32), 0, 2**32 - 1),
    "v_cvt_i32_f32 $0, $1": lambda a, b, c: saturated(a.view(F32), -2**31, 2**31 - 1),
    "v_add_f32 $0, $1, $2": as_float(lambda a, b, c: a + b),
    "v_mul_f32 $0, -$1, |$2|": as_float(lambda a, b, c: -a * np.abs(b)),
    "v_trunc_f32 $0, $1": as_float(lambda a, b, c: np.trunc(a)),
    "v_rndne_f32 $0, $1": as_float(lambda a, b, c: np.rint(a)),
    "v_cvt_f32_ubyte2 $0, $1": lambda a, b, c: (a >> 16 & 255).astype(F32).view(U),
    "v_perm_b32 $0, $1, $2, $3": lambda a, b, c: permuted(a, b, c),
}


def permuted(a, b, c):
    out = []
    for high, low, choice in zip(a.tolist(), b.tolist(), c.tolist()):
        both, word = low | high << 32, 0
        for i in range(4):
            k = choice >> 8 * i & 255
            byte = both >> 8 * k & 255 if k < 8 else 255 * (both >> 16 * (k - 8) + 15 & 1) if k < 12 else 0 if k == 12 else 255
            word |= byte << 8 * i
        out.append(word)
    return np.array(out, U)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", WORDS, ids=lambda text: text.split()[0])
def test_words(device, text):
    if device != "hip":
        compiled = of_words.warmup(*["*u32"] * 4, text, N, target="gfx942", grid=(1,))
        assert text.split()[0] in compiled.asm["asm"]
        return
    rng = np.random.default_rng(7)
    ends = np.array([0, 1, 2, 31, 32, 255, 2**31 - 1, 2**31, 2**32 - 1, 0x3F800000, 0xBF800000, 0x7F800000, 0x4F000000, 0xCF800000], U)
    x, y, z = (np.concatenate([rng.choice(ends, N // 2), rng.integers(0, 2**32, N // 2, dtype=U)]) for _ in range(3))
    on = OnDevice(device)
    out = on(poisoned(N, U))
    of_words[(1,)](on(x), on(y), on(z), out, text, N)
    got, want = on.back(out), np.asarray(WORDS[text](x, y, z)).astype(U)
    if "f32 $0" in text and not text.startswith("v_cvt_f32"):
        nan = np.isnan(want.view(F32))
        assert (np.isnan(got.view(F32)) == nan).all()
        got, want = got[~nan], want[~nan]
    np.testing.assert_array_equal(got, want)
