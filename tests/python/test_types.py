# SPDX-License-Identifier: Apache-2.0
"""Types as objects: what they answer in Python and in kernels, which is the same; tl.target_info, tl.core."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice, poisoned

import libtile
import libtile.language as tl

TYPES = ["int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float32", "float64"]
# name: (short name, bits, signed, bits of the mantissa, bias, kind, mangled)
FACTS = {
    "int1": ("int1", 1, False, None, None, 0, "u1"), "int8": ("int8", 8, True, None, None, 1, "i8"),
    "int16": ("int16", 16, True, None, None, 1, "i16"), "int32": ("int32", 32, True, None, None, 1, "i32"),
    "int64": ("int64", 64, True, None, None, 1, "i64"), "uint8": ("uint8", 8, False, None, None, 1, "u8"),
    "uint16": ("uint16", 16, False, None, None, 1, "u16"), "uint32": ("uint32", 32, False, None, None, 1, "u32"),
    "uint64": ("uint64", 64, False, None, None, 1, "u64"), "float16": ("fp16", 16, None, 10, 15, 2, "fp16"),
    "bfloat16": ("bf16", 16, None, 7, 127, 2, "bf16"), "float32": ("fp32", 32, None, 23, 127, 2, "fp32"),
    "float64": ("fp64", 64, None, 52, 1023, 2, "fp64")}
TESTS = ["is_floating", "is_standard_floating", "is_int", "is_int_signed", "is_int_unsigned", "is_bool", "is_fp8", "is_ptr",
         "is_block", "is_const", *[f"is_{facts[0]}" for facts in FACTS.values()], "is_fp8e4nv", "is_fp8e4b8",
         "is_fp8e4b15", "is_fp8e5", "is_fp8e5b16"]


@pytest.mark.parametrize("name", TYPES)
def test_element_types_in_python(name):
    short, bits, signed, mantissa, bias, kind, mangled = FACTS[name]
    each = getattr(tl, name)
    assert (each.name, str(each), each.codegen_name(), each.mangle()) == (short, short, name, mangled)
    assert repr(each) == f"libtile.language.{name}" and each.cache_key_part == short
    assert (each.primitive_bitwidth, each.itemsize, each.scalar is each) == (bits, bits // 8, True)
    assert each.kind() == kind and each.kind().value == kind
    assert each.kind() in (tl.dtype.KIND.BOOLEAN, tl.dtype.KIND.INTEGRAL, tl.dtype.KIND.FLOATING)
    assert each == tl.dtype(short) and hash(each) == hash(tl.dtype(short)) and each != tl.void
    assert tl.dtype.is_dtype(short) and not tl.dtype.is_dtype("fp33")
    assert each.with_element_ty(tl.int8) == tl.int8
    assert (hasattr(each, "int_bitwidth"), hasattr(each, "exponent_bias")) == (signed is not None, signed is None)
    if signed is None:
        assert (each.fp_mantissa_width, each.exponent_bias) == (mantissa, bias)
    else:
        info = np.iinfo(name) if bits > 1 else None
        assert each.int_signedness == (tl.dtype.SIGNEDNESS.SIGNED if signed else tl.dtype.SIGNEDNESS.UNSIGNED)
        assert (each.get_int_min_value(), each.get_int_max_value()) == ((info.min, info.max) if info else (0, 1))
        assert tl.core.get_int_dtype(bits, signed) == each
    own = {"is_" + short, *(["is_bool"] if bits == 1 else []),
           *(["is_floating", "is_standard_floating"] if signed is None else
             ["is_int", "is_int_signed" if signed else "is_int_unsigned"])}
    assert {test for test in TESTS if getattr(each, test)()} == own


@libtile.jit
def facts_of(out, D: tl.constexpr, TEST: tl.constexpr, MANGLED: tl.constexpr, LONG: tl.constexpr):
    tl.store(out, D.primitive_bitwidth)
    tl.store(out + 1, D.itemsize)
    tl.store(out + 2, D.kind())
    if D.is_floating():
        tl.store(out + 3, D.fp_mantissa_width)
        tl.store(out + 4, D.exponent_bias)
    else:
        tl.store(out + 3, D.int_bitwidth)
        tl.store(out + 4, D.int_signedness == tl.dtype.SIGNEDNESS.SIGNED)
    tl.store(out + 5, getattr(D, TEST)())
    tl.static_assert(D.name == D.cache_key_part)
    tl.static_assert(D.mangle() == MANGLED and D.codegen_name() == LONG)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", TYPES)
def test_element_types_in_kernels(device, name):
    short, bits, signed, mantissa, bias, kind, mangled = FACTS[name]
    on = OnDevice(device)
    for test in TESTS if name in ("int1", "uint16", "bfloat16") else TESTS[:3]:
        out = on(poisoned(6, np.int32))
        facts_of[(1,)](out, getattr(tl, name), test, mangled, name)
        third, fourth = (mantissa, bias) if signed is None else (bits, signed)
        assert on.back(out).tolist() == [bits, bits // 8, kind, third, fourth, getattr(getattr(tl, name), test)()]


@libtile.jit
def limits(out, D: tl.constexpr):
    tl.store(out, D.get_int_min_value())
    tl.store(out + 1, D.get_int_max_value())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name in TYPES if "int" in name and name != "int1"])
def test_limits(device, name):
    on, info = OnDevice(device), np.iinfo(name)
    out = on(poisoned(2, name))
    limits[(1,)](out, getattr(tl, name))
    assert on.back(out).tolist() == [info.min, info.max]


def test_pointers_and_tiles_in_python():
    p = tl.pointer_type(tl.float32)
    assert (str(p), p.element_ty, p.is_ptr(), p.is_const(), p.mangle()) == ("pointer<fp32>", tl.float32, True, False, "Pfp32")
    assert p == tl.str_to_ty("*fp32", None) and p != tl.pointer_type(tl.float32, const=True)
    assert p.address_space == "global" and p.scalar is p and isinstance(p, tl.dtype) and p != tl.float32
    assert tl.str_to_ty("*ki8", None) == tl.pointer_type(tl.int8, const=True) and tl.str_to_ty("u1", None) == tl.int1
    t = tl.block_type(tl.bfloat16, [3, tl.constexpr(5)])
    assert (t.shape, t.get_block_shapes(), t.numel, t.nbytes, t.is_block()) == ((3, 5), (3, 5), 15, 30, True)
    assert (t.scalar, t.element_ty, t.mangle()) == (tl.bfloat16, tl.bfloat16, "bf16S3_5S")
    assert t == tl.block_type(tl.bfloat16, (3, 5)) and t.with_element_ty(tl.int8) == tl.block_type(tl.int8, (3, 5))
    u = tl.str_to_ty(("*fp32", "i32", "constexpr"), (None, None, 4))
    assert isinstance(u, tl.tuple_type) and u.types == [p, tl.int32, tl.constexpr_type(4)] and u[1] == tl.int32
    assert tl.tuple_type([tl.int32], ["a"]) == tl.tuple_type([tl.int32], ["a"]) != tl.tuple_type([tl.int32])
    with pytest.raises(Exception, match="i33"):
        tl.str_to_ty("i33", None)


@libtile.jit
def types_in_kernels(out, x):
    tile = tl.zeros((3, 5), x.dtype.element_ty)
    tl.static_assert(tile.type == tl.block_type(tl.float16, [3, 5]))
    tl.static_assert(x.dtype == tl.pointer_type(tl.float16))
    tl.static_assert(isinstance(x.dtype, tl.pointer_type) and not isinstance(tile.dtype, tl.pointer_type))
    tl.static_assert(isinstance(tile.type, tl.block_type) and tile.type.is_block() and x.dtype.is_ptr())
    tl.static_assert(tl.str_to_ty("*fp16", None) == x.dtype)
    tl.static_assert(tile.type.mangle() == "fp16S3_5S" and x.dtype.mangle() == "Pfp16")
    wide = tl.core.get_int_dtype(bitwidth=tile.dtype.primitive_bitwidth * 2, signed=False)
    tl.static_assert(wide == tl.uint32)
    tl.static_assert(tile.type.with_element_ty(wide) == tile.to(wide).type)
    tl.static_assert(tl.float32.name in tl.dtype.STANDARD_FP_TYPES and tl.TRITON_MAX_TENSOR_NUMEL >= 1048576)
    tl.store(out, tile.type.nbytes + tile.type.get_block_shapes()[1] * 100)


@pytest.mark.parametrize("device", DEVICES)
def test_types_in_kernels(device):
    on = OnDevice(device)
    out = on(poisoned(1, np.int32))
    types_in_kernels[(1,)](out, on(np.zeros(1, np.float16)))
    assert on.back(out).tolist() == [530]


@libtile.jit
def asks_the_target(out):
    target = tl.target_info.current_target()
    if tl.target_info.is_cuda() and tl.target_info.cuda_capability_geq(9):
        tl.store(out, 90)
    elif tl.target_info.cuda_capability_geq(8, 6):
        tl.store(out, 86)
    elif tl.target_info.is_hip():
        tl.store(out, 1)
    else:
        tl.store(out, target.warp_size)


@pytest.mark.parametrize("target, number", [("avx512", 1), ("sm_80", 32), ("sm_86", 86), ("sm_90a", 90)])
def test_target_info(target, number):
    text = asks_the_target.warmup("*i32", target=target).asm["tile"]
    assert f"constant {{value={number}}}" in text and text.count("store") == 1


def test_target_info_in_python():
    target = tl.target_info.current_target()
    assert tl.target_info.is_cuda() == (target.backend == "cuda") and not tl.target_info.is_hip()
    assert tl.target_info.cuda_capability_geq(3) == tl.target_info.is_cuda()
    assert not tl.target_info.cuda_capability_geq(99, minor=0)


@tl.core.builtin
def plus(x, y, _semantic=None):
    return x.__add__(y, _semantic=_semantic)


@tl.core.extern
def reflected(x, y, _semantic=None):
    assert x.handle is not None and str(x) == "int32[]" and isinstance(x, tl.core.base_value)
    return x.__rsub__(y, _semantic=_semantic).__rlt__(100)


@libtile.jit
def calls_builtins(out, n):
    tl.store(out, plus(n, 3))
    tl.store(out + 1, reflected(n, 7))


@pytest.mark.parametrize("device", DEVICES)
def test_core(device):
    on = OnDevice(device)
    out = on(poisoned(2, np.int32))
    calls_builtins[(1,)](out, 5)
    assert on.back(out).tolist() == [8, int(100 < 7 - 5)]
    assert tl.core.is_builtin(plus) and tl.core.is_builtin(tl.load) and not tl.core.is_builtin(test_core)
    with pytest.raises(libtile.UnsupportedError, match="bitcode"):
        tl.core.extern_elementwise("lib", "path", [], {}, is_pure=True)


def test_loops_and_constants_in_python():
    r = tl.range(0, 8, 2, num_stages=3, warp_specialize=True)
    assert (r.start, r.end, r.step, r.num_stages, r.flatten, r.warp_specialize) == (0, 8, 2, 3, False, True)
    assert (tl.static_range(5).start, tl.static_range(5).end, tl.static_range(5).step) == (0, 5, 1)
    assert tl.condition(True, disable_licm=True).disable_licm
    with pytest.raises(RuntimeError, match="only be used in a kernel"):
        iter(tl.range(3))
    c = tl.constexpr(6)
    assert (c.type, repr(c), (c.logical_and(0)).value, c.logical_or(0).value) == (tl.constexpr_type(6), "constexpr[6]", 0, 6)
    assert (-7 // tl.constexpr(2)).value == -4 and tl.constexpr([1, 2])[1] == 2 and list(tl.constexpr((1, 2))) == [1, 2]
    t = tl.tuple([1, c])
    assert t.values == [1, c] and t.type == tl.tuple_type([tl.constexpr_type(1), tl.constexpr_type(6)]) and len(t) == 2


@libtile.jit
def asserts(out, n):
    assert n > 3, "n is small"
    assert n > 0
    tl.device_assert(tl.arange(0, 4) < n, "out of range", mask=tl.arange(0, 4) < 2)
    tl.store(out, n)


@libtile.jit
def expected(x, out, n, CONSTANT: tl.constexpr):
    i = tl.arange(0, 7)
    a = tl.load(x + i)
    tl.static_assert(tl.expect_zero(CONSTANT, i < n) == CONSTANT)
    tl.store(out + i, tl.expect_zero(a, i < n) + tl.expect_zero(n, n > 9))


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_expected_to_be_zero_stays(device):
    on, x = OnDevice(device), np.array([0, -0.0, 0, 1, np.nan, -np.inf, 5], np.float32)
    out = on(poisoned(7, np.float32))
    expected[(1,)](on(x), out, 3, 2)
    np.testing.assert_array_equal(on.back(out), x + 3)


def test_what_is_expected_to_be_zero_is_asserted_with_debug():
    x, out = np.array([0, -0.0, 0, 1, np.nan, -np.inf, 5], np.float32), poisoned(7, np.float32)
    expected[(1,)](x, out, 3, 0, debug=True)
    np.testing.assert_array_equal(out, x + 3)
    with pytest.raises(libtile.KernelAssertionError, match="expect_zero: x is not 0 where mask is true") as caught:
        expected[(1,)](x, out, 5, 0, debug=True)
    assert caught.value.file == __file__ and "tl.expect_zero(a, i < n)" in str(caught.value)


@libtile.jit
def wrong_assert(n):
    assert n > 3, n


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("device", DEVICES)
def test_asserts_check_nothing_without_debug(device):
    on = OnDevice(device)
    out = on(poisoned(1, np.int32))
    asserts[(1,)](out, 2)
    assert on.back(out).tolist() == [2]
    with pytest.raises(libtile.CompilationError, match="the message of device_assert must be a constant text"):
        wrong_assert.warmup("i32")


@libtile.jit
def types_of_constants(out):
    x: tl.constexpr = 3
    i = tl.program_id(0)
    tl.static_assert(x.type == tl.constexpr_type(3))
    tl.static_assert(x.type != tl.constexpr_type(4))
    tl.static_assert(isinstance(x.type, tl.constexpr_type))
    t = tl.tuple([i, x])
    tl.static_assert((i, x).type == tl.tuple_type([tl.int32, tl.constexpr_type(3)]))
    tl.static_assert((i, x).type != t.type)  # the constant has become a number of the running program
    tl.static_assert(isinstance(t.type, tl.tuple_type))
    tl.static_assert(((3, 4) or (5, 6)) == (3, 4))
    tl.static_assert((() or (5, 6)) == (5, 6))
    tl.static_assert(((3, 4) and (5, 6)) == (5, 6))
    tl.static_assert((() and tl.program_id(0)) == ())
    tl.store(out, t[1] + t[0])


@libtile.jit
def number(out, pair):
    tl.static_assert(pair[0] == 2)
    tl.store(out, pair[0] + pair[1])


@pytest.mark.parametrize("device", DEVICES)
def test_types_of_constants_and_tuples(device):
    on = OnDevice(device)
    out = on(poisoned(2, np.int32))
    types_of_constants[(1,)](out)
    assert on.back(out)[0] == 3
    number[(1,)](out, (tl.constexpr(2), 5))
    assert on.back(out)[0] == 7
