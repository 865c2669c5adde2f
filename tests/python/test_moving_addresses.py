# SPDX-License-Identifier: Apache-2.0
"""Copies ahead of products by threads: what an iteration computes of their addresses and masks, and that they are right where
what moves runs backwards, lies beyond 32 bits, or is taken from both sides of a sum."""
import importlib
import re

import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl

addresses = importlib.import_module("08_grouped_gemm").addresses


@libtile.jit
def product(table, c, M, N, K, am, ak, bk, bn, BACK: tl.constexpr, BLOCK: tl.constexpr):
    # Arrays that memory names: no launcher can describe them to the machine, so threads copy.
    a = tl.load(table).to(tl.pointer_type(tl.float16))
    b = tl.load(table + 1).to(tl.pointer_type(tl.float16))
    a, b = tl.multiple_of(a, 16), tl.multiple_of(b, 16)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        at = (K - 1 - k) if BACK else k  # of which row and column of the operands it is
        x = tl.load(a + rows[:, None] * am + at[None, :] * ak, mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + at[:, None] * bk + cols[None, :] * bn, mask=(k[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def loop_of(ptx):
    """The text between the label of the innermost loop with copies and the jump to it."""
    for label in re.findall(r"^(\$L_\w+):", ptx, re.M):
        body = re.search(rf"^{re.escape(label)}:\n((?:(?!^\$L_).*\n)*?).*bra(?:\.uni)? {re.escape(label)};", ptx, re.M)
        if body and "cp.async" in body[1]:
            return body[1]
    raise AssertionError("no loop copies")


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
def test_an_iteration_adds_one_number_to_an_address(target):
    """For each array: no row is multiplied by the stride again, and the access takes its own row's distance."""
    sizes = ["i32", "i32:16", "i32:16", "i32:16", 1, "i32:16", 1]
    text = product.warmup("*i64", "*fp32", *sizes, BACK=False, BLOCK=64, num_warps=2, num_stages=3, target=target, grid=(1,)).asm["ptx"]
    loop = loop_of(text)
    copies = loop.count("cp.async.cg")
    assert copies == 16 and "cp.async.ca" not in loop
    # A product an access but the first of each array, a step along a row and two along a column, and a place in each ring.
    assert len(re.findall(r"mul\.", loop)) <= copies - 2 + 3 + 2
    # 16 divides K: of two rows that lie 8 apart one is compared, and of columns one.
    assert len(re.findall(r"setp\.lt\.s32", loop)) == 4 + 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("back", (False, True))
@pytest.mark.parametrize("shape", ((64, 64, 64), (70, 48, 208), (1, 16, 16), (130, 33, 300), (64, 64, 0)))
def test_products_of_arrays_that_memory_names(device, shape, back, turned):
    m, n, k = shape
    on, rng = OnDevice(device), np.random.default_rng(m + k)
    x, y = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    # Room in front and behind, not numbers: an address that is off by a row shows.
    arrays = [np.full(v.size + 512, np.nan, np.float16) for v in (x, y)]
    for array, v in zip(arrays, (x, y)):
        array[256:256 + v.size] = v.T.ravel() if turned else v.ravel()
    a, b = (on(array) for array in arrays)
    table = on(addresses([a, b]) + 512)
    c = on(np.full((m, n), np.nan, np.float32))
    strides = (1, m, 1, k) if turned else (k, 1, n, 1)
    product[((m + 63) // 64,)](table, c, m, n, k, *strides, BACK=back, BLOCK=64, num_warps=4, num_stages=3)
    x, y = x.astype(np.float64), y.astype(np.float64)
    bound = np.abs(x) @ np.abs(y) * max(k, 1) * 2.0**-24 + 1e-30
    assert (np.abs(on.back(c).astype(np.float64) - x @ y) <= bound).all()
