# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users make: each gives an error at its place, with a caret and words that help; a
process goes on afterwards. The comment `# here` stands on the line that the error must point at; `at` is
the text on that line that the caret must underline."""
import inspect

import numpy as np
import pytest

import libtile
import libtile.language as tl

MISTAKES = []


def mistake(message, error=libtile.CompilationError, at=""):
    def keep(function):
        MISTAKES.append(pytest.param(libtile.jit(function), message, error, at, id=function.__name__))
        return function
    return keep


def test_each_mistake_is_told_at_its_place():
    """The parametrised test below runs over what the decorators of this file gathered."""
    assert len(MISTAKES) >= 60


@libtile.jit
def two(a, b):
    return a + b


@libtile.jit
def shifted(value, amount):
    return value << amount


@libtile.jit
def first_of(value, pointer):
    return tl.load(pointer) + value


@libtile.jit
def different_returns(n):
    if n > 2:
        return 1
    return 2.5  # here


@libtile.jit
def endless(n):
    return endless(n)  # here


def plain_python(x):
    return x


class Settings:
    block = 16


settings = Settings()
BLOCK = 16


# ---- prints and asserts

@mistake("the prefix of device_print must be a constant text, got tensor of int32", at="n")
def print_without_a_prefix(x, i, n):
    print(n)  # here


@mistake("the prefix of device_print has a character that is no printable ASCII", at="'größe'")
def print_with_a_prefix_beyond_ascii(x, i, n):
    tl.device_print('größe', n)  # here


@mistake("device_print shows tiles and numbers behind its prefix, got constexpr 'b'", at='"b"')
def print_of_a_text(x, i, n):
    print("a", n, "b")  # here


@mistake("device_print shows tiles and numbers behind its prefix, got tuple", at="(n, n)")
def print_of_a_tuple(x, i, n):
    print("a", (n, n))  # here


@mistake("device_print shows tiles and numbers behind its prefix, got None", at="None")
def print_of_nothing(x, i, n):
    print("a", None)  # here


@mistake("hex of device_print must be a constant bool, got tensor of int1", at="hex=n == 3")
def print_in_hex_perhaps(x, i, n):
    print("a", n, hex=n == 3)  # here


@mistake("`sep`")
def print_with_a_separator(x, i, n):
    print("a", n, sep=", ")  # here


@libtile.jit
def printing(a, b):
    tl.device_print("a", a)  # here
    return a + b


@mistake("a function that combines elements computes and does nothing else, but it has a print",
         at='tl.device_print("a", a)')
def print_in_a_reduction(x, i, n):
    tl.store(x, tl.reduce(tl.load(x + tl.arange(0, 4)), 0, printing))


@mistake("the message of device_assert must be a constant text, got tensor of int32", at="n")
def assert_with_a_number(x, i, n):
    tl.device_assert(n > 2, n)  # here


@mistake("shapes", at="tl.device_assert(tl.arange(0, 4) < 4, mask=tl.arange(0, 8) < 4)")
def assert_under_a_mask_of_another_shape(x, i, n):
    tl.device_assert(tl.arange(0, 4) < 4, mask=tl.arange(0, 8) < 4)  # here


# ---- dot

@mistake("operands of dot must have one type, got fp32 and int32")
def dot_of_two_types(x, i, n):
    a = tl.zeros((16, 16), tl.float32)
    tl.store(x, tl.sum(tl.dot(a, a.to(tl.int32))))  # here


@mistake("dot takes int8, 8-bit floats, fp16, bf16, fp32 or fp64, got int32")
def dot_of_integers(x, i, n):
    a = tl.zeros((16, 16), tl.int32)
    tl.store(i, tl.sum(tl.dot(a, a)))  # here


@mistake(r"dot of shapes \[16, 32\] and \[16, 32\]: 32 columns meet 16 rows")
def dot_of_shapes_that_do_not_meet(x, i, n):
    a = tl.zeros((16, 32), tl.float32)
    tl.store(x, tl.sum(tl.dot(a, a)))  # here


@mistake("dot takes two matrices")
def dot_of_vectors(x, i, n):
    a = tl.zeros((16,), tl.float32)
    tl.store(x, tl.dot(a, a))  # here


@mistake(r"accumulator of this dot must be fp32\[16, 16\]", at="tl.zeros((16, 8), tl.float32)")
def dot_with_a_small_accumulator(x, i, n):
    a = tl.zeros((16, 16), tl.float16)
    tl.store(x, tl.sum(tl.dot(a, a, tl.zeros((16, 8), tl.float32))))  # here


@mistake("use tl.dot")
def dot_as_an_operator(x, i, n):
    a = tl.zeros((16, 16), tl.float32)
    tl.store(x, tl.sum(a @ a))  # here


# ---- shapes

@mistake(r"pointer and mask: shapes \[16\] and \[8\] do not broadcast: axis 0 has 16 and 8", at="mask=tl.arange(0, 8) < n")
def mask_of_another_shape(x, i, n):
    tl.store(x, tl.sum(tl.load(x + tl.arange(0, 16), mask=tl.arange(0, 8) < n)))  # here


@mistake(r"value and pointer: shapes \[8\] and \[16\] do not broadcast", at="tl.zeros((8,), tl.float32)")
def value_of_another_shape(x, i, n):
    tl.store(x + tl.arange(0, 16), tl.zeros((8,), tl.float32))  # here


@mistake("the pointer is a scalar", at="tl.arange(0, 16)")
def tile_through_a_scalar_pointer(x, i, n):
    tl.store(x, tl.arange(0, 16))  # here


@mistake("16 elements are not 15")
def reshape_to_another_size(x, i, n):
    tl.store(x, tl.sum(tl.reshape(tl.arange(0, 16), (3, 5))))  # here


@mistake("axis 1 is outside of a tile with 1 axis", at="axis=1")
def axis_too_far(x, i, n):
    tl.store(x, tl.sum(tl.arange(0, 16), axis=1))  # here


@mistake("arange has more than 16777216 elements")
def tile_too_big(x, i, n):
    tl.store(x + tl.arange(0, 1 << 25), 0.0)  # here


@mistake("has more than 16777216 elements")
def product_of_tiles_too_big(x, i, n):
    a = tl.arange(0, 1 << 13)
    tl.store(x + a[:, None] + a[None, :], 0.0)  # here


@mistake("end of arange must be greater than its start")
def empty_range(x, i, n):
    tl.store(x, tl.sum(tl.arange(4, 0)))  # here


@mistake("subscripted by None, slices and constants.*taken by gather")
def element_of_a_tile(x, i, n):
    tl.store(x, tl.arange(0, 16)[n])  # here


@mistake("index 16 is outside of a tensor's axis of 16")
def element_past_a_tile(x, i, n):
    tl.store(x, tl.arange(0, 16)[16])  # here


@mistake("split takes a tile whose last axis has extent 2", at="tl.arange(0, 16)")
def halves_of_a_row(x, i, n):
    a, b = tl.split(tl.arange(0, 16))  # here
    tl.store(x + a, b)


@mistake("one type, got int32 and fp32")
def a_join_of_two_types(x, i, n):
    a = tl.join(tl.arange(0, 16), tl.zeros((16,), tl.float32))  # here
    tl.store(x, tl.sum(tl.sum(a, 0), 0))


@mistake("differ outside of axis 0")
def a_gather_of_other_rows(x, i, n):
    a = tl.zeros((4, 8), tl.float32)
    b = tl.gather(a, tl.zeros((4, 4), tl.int32), 0)  # here
    tl.store(x, tl.sum(tl.sum(b, 0), 0))


@mistake("computes with scalars and touches no memory, but it has a load")
def a_map_that_reads(x, i, n):
    a = tl.map_elementwise(first_of, tl.zeros((16,), tl.int32) + n, x)  # here
    tl.store(x + tl.arange(0, 16), a)


@mistake(r"other and pointer: shapes \[4\] and \[8\] do not broadcast", at="other=tl.arange(0, 4)")
def other_of_another_shape(x, i, n):
    tl.store(i, tl.sum(tl.load(i + tl.arange(0, 8), n > 2, other=tl.arange(0, 4))))  # here


@mistake(r"val and pointer: shapes \[16\] and \[8\] do not broadcast", at="tl.arange(0, 16)")
def an_atomic_of_another_shape(x, i, n):
    tl.atomic_add(i + tl.arange(0, 8), tl.arange(0, 16))  # here


@mistake(r"mask and pointer: shapes \[16\] and \[8\] do not broadcast", at="mask=tl.arange(0, 16) < n")
def an_atomic_with_a_mask_of_another_shape(x, i, n):
    tl.atomic_max(x + tl.arange(0, 8), 1.0, mask=tl.arange(0, 16) < n)  # here


@mistake(r"cmp and pointer: shapes \[16\] and \[8\] do not broadcast", at="tl.arange(0, 16)")
def a_comparison_of_another_shape(x, i, n):
    tl.atomic_cas(i + tl.arange(0, 8), tl.arange(0, 16), 0)  # here


@mistake("max takes tiles of numbers, got tensor of fp32; tl.maximum is that of two values", at="tl.load(x)")
def a_maximum_of_two(x, i, n):
    tl.store(x, tl.max(tl.load(x), 2.0))  # here


# ---- constants

@mistake("end of arange must be a constant integer.*annotate.*tl.constexpr", at="n")
def block_size_that_is_no_constexpr(x, i, n):
    tl.store(x + tl.arange(0, n), 0.0)  # here


@mistake("must be a constant integer.*tl.constexpr", at="(n,)")
def shape_that_is_no_constexpr(x, i, n):
    tl.store(x, tl.sum(tl.zeros((n,), tl.float32)))  # here


@mistake("must be a constant integer.*tl.constexpr", at="n")
def static_range_of_a_tensor(x, i, n):
    for k in tl.static_range(n):  # here
        tl.store(x + k, 1.0)


@mistake("`a` is constexpr and cannot hold tensor of int32")
def constexpr_of_a_tensor(x, i, n):
    a: tl.constexpr = n + 1  # here
    tl.store(x, a)


@mistake("BLOCK.*tl.constexpr")
def plain_global(x, i, n):
    tl.store(x + tl.arange(0, BLOCK), 0.0)  # here


@mistake("settings.*a kernel cannot use")
def global_object(x, i, n):
    tl.store(x + tl.arange(0, settings.block), 0.0)  # here


@mistake("integer 300 is out of range for int8")
def constant_out_of_range(x, i, n):
    a = tl.zeros((4,), tl.int8) + 300  # here
    tl.store(x + tl.arange(0, 4), a)


@mistake("division by zero in a constant expression")
def constant_division_by_zero(x, i, n):
    tl.store(x, 1 / 0)  # here


@mistake("more than 100000 iterations to unroll")
def unrolled_without_end(x, i, n):
    for _ in tl.static_range(100000000):  # here
        tl.store(x, 1.0)


# ---- names and calls

@mistake("`totl` is not defined", at="totl")
def undefined_name(x, i, n):
    total = tl.load(x)
    tl.store(x, totl)  # here


@mistake("`y` is not defined: it has a value on one side of an `if` only")
def name_of_one_branch(x, i, n):
    if n > 2:
        y = 3.0
    tl.store(x, y)  # here


@mistake("`acc` is not defined")
def sum_without_a_start(x, i, n):
    acc += tl.load(x)  # here
    tl.store(x, acc)


@mistake("no name `maximun`; did you mean `maximum`", at="tl.maximun")
def misspelt_operation(x, i, n):
    tl.store(x, tl.maximun(n, 1))  # here


@mistake("no parameter `maks`; did you mean `mask`", at="maks=True")
def misspelt_keyword(x, i, n):
    tl.store(x, tl.load(x, maks=True))  # here


@mistake("`shifted` has no parameter `ammount`; did you mean `amount`", at="ammount=2")
def misspelt_keyword_of_a_function(x, i, n):
    tl.store(x, shifted(1, ammount=2))  # here


@mistake("`blok` is not defined; did you mean `block`", at="blok")
def misspelt_parameter(x, i, n, block: tl.constexpr = 4):
    tl.store(x + tl.arange(0, blok), 0.0)  # here


@mistake("`plain_pyhton` is not defined; did you mean `plain_python`", at="plain_pyhton")
def misspelt_global(x, i, n):
    tl.store(x, plain_pyhton(1))  # here


@mistake("`isinstanc` is not defined; did you mean `isinstance`", at="isinstanc")
def misspelt_function_of_python(x, i, n):
    tl.static_assert(isinstanc(n, tl.tensor))  # here


@mistake("`contineu` is not defined; did you mean `continue`", at="contineu")
def misspelt_keyword_of_python(x, i, n):
    for k in range(n):
        contineu  # here


@mistake("module numpy has no attribute `floaat32`; did you mean `float32`", at="np.floaat32")
def misspelt_name_of_a_module(x, i, n):
    tl.store(x, np.floaat32)  # here


@mistake("tensor of fp32 has no attribute `dtyp`; did you mean `dtype`", at="tl.load(x).dtyp")
def misspelt_attribute_of_a_tensor(x, i, n):
    tl.static_assert(tl.load(x).dtyp == tl.float32)  # here


@mistake("type fp32 has no attribute `is_flaoting`; did you mean `is_floating`", at="x.dtype.element_ty.is_flaoting")
def misspelt_attribute_of_a_type(x, i, n):
    tl.static_assert(x.dtype.element_ty.is_flaoting())  # here


@mistake("tl.slice_type is not there yet", libtile.UnsupportedError, at="tl.load(x).slice_type")
def method_of_later(x, i, n):
    tl.store(x, tl.load(x).slice_type(0))  # here


@mistake("tl.slice_type is not there yet", libtile.UnsupportedError, at="tl.slice_type")
def operation_of_later(x, i, n):
    tl.store(x, tl.sum(tl.slice_type(tl.arange(0, 4), 0)))  # here


@mistake("the language has no name `tanh`; there is tl.extra.libdevice.tanh", at="tl.tanh")
def operation_of_libdevice(x, i, n):
    tl.store(x, tl.tanh(tl.load(x)))  # here


@mistake("tensor of pointer<fp32> has no attribute `load`; there is tl.load", at="x.load")
def method_that_is_an_operation(x, i, n):
    tl.store(x, x.load())  # here


@mistake(r"tuple of 0 has no attribute `append`; a tuple or list does not change", at="values.append")
def list_that_grows(x, i, n):
    values = []
    values.append(n)  # here


@mistake(r"type fp32 cannot be called; x.to\(it\) casts", at="tl.float32(n)")
def type_that_is_called(x, i, n):
    tl.store(x, tl.float32(n))  # here


@mistake("a subscript does not take function two; a kernel calls it without a grid", at="two[(1,)]")
def launch_within_a_kernel(x, i, n):
    two[(1,)](x, n)  # here


@mistake("no attribute `astype`")
def method_of_numpy(x, i, n):
    tl.store(x, tl.load(x).astype(tl.float32))  # here


@mistake("`two` needs a value for `b`")
def argument_missing(x, i, n):
    tl.store(x, two(1))  # here


@mistake("`two` takes 2 positional arguments, not 3", at="3")
def argument_too_many(x, i, n):
    tl.store(x, two(1, 2, 3))  # here


@mistake("`two` has no parameter `c`", at="c=2")
def argument_of_an_unknown_name(x, i, n):
    tl.store(x, two(1, c=2))  # here


@mistake("Python function plain_python cannot be called.*jit")
def plain_function(x, i, n):
    tl.store(x, plain_python(tl.load(x)))  # here


@mistake("cannot be called in a kernel")
def function_of_numpy(x, i, n):
    tl.store(x, np.exp(tl.load(x)))  # here


@mistake("nested more than 100 deep; a recursion must end on a constant")
def recursion_without_an_end(x, i, n):
    tl.store(x, endless(n))


@mistake("2 names cannot take a tuple of 3 values")
def too_few_names(x, i, n):
    a, b = (1, 2, 3)  # here
    tl.store(x, a + b)


@mistake("takes 2 positional arguments, not 4")
def reduction_by_a_function_of_too_few(x, i, n):
    tl.store(x, tl.reduce((tl.arange(0, 8), tl.arange(0, 8)), 0, two)[0])  # here


# ---- within functions of the library: the call first

@mistake("exp takes floats, got tensor of int32", at="tl.softmax(tl.arange(0, 16))")
def softmax_of_integers(x, i, n):
    tl.store(x + tl.arange(0, 16), tl.softmax(tl.arange(0, 16)))  # here


@mistake("timeout_ns of atomic_poll must be a scalar integer", at="tl.atomic_poll(i, 1, timeout_ns=0.5)")
def a_time_that_is_a_float(x, i, n):
    tl.store(i, tl.atomic_poll(i, 1, timeout_ns=0.5).to(tl.int32))  # here


# ---- types

@mistake("mask must be boolean, got tensor of int32", at="mask=tl.arange(0, 16)")
def mask_of_numbers(x, i, n):
    tl.store(x, tl.sum(tl.load(x + tl.arange(0, 16), mask=tl.arange(0, 16))))  # here


@mistake("load takes other only with a mask", at="other=1.0")
def other_without_a_mask(x, i, n):
    tl.store(x, tl.load(x, other=1.0))  # here


@mistake("pointer of load must be a pointer", at="n")
def load_of_a_number(x, i, n):
    tl.store(x, tl.load(n))  # here


@mistake("pointer of store must be a pointer", at="1.0")
def exchanged_arguments_of_store(x, i, n):
    tl.store(1.0, x)  # here


@mistake("const", at="x")
def store_through_a_constant_pointer(x: tl.const, i, n):
    tl.store(x, 1.0)  # here


@mistake(r"operator \+ does not take tensor of pointer<fp32> and tensor of fp32")
def offset_that_is_a_float(x, i, n):
    tl.store(x + tl.load(x), 1.0)  # here


@mistake("operator & does not take tensor of fp32")
def bits_of_a_float(x, i, n):
    tl.store(x, tl.load(x) & 1)  # here


@mistake("mask must be boolean, got constexpr 1.0", at="mask=1.0")
def mask_that_is_a_float(x, i, n):
    tl.store(x, 1.0, mask=1.0)  # here


@mistake("expected a number or a tensor, got constexpr 'a'", at="'a'")
def exp_of_a_text(x, i, n):
    tl.store(x, tl.exp('a'))  # here


@mistake("fma takes floats, got tensor of int32", at="n")
def fma_of_an_integer(x, i, n):
    tl.store(i, tl.fma(n, 2, 3))  # here


@mistake("umulhi takes integers of 32 or 64 bits, got tensor of fp32", at="tl.load(x)")
def high_half_of_a_float(x, i, n):
    tl.store(i, tl.umulhi(3, tl.load(x)))  # here


@mistake("fdiv takes floats, got tensor of int32", at="n")
def division_of_integers(x, i, n):
    tl.store(x, tl.fdiv(n, n + 1))  # here


@mistake("cannot convert None to int32|expected a number or a tensor, got None", at="None")
def join_with_nothing(x, i, n):
    tl.store(x, tl.where(n > 1, n, None))  # here


@mistake(r"operator in compares scalars, got tensor of int32\[4\] and constexpr 1; write \(x == a\) \| \(x == b\)",
         at="tl.arange(0, 4) in (1, 7)")
def tile_in_a_tuple(x, i, n):
    if tl.arange(0, 4) in (1, 7):  # here
        tl.store(x, 1.0)


@mistake("operator in does not take tensor of int32 and constexpr 'abc'", at="n in 'abc'")
def number_in_a_text(x, i, n):
    if n in 'abc':  # here
        tl.store(x, 1.0)


@mistake("`abs` is not defined; there is tl.abs", at="abs")
def abs_of_python(x, i, n):
    tl.store(i, abs(n))  # here


@mistake("static_assert takes a constant, got tensor of int1; tl.device_assert checks what the running program knows", at="n > 3")
def static_assert_at_run_time(x, i, n):
    tl.static_assert(n > 3)  # here


@mistake("expected a number or a tensor, got constexpr 'no'", at="'no'")
def other_that_nothing_reads(x, i, n):
    tl.store(x, tl.load(x, True, 'no'))  # here


@mistake(r"other has shape \[4\] but the pointer is a scalar", at="tl.arange(0, 4)")
def other_of_another_shape(x, i, n):
    tl.store(x, tl.load(x, True, tl.arange(0, 4)))  # here


@mistake("atomic_poll takes pointers to integers", at="tl.atomic_poll(x, 1)")
def poll_of_floats(x, i, n):
    tl.atomic_poll(x, 1)  # here


@mistake(r"operator \+ does not take tensor of pointer<fp32> and tensor of fp32; an offset is an integer, as // gives it", at="x + n / 2")
def offset_by_half(x, i, n):
    tl.store(x + n / 2, 1.0)  # here


@mistake("inline assembly on a CPU: `popc.b32 .0, .1` is an instruction that is not known there", libtile.UnsupportedError)
def instruction_of_gpus(x, i, n):
    tl.store(i, tl.inline_asm_elementwise("popc.b32 $0, $1;", "=r,r", [n], tl.int32, True, 1))  # here


@mistake("exp takes floats, got tensor of int32", at="tl.arange(0, 16)")
def exp_of_integers(x, i, n):
    tl.store(x + tl.arange(0, 16), tl.exp(tl.arange(0, 16)))  # here


@mistake("dtype of a cast must be a type such as tl.float32", at='"float32"')
def dtype_as_text(x, i, n):
    tl.store(x, tl.load(x).to("float32"))  # here


@mistake("cannot convert None to fp32")
def value_of_a_missing_return(x, i, n):
    tl.store(x, tl.static_assert(True))  # here


@mistake("axis of program_id must be 0, 1 or 2", at="3")
def axis_of_the_grid(x, i, n):
    tl.store(x, tl.program_id(3))  # here


@mistake("takes pointers to integers", at="x")
def bits_of_floats(x, i, n):
    tl.atomic_and(x, 1)  # here


@mistake("takes pointers to integers of 8 to 64 bits or floats")
def atomic_of_pointers(x, i, n):
    tl.atomic_xchg(x.to(tl.pi32_t, bitcast=True).to(tl.pointer_type(tl.pi32_t), bitcast=True), i)  # here


@mistake("sem must be one of 'relaxed', 'acquire', got 'release'", at='sem="release"')
def a_load_that_releases(x, i, n):
    tl.atomic_load(i, sem="release")  # here


@mistake("scope must be one of", at="scope='grid'")
def a_scope_of_its_own(x, i, n):
    tl.atomic_add(i, 1, scope='grid')  # here


# ---- blocks

@mistake("load takes boundary_check for a block pointer", at="boundary_check=(0,)")
def boundary_of_a_pointer(x, i, n):
    tl.load(x + tl.arange(0, 8), boundary_check=(0,))  # here


@mistake("load takes padding_option for a block pointer")
def padding_of_a_pointer(x, i, n):
    tl.load(x, padding_option="zero")  # here


@mistake("load takes no mask for a block pointer", at="mask=n > 3")
def mask_of_a_block(x, i, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    tl.load(block, mask=n > 3)  # here


@mistake("boundary_check names axes of the block, 0 to 0", at="boundary_check=(0, 1)")
def boundary_without_an_axis(x, i, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    tl.store(block, 1.0, boundary_check=(0, 1))  # here


@mistake("the padding 'nan' is for floats, not for int32", at="padding_option='nan'")
def integers_that_are_no_numbers(x, i, n):
    block = tl.make_block_ptr(i, (n,), (1,), (0,), (8,), (0,))
    tl.load(block, boundary_check=(0,), padding_option='nan')  # here


@mistake("the strides must have an entry for each axis of the block: 2, not 1")
def strides_that_are_too_few(x, i, n):
    tl.make_block_ptr(x, (n, n), (n,), (0, 0), (8, 8), (1, 0))  # here


@mistake("order must name each axis of the block once, 0 to 1", at="(1, 1)")
def an_order_twice(x, i, n):
    tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (8, 8), (1, 1))  # here


@mistake("block_shape must be a constant integer")
def a_block_of_any_size(x, i, n):
    tl.make_block_ptr(x, (n,), (1,), (0,), (n,), (0,))  # here


@mistake("the base of make_block_ptr must be a pointer to elements")
def a_block_of_a_tile(x, i, n):
    tl.make_block_ptr(x + tl.arange(0, 8), (n,), (1,), (0,), (8,), (0,))  # here


@mistake("advance takes a block pointer", at="x")
def a_pointer_that_advances(x, i, n):
    tl.advance(x, (1,))  # here


@mistake(r"`block` is pointer to a block fp32\[8\] before the loop and pointer to a block fp32\[16\] after its body", at="block")
def a_loop_that_changes_a_block(x, i, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    for _ in range(n):
        block = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))  # here
    tl.store(block, 1.0)


@mistake(r"`pair` holds tensor of int32 before the loop and tensor of fp32 after its body", at="pair")
def a_loop_that_changes_a_part(x, i, n):
    pair = (n, 1.0)
    for _ in range(n):
        pair = (1.5, 1.0)  # here
    tl.store(x, pair[1])


@mistake(r"expected a tensor descriptor \(tl.make_tensor_descriptor\), got tensor of pointer<fp32>", at="x")
def a_pointer_for_a_descriptor(x, i, n):
    tl.load_tensor_descriptor(x, [0])  # here


@mistake(r"must be a pointer or a tile of pointers, got tensor descriptor of blocks fp32\[8\], which has methods: load, store", at="described")
def a_descriptor_for_a_pointer(x, i, n):
    described = tl.make_tensor_descriptor(x, [n], [1], [8])
    tl.store(x, tl.sum(tl.load(described)))  # here


@mistake(r"the pointer of atomic_add must be a pointer or a tile of pointers, got pointer to a block fp32\[8\]", at="block")
def an_atomic_of_a_block(x, i, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    tl.atomic_add(block, 1.0)  # here


@mistake(r"operator \+ does not take pointer to a block fp32\[8\] and constexpr 8; tl.advance moves a block pointer", at="block + 8")
def a_block_that_is_added_to(x, i, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    tl.store(block + 8, 1.0)  # here


@mistake(r"operator \+ does not take tensor descriptor of blocks fp32\[8\] and constexpr 4; a descriptor takes offsets", at="described + 4")
def a_descriptor_that_is_added_to(x, i, n):
    described = tl.make_tensor_descriptor(x, [n], [1], [8])
    tl.store(described + 4, 1.0)  # here


@mistake("the last stride of a tensor descriptor must be the constant 1")
def a_descriptor_by_columns(x, i, n):
    tl.make_tensor_descriptor(x, [n, n], [1, n], [8, 8])  # here


@mistake("the value must have the shape of the block, \\[4, 8\\], got \\[8, 4\\]")
def a_block_stored_turned(x, i, n):
    described = tl.make_tensor_descriptor(x, [n, n], [n, 1], [4, 8])
    described.store([0, 0], tl.zeros((8, 4), tl.float32))  # here


@mistake("the offsets of a block must have an entry for each axis of the block: 2, not 1", at="[0]")
def a_block_at_one_offset(x, i, n):
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [4, 8]).load([0])  # here


@mistake("blocks of one row")
def rows_of_larger_blocks(x, i, n):
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [4, 8]).gather(tl.arange(0, 8), 0)  # here


@mistake("has no attribute `laod`; did you mean `load`?")
def a_mistyped_method(x, i, n):
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [4, 8]).laod([0, 0])  # here


# ---- control

@mistake("`acc` is tensor of int32 before the loop and tensor of fp32 after its body")
def loop_that_changes_a_type(x, i, n):
    acc = 0
    for k in range(n):
        acc = acc + tl.load(x + k)  # here
    tl.store(x, acc)


@mistake(r"`a` is tensor of fp32\[16\] before the loop and tensor of fp32\[16, 1\] after its body")
def loop_that_changes_a_shape(x, i, n):
    a = tl.zeros((16,), tl.float32)
    while n > 0:
        a = a[:, None]  # here
        n -= 1
    tl.store(x, tl.sum(a))


@mistake("`a` would be tensor of int32 on one side of the condition and tensor of fp32 on the other")
def branches_of_two_types(x, i, n):
    if n > 2:
        a = 1
    else:
        a = 2.0  # here
    tl.store(x, a)


@mistake("a function must return one type")
def returns_of_two_types(x, i, n):
    tl.store(x, different_returns(n))


@mistake("a condition must be a scalar")
def condition_of_a_tile(x, i, n):
    if tl.arange(0, 16) > n:  # here
        tl.store(x, 1.0)


@mistake("a `for` runs over range")
def loop_over_a_tile(x, i, n):
    for k in tl.arange(0, 4):  # here
        tl.store(x + k, 1.0)


@mistake("range needs integers", at="n / 2")
def range_of_floats(x, i, n):
    for k in range(0, n / 2):  # here
        tl.store(x + k, 1.0)


@mistake("step of range is 0", at="0")
def range_without_a_step(x, i, n):
    for k in range(0, n, 0):  # here
        tl.store(x + k, 1.0)


# ---- Python that is no kernel language

@mistake("assignment to an element is not allowed")
def assignment_to_an_element(x, i, n):
    x[0] = 1.0  # here


@mistake("`try` is not allowed")
def exceptions(x, i, n):
    try:  # here
        tl.store(x, 1.0)
    except ValueError:
        pass


@mistake("`lambda` is not allowed")
def anonymous_function(x, i, n):
    f = lambda a: a + 1  # here  # noqa: E731
    tl.store(x, f(1))


@mistake("a nested function is not allowed")
def nested_function(x, i, n):
    def inner(a):  # here
        return a
    tl.store(x, inner(1))


@mistake("a dict is not allowed")
def dictionary(x, i, n):
    table = {1: 2}  # here
    tl.store(x, table[1])


@pytest.mark.parametrize("kernel, message, error, at", MISTAKES)
def test_mistake(kernel, message, error, at):
    x, i = np.zeros(64, np.float32), np.zeros(64, np.int32)
    with pytest.raises(error, match=message) as caught:
        kernel[(1,)](x, i, 3)
    told = caught.value
    with open(__file__) as stream:
        lines = stream.read().splitlines()
    assert told.file == __file__ and "  # here" in lines[told.line - 1], str(told)
    text = str(told)
    assert f":{told.line}:{told.column}: error:" in text and "^" in text
    # The caret stands below the text that the column names.
    shown, caret = text.splitlines()[1:3]
    assert lines[told.line - 1] in shown
    assert caret.index("^") - shown.index(lines[told.line - 1]) == told.column - 1
    assert lines[told.line - 1][told.column - 1:].startswith(at), text
    assert not at or len(caret.strip(" |")) == len(at), text
    if told.line not in range(*span_of(kernel)):
        assert "called from" in text
    assert not x.any() and not i.any()


@libtile.jit
def middle(a):
    return tl.softmax(a)  # the place


@libtile.jit
def softmax_within(x):
    tl.store(x + tl.arange(0, 16), middle(tl.arange(0, 16)))


def test_a_mistake_within_the_library():
    with pytest.raises(libtile.CompilationError) as caught:
        softmax_within[(1,)](np.zeros(16, np.float32))
    head, line, caret, call, *rest = str(caught.value).splitlines()
    assert head.startswith(f"{__file__}:") and "tl.softmax(a)" in line and "^" in caret
    assert call.startswith("called from") and "middle(tl.arange" in rest[0]
    assert [text.startswith("within the library, prelude/standard.py:") for text in rest].count(True) == 1
    assert not any("called from" in text for text in rest) and "tl.exp(" in rest[-2]


def span_of(kernel):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first, first + len(lines)


# ---- mistakes of the launch

@libtile.jit
def fill(x, value, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), value)


@pytest.mark.parametrize("argument", [[1.0] * 16, object(), 1 + 2j, np.zeros(16, np.complex64), {},
                                      np.array([None] * 16), np.zeros(16, ">f4"), np.longdouble(2)],
                         ids=["list", "object", "complex", "complex array", "dict", "object array",
                              "byte-swapped", "long double"])
def test_arguments_that_are_no_arrays(argument):
    with pytest.raises((TypeError, ValueError), match="'x'"):
        fill[(1,)](argument, 1.0, BLOCK=16)


def test_read_only_arrays_are_not_written():
    x = np.zeros(16, np.float32)
    x.flags.writeable = False
    with pytest.raises((TypeError, ValueError), match="read-only"):
        fill[(1,)](x, 1.0, BLOCK=16)
    assert not x.any()


def test_a_number_in_place_of_an_array():
    with pytest.raises(libtile.CompilationError, match="pointer"):
        fill[(1,)](3, 1.0, BLOCK=16)


@pytest.mark.parametrize("value", [np.float32(2.5), np.float64(2.5), 2.5, np.float16(2.5)])
def test_numpy_numbers_are_numbers(value):
    x = np.zeros(16, np.float32)
    fill[(1,)](x, value, BLOCK=16)
    assert (x == 2.5).all()


def test_text_in_place_of_an_array():
    with pytest.raises(libtile.CompilationError, match=r"operator \+ does not take constexpr 'text'"):
        fill[(1,)]("text", 1.0, BLOCK=16)


@pytest.mark.parametrize("value", [np.int32(-7), np.int64(-7), -7, np.int8(-7)])
def test_numpy_integers_are_integers(value):
    x = np.zeros(16, np.int64)
    fill[(1,)](x, value, BLOCK=np.int64(16))
    assert (x == -7).all()
