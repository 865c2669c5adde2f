# SPDX-License-Identifier: Apache-2.0
"""A part of the kernel language in NumPy: Python runs the text of a function that random_functions.py made, with these
names in place of libtile's. Loops, conditions, tuples and classes are Python's own, so nothing about them is written
twice. Numbers are integers that their types hold exactly: what would round, saturate or be undefined is an assertion
that fails here, for then the function should not have been made.

    names = numpy_language.run(text)      # what the text defines
    names["f"](Tensor(array), Pointer(memory)).array
"""
import builtins
import collections
import dataclasses
import re
import types

import ml_dtypes
import numpy as np
import random_values
from random_math import words_of
from random_values import truncated

TYPES = {name: dtype for dtype, name in random_values.NAMES.items()} | {name: np.dtype(t) for name, t in [
    ("float8e5", ml_dtypes.float8_e5m2), ("float8e4nv", ml_dtypes.float8_e4m3fn),
    ("float8e4b8", ml_dtypes.float8_e4m3fnuz), ("float8e5b16", ml_dtypes.float8_e5m2fnuz)]}
NAMES = {dtype: name for name, dtype in TYPES.items()}
INT32, INT64, FLOAT32, BOOL = TYPES["int32"], TYPES["int64"], TYPES["float32"], TYPES["int1"]


def is_float(dtype):
    return dtype.kind not in "biu"


def cast(array, dtype):
    """Exactly, or an assertion fails; from integer to integer by the low bits."""
    if dtype == BOOL:
        return array != 0
    if not is_float(array.dtype) and not is_float(dtype):
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        back = result.astype(np.float64 if is_float(array.dtype) else array.dtype)
    assert np.array_equal(back, array.astype(back.dtype)), f"{array.dtype} to {dtype} is not exact"
    return result


def meet(a, b):
    """The type in which two tensors meet."""
    if a == b:
        return a
    if is_float(a) or is_float(b):
        floats = [t for t in (a, b) if is_float(t)]
        if len(floats) == 2 and {NAMES[t] for t in floats} == {"float16", "bfloat16"}:
            return TYPES["float16"]
        widest = builtins.max(floats, key=lambda t: t.itemsize)
        return FLOAT32 if widest == TYPES["bfloat16"] and len(floats) == 1 else widest
    if a.itemsize == b.itemsize and BOOL not in (a, b):
        return a if a.kind == "u" else b
    return b if a == BOOL or b != BOOL and b.itemsize > a.itemsize else a


def rank(kind):
    return {"b": 0, "i": 1, "u": 1}.get(kind, 2)


def tensor(x, like=None):
    """A number as a tensor: of the type of `like` if that is of its kind or above."""
    if isinstance(x, Tensor):
        return x
    kind = {bool: "b", int: "i", float: "f"}[type(x)]
    if like is not None and rank(like.kind) >= rank(kind):
        return Tensor(np.array(x, like))
    if kind == "i":
        return Tensor(np.array(x, INT32 if -2**31 <= x < 2**31 else INT64))
    return Tensor(np.array(x, BOOL if kind == "b" else FLOAT32))


def both(x, y):
    x, y = (tensor(x, y.array.dtype if isinstance(y, Tensor) else None),
            tensor(y, x.array.dtype if isinstance(x, Tensor) else None))
    dtype = meet(x.dtype, y.dtype)
    return cast(x.array, dtype), cast(y.array, dtype)


def arithmetic(function):
    def result(x, y):
        a, b = both(x, y)
        if not is_float(a.dtype):
            with np.errstate(all="ignore"):
                return Tensor(np.asarray(function(a, b)).astype(a.dtype))
        return Tensor(cast(np.asarray(function(a.astype(np.float64), b.astype(np.float64))), a.dtype))
    return result, lambda x, y: result(y, x)


def comparison(function):
    return lambda x, y: Tensor(function(*both(x, y)))


def divided(which):
    def result(x, y):
        a, b = np.broadcast_arrays(*both(x, y))
        return Tensor(np.fmod(a, b) if which == 1 and is_float(a.dtype) else truncated(a, b)[which])
    return result, lambda x, y: result(y, x)


class Tensor:
    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    __add__, __radd__ = arithmetic(np.add)
    __sub__, __rsub__ = arithmetic(np.subtract)
    __mul__, __rmul__ = arithmetic(np.multiply)
    __and__, __rand__ = arithmetic(np.bitwise_and)
    __or__, __ror__ = arithmetic(np.bitwise_or)
    __xor__, __rxor__ = arithmetic(np.bitwise_xor)
    __floordiv__, __rfloordiv__ = divided(0)
    __mod__, __rmod__ = divided(1)
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(comparison, (
        np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))
    __hash__ = None

    def __neg__(self):
        return 0 - self

    def __invert__(self):
        return Tensor(~self.array)

    def __lshift__(self, count):
        bits = 8 * self.dtype.itemsize
        return Tensor(np.zeros_like(self.array) if count >= bits else self.array << self.dtype.type(count))

    def __rshift__(self, count):
        bits = 8 * self.dtype.itemsize
        if self.dtype.kind == "u" and count >= bits:
            return Tensor(np.zeros_like(self.array))
        return Tensor(self.array >> self.dtype.type(builtins.min(count, bits - 1)))

    def __bool__(self):
        assert self.array.size == 1
        return bool(self.array.reshape(()))

    def __getitem__(self, key):
        return Tensor(self.array[key])

    def to(self, dtype):
        return Tensor(cast(self.array, dtype))

    @property
    def T(self):
        return Tensor(self.array.T)

    def __getattr__(self, name):
        function = LANGUAGE.get(name)
        if function is None:
            raise AttributeError(name)
        return types.MethodType(function, self)


