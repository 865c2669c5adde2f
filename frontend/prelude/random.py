# SPDX-License-Identifier: Apache-2.0
"""Random numbers by counting: the n-th number of a seed is a function of the seed and of n alone.

The words are those of Philox4x32 and Philox4x64 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
Parallel random numbers: as easy as 1, 2, 3, SC 2011). Which counters and keys a seed and an offset
stand for, and how words become floats, is as in Triton 3.9, to the bit.
"""
import libtile
import libtile.language as tl


@libtile.jit
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: tl.constexpr = 10):
    """The counters c0 to c3 after n_rounds rounds with the keys k0, k1: all uint32, or all uint64."""
    tl.static_assert(c0.dtype == tl.uint32 or c0.dtype == tl.uint64, "philox_impl takes uint32 or uint64")
    if c0.dtype == tl.uint32:
        multiplier_a: tl.constexpr = 0xD2511F53
        multiplier_b: tl.constexpr = 0xCD9E8D57
        weyl_a: tl.constexpr = 0x9E3779B9
        weyl_b: tl.constexpr = 0xBB67AE85
    else:
        multiplier_a: tl.constexpr = 0xD2E7470EE14C6C93
        multiplier_b: tl.constexpr = 0xCA5A826395121157
        weyl_a: tl.constexpr = 0x9E3779B97F4A7C15
        weyl_b: tl.constexpr = 0xBB67AE8584CAA73B
    for _ in tl.static_range(n_rounds):
        high_a, low_a = tl.umulhi(c0, multiplier_a), c0 * multiplier_a
        high_b, low_b = tl.umulhi(c2, multiplier_b), c2 * multiplier_b
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0 += weyl_a
        k1 += weyl_b
    return c0, c1, c2, c3


@libtile.jit
def philox(seed, c0, c1, c2, c3, n_rounds: tl.constexpr = 10):
    """Counters of 32 bits have the two halves of the seed as keys, those of 64 bits the seed and 0."""
    seed = tl.to_tensor(seed)
    tl.static_assert(seed.dtype.is_int(), "a seed is an integer")
    seed = seed.to(tl.uint64)
    c0, c1, c2, c3 = tl.to_tensor(c0), tl.to_tensor(c1), tl.to_tensor(c2), tl.to_tensor(c3)
    tl.static_assert(c0.dtype.primitive_bitwidth == 32 or c0.dtype.primitive_bitwidth == 64,
                     "the counters of philox have 32 or 64 bits")
    if c0.dtype.primitive_bitwidth == 32:
        word: tl.constexpr = tl.uint32
        k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    else:
        word: tl.constexpr = tl.uint64
        k0, k1 = seed, tl.full((), 0, tl.uint64)
    return philox_impl(c0.to(word, bitcast=True), c1.to(word, bitcast=True), c2.to(word, bitcast=True),
                       c3.to(word, bitcast=True), k0, k1, n_rounds)


@libtile.jit
def randint4x(seed, offset, n_rounds: tl.constexpr = 10):
    """Four words of each offset, whose halves are the first two counters; the others are 0."""
    offset = tl.to_tensor(offset)
    tl.static_assert(offset.dtype.is_int(), "an offset of random numbers is an integer")
    low = offset.to(tl.uint32)
    zero = low * 0
    if offset.dtype.primitive_bitwidth > 32:
        high = (offset >> 32).to(tl.uint32)
    else:
        high = zero
    return philox(seed, low, high, zero, zero, n_rounds)


@libtile.jit
def randint(seed, offset, n_rounds: tl.constexpr = 10):
    """The first word of randint4x."""
    word, _, _, _ = randint4x(seed, offset, n_rounds)
    return word


@libtile.jit
def uint_to_uniform_float(x):
    """Words as fp32 in [0, 1): the sign is folded onto the positive half, which a scale takes below 1."""
    x = tl.to_tensor(x)
    tl.static_assert(x.dtype.is_int() and (x.dtype.primitive_bitwidth == 32 or x.dtype.primitive_bitwidth == 64),
                     "uint_to_uniform_float takes integers of 32 or 64 bits")
    # The greatest scale with which the largest integer stays below 1 once it is rounded.
    if x.dtype.primitive_bitwidth == 32:
        number = x.to(tl.int32, bitcast=True)
        scale: tl.constexpr = 4.6566127342e-10
    else:
        number = x.to(tl.int64, bitcast=True)
        scale: tl.constexpr = 1.0842020432385337e-19
    return tl.where(number < 0, ~number, number) * scale


@libtile.jit
def rand(seed, offset, n_rounds: tl.constexpr = 10):
    """randint as fp32 in [0, 1)."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@libtile.jit
def rand4x(seed, offsets, n_rounds: tl.constexpr = 10):
    """randint4x as fp32 in [0, 1)."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return (uint_to_uniform_float(a), uint_to_uniform_float(b), uint_to_uniform_float(c),
            uint_to_uniform_float(d))


@libtile.jit
def pair_uniform_to_normal(u1, u2):
    """Two independent normal numbers from a radius and an angle (Box and Muller)."""
    radius = tl.sqrt(-2.0 * tl.log(tl.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * tl.cos(angle), radius * tl.sin(angle)


@libtile.jit
def randn(seed, offset, n_rounds: tl.constexpr = 10):
    """The first normal number of the first two words of an offset."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    normal, _ = pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))
    return normal


@libtile.jit
def randn4x(seed, offset, n_rounds: tl.constexpr = 10):
    """Normal numbers of the first two words of an offset, then of the other two."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    n0, n1 = pair_uniform_to_normal(a, b)
    n2, n3 = pair_uniform_to_normal(c, d)
    return n0, n1, n2, n3
