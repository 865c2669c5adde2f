# SPDX-License-Identifier: Apache-2.0
"""Random numbers: Philox against the vectors that Random123 publishes and against a NumPy one, bit for bit."""
import numpy as np
import pytest
from spine import DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)

# Known answers of philox4x32 and philox4x64 with ten rounds (Random123, kat_vectors): counters, keys, words.
KNOWN = [
    (np.uint32, (0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
    (np.uint32, (0xffffffff,) * 4, (0xffffffff,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
    (np.uint32, (0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
     (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1)),
    (np.uint64, (0, 0, 0, 0), (0, 0),
     (0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b)),
    (np.uint64, (2**64 - 1,) * 4, (2**64 - 1,) * 2,
     (0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0)),
    (np.uint64, (0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89),
     (0x452821e638d01377, 0xbe5466cf34e90c6c),
     (0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6)),
]


def philox(counters, keys, rounds=10):
    """Of arrays of uint32 or uint64, with Python's integers."""
    bits = 8 * counters[0].dtype.itemsize
    most = 2**bits - 1
    a, b, weyl_a, weyl_b = {
        32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
        64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}[bits]
    made = []
    for c0, c1, c2, c3 in zip(*[counter.tolist() for counter in counters]):
        k0, k1 = keys
        for _ in range(rounds):
            c0, c1, c2, c3 = (b * c2 >> bits) ^ c1 ^ k0, b * c2 & most, (a * c0 >> bits) ^ c3 ^ k1, a * c0 & most
            k0, k1 = k0 + weyl_a & most, k1 + weyl_b & most
        made.append((c0, c1, c2, c3))
    return [np.array(words, counters[0].dtype) for words in zip(*made)]


def words_of(seed, offsets, rounds=10):
    """What randint4x gives."""
    wide = offsets.astype(np.int64)
    low = (wide & 0xffffffff).astype(np.uint32)
    high = (wide >> 32 & 0xffffffff).astype(np.uint32) if offsets.dtype.itemsize > 4 else low * 0
    return philox([low, high, low * 0, low * 0], (seed & 0xffffffff, seed >> 32 & 0xffffffff), rounds)


def uniform(words):
    number = words.view(np.int32)
    return np.where(number < 0, ~number, number).astype(F32) * F32(4.6566127342e-10)


@libtile.jit
def impl(c, k, out):
    a, b, d, e = tl.philox_impl(tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(k), tl.load(k + 1))
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, d)
    tl.store(out + 3, e)


@everywhere
@pytest.mark.parametrize("known", KNOWN, ids=lambda row: f"{row[0].__name__}-{row[1][0]:x}")
def test_known_answers(device, known):
    dtype, counters, keys, want = known
    put = OnDevice(device)
    out = put(poisoned(4, dtype))
    impl[(1,)](put(np.array(counters, dtype)), put(np.array(keys, dtype)), out)
    assert tuple(put.back(out).tolist()) == want
    made = philox([np.array([counter], dtype) for counter in counters], keys)
    assert tuple(int(word[0]) for word in made) == want


@libtile.jit
def draw(offsets, out, n, seed, WHICH: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offset = tl.load(offsets + i, i < n, other=0)
    if WHICH == "randint":
        tl.store(out + i, tl.randint(seed, offset, ROUNDS), i < n)
    elif WHICH == "rand":
        tl.store(out + i, tl.rand(seed, offset, ROUNDS), i < n)
    elif WHICH == "randn":
        tl.store(out + i, tl.random.randn(seed, offset, ROUNDS), i < n)
    else:
        if WHICH == "randint4x":
            four = tl.randint4x(seed, offset, ROUNDS)
        elif WHICH == "rand4x":
            four = tl.rand4x(seed, offset, ROUNDS)
        else:
            four = tl.randn4x(seed, offset, ROUNDS)
        for k in tl.static_range(4):
            tl.store(out + k * n + i, four[k], i < n)


def drawn(device, which, offsets, seed, rounds=10):
    put = OnDevice(device)
    shape = (4 if "4x" in which else 1, offsets.size)
    out = put(poisoned(shape[0] * shape[1], np.uint32 if "int" in which else F32))
    draw[(libtile.cdiv(offsets.size, 100),)](put(offsets), out, offsets.size, seed, WHICH=which, ROUNDS=rounds, BLOCK=100)
    return put.back(out).reshape(shape)


SEEDS = [0, 7, -1, 2**31 - 1, 0x123456789abcdef, -2**63]


@everywhere
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.int8], ids=lambda dtype: dtype.__name__)
def test_words(device, seed, dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(21)
    offsets = np.concatenate([rng.integers(info.min, info.max, 250).astype(dtype),
                              np.array([0, 1, info.max, info.min], dtype)])
    want = words_of(seed, offsets)
    np.testing.assert_array_equal(drawn(device, "randint", offsets, seed)[0], want[0])
    np.testing.assert_array_equal(drawn(device, "randint4x", offsets, seed, 7), words_of(seed, offsets, 7))
    np.testing.assert_array_equal(drawn(device, "rand", offsets, seed)[0].view(np.uint32),
                                  uniform(want[0]).view(np.uint32))
    np.testing.assert_array_equal(drawn(device, "rand4x", offsets, seed), [uniform(word) for word in want])


@everywhere
def test_normal_numbers(device):
    offsets = np.arange(2000, dtype=np.int32)
    words = words_of(5, offsets)
    u = [uniform(word).astype(np.float64) for word in words]
    want = []
    for first, second in ((u[0], u[1]), (u[2], u[3])):
        radius = np.sqrt(-2 * np.log(np.maximum(1e-7, first)))
        want += [radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)]
    got = drawn(device, "randn4x", offsets, 5)
    # The angle is rounded once, which moves sine and cosine by up to 2^-22.
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-6)
    np.testing.assert_array_equal(drawn(device, "randn", offsets, 5)[0], got[0])
    assert abs(got.mean()) < 0.03 and abs(got.std() - 1) < 0.03


@libtile.jit
def floats(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.uint_to_uniform_float(tl.load(x + i, i < n, other=0)), i < n)


@everywhere
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64], ids=lambda dtype: dtype.__name__)
def test_uniform_floats_stay_below_one(device, dtype):
    info = np.iinfo(dtype)
    x = np.concatenate([np.array([info.min, info.max, 0, info.max // 2, info.max // 2 + 1], dtype),
                        np.random.default_rng(4).integers(info.min, info.max, 500, dtype=dtype)])
    put = OnDevice(device)
    out = put(poisoned(x.size, F32))
    floats[(1,)](put(x), out, x.size, BLOCK=512)
    number = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    number = np.where(number < 0, ~number, number)
    want = number.astype(F32) * F32(4.6566127342e-10 if x.dtype.itemsize == 4 else 1.0842020432385337e-19)
    got = put.back(out)
    np.testing.assert_array_equal(got, want)
    assert (got >= 0).all() and (got < 1).all()


@libtile.jit
def counters(out, seed, WIDE: tl.constexpr):
    i = tl.arange(0, 8)
    if WIDE:
        i = i.to(tl.int64)
    a, _, _, _ = tl.philox(seed, i, 0 * i, 0 * i, 0 * i)
    tl.store(out + tl.arange(0, 8), a)


@everywhere
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=lambda dtype: dtype.__name__)
def test_keys(device, dtype):
    put = OnDevice(device)
    out = put(poisoned(8, dtype))
    seed = 0x0123456789abcdef
    counters[(1,)](out, seed, WIDE=dtype is np.uint64)
    i = np.arange(8, dtype=dtype)
    keys = (seed, 0) if dtype is np.uint64 else (seed & 0xffffffff, seed >> 32)
    np.testing.assert_array_equal(put.back(out), philox([i, 0 * i, 0 * i, 0 * i], keys)[0])


@libtile.jit
def swizzle(out, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    new_i, new_j = tl.swizzle2d(i, j, M, N, G)
    tl.store(out + new_i * N + new_j, i * N + j)


@everywhere
@pytest.mark.parametrize("m, n, g", [(4, 4, 2), (5, 3, 2), (7, 6, 3), (3, 5, 8), (1, 1, 1)])
def test_swizzle(device, m, n, g):
    put = OnDevice(device)
    out = put(poisoned(m * n, np.int32))
    swizzle[(1,)](out, M=m, N=n, G=g)
    want = np.empty((m, n), np.int32)
    place = 0
    for first in range(0, m, g):
        rows = min(g, m - first)
        for k in range(rows * n):
            want[first + k % rows, k // rows] = place
            place += 1
    np.testing.assert_array_equal(put.back(out).reshape(m, n), want)