class Pointer:
    """Elements of an array with one axis."""

    def __init__(self, memory, index=0):
        self.memory, self.index = memory, np.asarray(index, np.int64)

    def __add__(self, offset):
        return Pointer(self.memory, self.index + tensor(offset).array.astype(np.int64))


# ---- making tiles, memory
def arange(start, end):
    return Tensor(np.arange(start, end, dtype=INT32))


def full(shape, value, dtype):
    return Tensor(np.broadcast_to(cast(tensor(value).array, dtype), shape))


def zeros(shape, dtype):
    return Tensor(np.zeros(shape, dtype))


def places(pointer, mask):
    index = pointer.index
    on = np.broadcast_to(np.True_ if mask is None else tensor(mask).array, index.shape)
    assert ((index >= 0) & (index < pointer.memory.size))[on].all()
    return np.where(on, index, 0), on


def load(pointer, mask=None, other=0):
    index, on = places(pointer, mask)
    dtype = pointer.memory.dtype
    return Tensor(np.where(on, pointer.memory[index], cast(tensor(other).array, dtype)).astype(dtype))


def store(pointer, value, mask=None):
    index, on = places(pointer, mask)
    array = np.broadcast_to(cast(tensor(value).array, pointer.memory.dtype), index.shape)
    pointer.memory[index[on]] = array[on]


def atomic(function):
    def result(pointer, value, mask=None):
        index, on = places(pointer, mask)
        assert np.unique(index[on]).size == np.count_nonzero(on)
        old = np.where(on, pointer.memory[index], np.zeros((), pointer.memory.dtype))
        array = np.broadcast_to(cast(tensor(value).array, pointer.memory.dtype), index.shape)
        with np.errstate(all="ignore"):
            pointer.memory[index[on]] = function(pointer.memory[index], array)[on]
        return Tensor(old)
    return result


# ---- elements
def where(condition, x, y):
    a, b = both(x, y)
    return Tensor(np.where(condition.array, a, b))


def extreme(function):
    return lambda x, y: Tensor(function(*both(x, y)))


minimum, maximum = extreme(np.minimum), extreme(np.maximum)


def clamp(x, low, high):
    return minimum(maximum(x, low), high)


def absolute(x):
    with np.errstate(all="ignore"):
        return Tensor(np.abs(x.array))


def cdiv(x, by):
    return (x + (by - 1)) // by


def fma(x, y, z):
    return x * y + z


def randint(seed, offset):
    return Tensor(words_of(seed, offset.array))


# ---- shapes
def reshape(x, shape):
    return Tensor(x.array.reshape(shape))


def permute(x, order):
    return Tensor(x.array.transpose(order))


def trans(x):
    return Tensor(np.swapaxes(x.array, -1, -2))


def broadcast_to(x, shape):
    return Tensor(np.broadcast_to(tensor(x).array, shape))


def expand_dims(x, axis):
    return Tensor(np.expand_dims(x.array, axis))


def ravel(x):
    return Tensor(x.array.ravel())


def flip(x, axis):
    return Tensor(np.flip(x.array, axis))


def join(a, b):
    return Tensor(np.stack([a.array, b.array], -1))


def split(x):
    return Tensor(x.array[..., 0]), Tensor(x.array[..., 1])


def interleave(a, b):
    return Tensor(np.stack([a.array, b.array], -1).reshape(*a.shape[:-1], -1))


def cat(a, b, dim=0):
    return Tensor(np.concatenate([a.array, b.array], dim))


def gather(x, index, axis):
    place, extent = index.array.astype(np.int64), x.shape[axis]
    place = np.where((place < 0) | (place >= extent), extent - 1, place)
    return Tensor(np.take_along_axis(x.array, place, axis))


# ---- across elements
def summed(x):
    """In the type that sums have."""
    if is_float(x.dtype) or x.dtype.itemsize >= 4:
        return x.array
    return x.array.astype(np.uint32 if x.dtype.kind in "bu" else INT32)


def total(function):
    def result(x, axis, keep_dims=False):
        array = summed(x)
        if not is_float(array.dtype):
            return Tensor(function(array, axis=axis, keepdims=keep_dims, dtype=array.dtype))
        return Tensor(cast(np.asarray(function(array.astype(np.float64), axis=axis, keepdims=keep_dims)), array.dtype))
    return result


def running(x, axis=0, reverse=False):
    array = summed(x)
    wide = array.astype(np.float64) if is_float(array.dtype) else array
    sums = np.cumsum(np.flip(wide, axis) if reverse else wide, axis, dtype=wide.dtype)
    return Tensor(cast(np.flip(sums, axis) if reverse else sums, array.dtype))


def largest(function):
    def result(x, axis, keep_dims=False):
        array = x.array
        if array.dtype.itemsize < 4:
            array = array.astype(FLOAT32 if is_float(array.dtype) else INT32)
        return Tensor(function(array, axis=axis, keepdims=keep_dims))
    return result


def place_of(function):
    return lambda x, axis: Tensor(function(x.array, axis).astype(INT32))


def columns(items, axis):
    return [[Tensor(np.take(x.array, i, axis)) for x in items] for i in range(items[0].shape[axis])]


def many(results):
    return results if isinstance(results, tuple) else (results,)


def reduce(x, axis, function):
    items = x if isinstance(x, tuple) else (x,)
    first, *others = columns(items, axis)
    for right in others:
        first = list(many(function(*first, *right)))
    return tuple(first) if isinstance(x, tuple) else first[0]


def associative_scan(x, axis, function, reverse=False):
    items = x if isinstance(x, tuple) else (x,)
    first, *others = columns(items, axis)[::-1 if reverse else 1]
    steps = [first]
    for right in others:
        steps.append(list(many(function(*steps[-1], *right))))
    results = tuple(Tensor(np.stack([step[k].array for step in (steps[::-1] if reverse else steps)], axis))
                    for k in range(len(items)))
    return results if isinstance(x, tuple) else results[0]


def map_elementwise(function, *items):
    arrays = np.broadcast_arrays(*(x.array for x in items))
    rows = [many(function(*(Tensor(np.array(v, v.dtype)) for v in row))) for row in zip(*(a.ravel() for a in arrays))]
    results = tuple(Tensor(np.array([x.array for x in column], column[0].dtype).reshape(arrays[0].shape))
                    for column in zip(*rows))
    return results if len(results) > 1 else results[0]


def sort(x, dim, descending=False):
    array = np.sort(x.array, dim)
    return Tensor(np.flip(array, dim) if descending else array)


def topk(x, k, dim, descending=True):
    return Tensor(np.take(sort(x, dim, descending).array, range(k), dim))


def histogram(x, bins, mask=None):
    kept = x.array[(x.array >= 0) & (x.array < bins) & (True if mask is None else mask.array)].astype(np.int64)
    return Tensor(np.bincount(kept, minlength=bins).astype(INT32))


def dot(a, b, acc=None):
    if a.dtype.kind == "i":
        result = Tensor(a.array.astype(INT32) @ b.array.astype(INT32))
    else:
        dtype = a.dtype if a.dtype.itemsize == 8 else FLOAT32
        result = Tensor(cast(a.array.astype(np.float64) @ b.array.astype(np.float64), dtype))
    return result if acc is None else acc + result


def counted(*bounds, **_):
    """The numbers of `range`, which are tensors."""
    bounds = [bound.array if isinstance(bound, Tensor) else np.int32(bound) for bound in bounds]
    return (Tensor(np.array(i, INT32)) for i in range(*map(int, bounds)))


LANGUAGE = {
    **TYPES, "arange": arange, "full": full, "zeros": zeros, "load": load, "store": store,
    "atomic_add": atomic(np.add), "atomic_max": atomic(np.maximum), "atomic_xor": atomic(np.bitwise_xor),
    "where": where, "minimum": minimum, "maximum": maximum, "clamp": clamp, "abs": absolute, "cdiv": cdiv, "fma": fma,
    "randint": randint, "reshape": reshape, "permute": permute, "trans": trans, "broadcast_to": broadcast_to,
    "expand_dims": expand_dims, "ravel": ravel, "flip": flip, "join": join, "split": split, "interleave": interleave,
    "cat": cat, "gather": gather, "sum": total(np.sum), "xor_sum": total(np.bitwise_xor.reduce),
    "max": largest(np.max), "min": largest(np.min), "argmax": place_of(np.argmax), "argmin": place_of(np.argmin),
    "cumsum": running, "reduce": reduce, "associative_scan": associative_scan, "map_elementwise": map_elementwise,
    "sort": sort, "topk": topk, "histogram": histogram, "dot": dot, "to_tensor": tensor, "tensor": Tensor,
    "range": counted, "static_range": builtins.range, "constexpr": lambda x: x}


# ---- running texts
NUMBER_IS_ASSIGNED = re.compile(r"^( *\w+ = )(-?\d+)$", re.MULTILINE)


def run(text):
    """The names that a text of jit functions and classes defines. A number that is assigned becomes a tensor."""
    libtile = types.SimpleNamespace(jit=lambda f: f, aggregate=dataclasses.dataclass)
    names = {"tl": types.SimpleNamespace(**LANGUAGE), "libtile": libtile, "collections": collections, "range": counted}
    exec(NUMBER_IS_ASSIGNED.sub(r"\1tl.to_tensor(\2)", text), names)
    return names
