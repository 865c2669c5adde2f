# SPDX-License-Identifier: Apache-2.0
"""Which Python a kernel may be made of: a table of bodies, each with the numbers that it stores, and one of
bodies that are refused, each with what is said.

A body sees `out` (int32 or float32 elements), `n` (an int32, 5 unless the row says otherwise), the names of
PRELUDE, and ends with stores to `out`.
"""
import importlib.util
import itertools
import textwrap

import numpy as np
import pytest
from spine import DEVICES, OnDevice, poisoned

import libtile

PRELUDE = '''
import math
from collections import namedtuple
from typing import NamedTuple

import libtile
import libtile as lt
import libtile.language as tl
from libtile.language import constexpr

SIX = tl.constexpr(6)
NAME = tl.constexpr("six")
KIND = tl.constexpr(tl.int32)
ROWS = tl.constexpr((3, 5, 7))

class Span(NamedTuple):
    begin: tl.tensor
    step: tl.constexpr = 2

Both = namedtuple("Both", ["left", "right"])

@libtile.jit
def double(x):
    """Twice."""
    return x + x

@libtile.jit
def scaled(x, by=3, *, plus=0):
    return x * by + plus

@libtile.jit
def last(first, *rest):
    return rest[len(rest) - 1] if len(rest) > 0 else first

@libtile.jit(noinline=True)
def outside(x):
    return x - 1

@libtile.jit
def power(x, k: tl.constexpr):
    if k == 0:
        return 1
    else:
        return x * power(x, k - 1)

@libtile.jit
def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0

@libtile.jit
def nothing(x):
    x + 1

@libtile.jit
def two(x):
    return x, Both(x + 1, x + 2)

@libtile.constexpr_function
def squares(count):
    return [i * i for i in range(count)]

@libtile.constexpr_function
def spread(*items, scale=1):
    return tuple(scale * item for item in items)

class Region:
    """What `with` takes: made and called while a kernel is compiled."""
    def __init__(self, pointer, value, _semantic=None):
        self.pointer, self.value, self._semantic = pointer, value, _semantic

    def __enter__(self):
        return self.value * 2

    def __exit__(self, kind, value, trace):
        tl.store(self.pointer, self.value, _semantic=self._semantic)

def region(pointer, value, _semantic=None):
    return Region(pointer, value, _semantic)

@libtile.aggregate
class Vector:
    x: tl.tensor
    y: tl.tensor
    scale: tl.constexpr = 10

    @libtile.jit
    def dot(self, other):
        return self.x * other.x + self.y * other.y

    @libtile.jit
    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y, self.scale)

    @libtile.jit
    def __rmul__(self, k):
        return Vector(k * self.x, k * self.y, self.scale)

    @libtile.jit
    def __lt__(self, other):
        return self.x < other.x

    @libtile.jit
    def __neg__(self):
        return Vector(-self.x, -self.y)

    @libtile.jit
    def __getitem__(self, i: tl.constexpr):
        return self.x if i == 0 else self.y

    @libtile.jit
    def __call__(self, k):
        return self.x * k + self.y

    @libtile.jit
    def __matmul__(self, other):
        return NotImplemented

    @libtile.constexpr_function
    def __len__(self):
        return 2

    @libtile.constexpr_function
    def bigger(self, by=1):
        return self.scale + by

    def total(self, k, _semantic=None):
        return tl.add(self.x, self.y, _semantic=_semantic) + k

    def first(self):
        return self.x

@libtile.aggregate
class Labelled(Vector):
    label: tl.constexpr = 7

    @libtile.jit
    def dot(self, other):
        return self.label + self.x

    @libtile.jit
    def first_of(self, other):
        return self.x

@libtile.aggregate
class Counter:
    base: tl.tensor
    many: tl.constexpr
    pair: tl.tuple

    def __init__(self, pointer, many, _semantic=None):
        self.base = tl.load(pointer, _semantic=_semantic)
        self.many = many
        self.pair = (self.base, many)

@libtile.aggregate
class Outer:
    inner: Vector
    op: tl.constexpr
    width: "tl.constexpr | tl.tensor" = 4

@libtile.aggregate
class Right:
    v: tl.tensor

    @libtile.jit
    def __radd__(self, other):
        return self.v * 100

    @libtile.jit
    def __rmatmul__(self, other):
        return self.v + other.y

    @libtile.jit
    def __eq__(self, other):
        return self.v == other.v
'''

# name: (body, what lies in `out` afterwards)
PROGRAMS = {
    # ---- names, assignments
    "chained": ("a = b = n\ntl.store(out, a + b)", [10]),
    "tuples": ("a, b = 1, n\na, b = b, a\n(c, (d, e)) = (a, (b, 3))\ntl.store(out, c * 100 + d * 10 + e)", [513]),
    "augmented": ("a = n\na += 1\na *= 4\na -= 3\na //= 2\na <<= 2\na |= 1\na ^= 2\na %= 32\na >>= 1\na &= 14\n"
                  "tl.store(out, a)", [(((((5 + 1) * 4 - 3) // 2 << 2 | 1) ^ 2) % 32 >> 1) & 14]),
    "declared_constexpr": ("a: tl.constexpr\na = 3\nx = tl.arange(0, a)\ntl.store(out + x, x)", [0, 1, 2]),
    "constexpr_is_kept": ("a: tl.constexpr = 2 ** 3\ntl.store(out + tl.arange(0, a), 1)", [1] * 8),
    "other_annotations": ("a: int = 3\nb: tl.float32 = 4\ntl.store(out, a + b)", [7]),
    "walrus": ("if (a := n + 1) > 2:\n    tl.store(out, a)\ntl.store(out + 1, (b := 3) + b)", [6, 6]),
    "semicolons": ("a = 1; b = n; tl.store(out, a + b)", [6]),
    "docstring": ('"""What it does."""\n...\npass\ntl.store(out, 1)', [1]),
    "constexpr_global": ("tl.store(out, SIX)\ntl.store(out + 1, ROWS[1])", [6, 5]),
    "dtype_global": ("tl.store(out, (n * 1.5).to(KIND))", [7]),
    # ---- conditions
    "elif": ("if n > 9:\n    a = 1\nelif n < -3:\n    a = 2\nelse:\n    a = 3\ntl.store(out, a)", [3]),
    "constant_side_only": ("if SIX == 6:\n    tl.store(out, 1)\nelse:\n    tl.store(out, unknown)", [1]),
    "text": ('if NAME == "six":\n    tl.store(out, 1)\nif "i" in NAME:\n    tl.store(out + 1, 2)', [1, 2]),
    "membership": ("if n in (1, 5):\n    tl.store(out, 1)\nif n not in (1, SIX):\n    tl.store(out + 1, 2)\n"
                   "tl.store(out + 2, 3 if 7 in (n, n + 2) else 4)\ntl.store(out + 3, n in (1, None, 'a', 2.5))", [1, 2, 3, 0]),
    "membership_known": ("a = tl.arange(0, 4) if n in () else n\nif 3 in (n, 3):\n    tl.store(out, a)\n"
                         "if n not in ():\n    tl.store(out + 1, 2)", [5, 2]),
    "membership_while": ("a = n\nwhile a in (4, n):\n    a -= 1\ntl.store(out, a)", [3]),
    "ternary": ("tl.store(out, 1 if n > 5 else 2)\ntl.store(out + 1, 1 if SIX > 5 else 'x')", [2, 1]),
    "chain": ("tl.store(out, 0 < n < 6)\ntl.store(out + 1, 0 < n <= 4 != 9)\ntl.store(out + 2, 1 < 2 < n)",
              [1, 0, 1]),
    "and_or": ("tl.store(out, (n > 0 and n < 3) or not (n > 5))\ntl.store(out + 1, SIX and 4)\ntl.store(out + 2, 0 or n)",
               [1, 4, 5]),
    "is_none": ("x = None\nif x is None:\n    tl.store(out, 1)\nif out is not None:\n    tl.store(out + 1, 2)", [1, 2]),
    # ---- loops
    "range_down": ("s = 0\nfor i in range(10, 0, -3):\n    s = s * 10 + i - 1\ntl.store(out, s)", [9630]),
    "after_the_loop": ("for i in tl.range(0, n, 2, num_stages=3):\n    pass\ntl.store(out, i)", [4]),
    "static_range": ("s = 0\nfor i in tl.static_range(1, 8, 3):\n    s = s * 10 + tl.arange(0, i).shape[0]\ntl.store(out, s)",
                     [147]),
    "while": ("i = 0\nwhile i < n and n > 2:\n    i += 2\ntl.store(out, i)", [6]),
    "while_condition": ("i = 0\nwhile tl.condition(i < n, disable_licm=True):\n    i += 1\ntl.store(out, i)", [5]),
    "leaving": ("s = 0\nfor i in range(100):\n    if i % 2 == 0:\n        continue\n    s += i\n    if s > n:\n        break\n"
                "tl.store(out, s)", [9]),
    # ---- tuples, lists, comprehensions
    "items": ("t = (n, 2, 3)\nu = [n, 4]\ntl.store(out, t[-1] + u[1])\ntl.store(out + 1, len(t) + len(u))", [7, 5]),
    "tuple_algebra": ("t = (1,) + (2, n)\nu = t * 2\ntl.store(out, u[5])\ntl.store(out + 1, t[1:][0])\n"
                      "tl.store(out + 2, (1, 2) == (1, 2))", [5, 2, 1]),
    "comprehension": ("a = [x + 1 for x in (1, 2, n)]\ntl.store(out, a[0] * 100 + a[1] * 10 + a[2])", [236]),
    "comprehension_filter": ("a = [x for x in (1, 2, 3, 4) if x > 1 if x % 2 == 0]\ntl.store(out, len(a))\n"
                             "tl.store(out + 1, a[1])", [2, 4]),
    "comprehension_names": ("x = n\na = [x * y for x, y in ((1, 2), (3, n))]\ntl.store(out, a[0] + a[1] + x)", [22]),
    "comprehension_constants": ("e: tl.constexpr = [k * 2 for k in ROWS]\ntl.store(out + tl.arange(0, e[0]), 1)", [1] * 6),
    "comprehension_nested": ("a = [[x + y for x in (1, 2)] for y in (10, n)]\ntl.store(out, a[1][1] + a[0][0])", [18]),
    "comprehension_loop": ("s = 0\nfor i in range(n):\n    t = [i + k for k in (1, 2)]\n    s += t[0] * t[1]\ntl.store(out, s)",
                           [sum((i + 1) * (i + 2) for i in range(5))]),
    "spread_call": ("t = (n, 4)\ntl.store(out, scaled(*t))\ntl.store(out + 1, last(*t, 7))", [20, 7]),
    "named_tuple": ("q = Span(n)\nr = Both(right=q, left=1)\ntl.store(out, q.begin * q.step + r.left + r.right.begin)", [16]),
    # ---- calls
    "defaults": ("tl.store(out, scaled(n))\ntl.store(out + 1, scaled(x=n, by=2))\ntl.store(out + 2, scaled(n, plus=1))",
                 [15, 10, 16]),
    "varargs": ("tl.store(out, last(n, 2, 3))\ntl.store(out + 1, last(n))", [3, 5]),
    "recursion": ("tl.store(out, power(n, 4))", [625]),
    "early_return": ("tl.store(out, sign(n) * 10 + sign(-n) + sign(n - 5))", [9]),
    "no_result": ("x = nothing(n)\ntl.static_assert(x is None)\ntl.store(out, 1)", [1]),
    "several_results": ("a, b = two(n)\ntl.store(out, a * 100 + b.left * 10 + b.right)", [567]),
    "noinline": ("tl.store(out, outside(n))", [4]),
    "functions_are_values": ("f: tl.constexpr = double\nfs = (double, sign)\ntl.store(out, f(n) + fs[1](n))", [11]),
    "constexpr_function": ("a: tl.constexpr = squares(4)\nb: tl.constexpr = spread(1, 2, scale=SIX)\n"
                           "tl.store(out, a[3] + b[1])", [21]),
    "math_of_constants": ("a: tl.constexpr = math.log2(8.0)\ntl.store(out, a + libtile.cdiv(7, 2))", [7]),
    "cdiv": ("tl.store(out, tl.cdiv(n, 2) + libtile.cdiv(n, 2))", [6]),
    "combine": ("x = tl.arange(0, 6)\ntl.store(out, tl.reduce(x, 0, scaled_sum))", [15]),
    # ---- built-in functions
    "min_max": ("tl.store(out, min(n, 3) + max(1, 2))\ntl.store(out + 1, max(n, 9, 7))", [5, 9]),
    "conversions": ('a: tl.constexpr = int(3.7)\nb: tl.constexpr = float("inf")\ntl.store(out, a)\n'
                    'tl.store(out + 1, b > float(3))', [3, 1]),
    "isinstance": ("tl.store(out, isinstance(n, tl.tensor))\ntl.store(out + 1, isinstance(3, int))\n"
                   "tl.store(out + 2, isinstance(Vector(n, n), Vector))\ntl.store(out + 3, isinstance((1, 2), tl.tuple))",
                   [1, 1, 1, 1]),
    "hasattr": ('tl.store(out, hasattr(tl, "exp2"))\ntl.store(out + 1, hasattr(Vector(n, n), "z"))', [1, 0]),
    # ---- tiles
    "new_axes": ("x = tl.arange(0, 3)\ny = x[:, None] * 10 + x[None, :]\n"
                 "tl.store(out + x[:, None] * 3 + x[None, :], y)", [0, 1, 2, 10, 11, 12, 20, 21, 22]),
    "scalar_new_axis": ("tl.store(out + tl.arange(0, 1), n[None])", [5]),
    "shapes": ("x = tl.zeros((2, 3), tl.int32) + 4\ny = tl.reshape(x, (x.shape[0] * x.shape[1],))\n"
               "tl.store(out + tl.arange(0, y.numel), y)", [4] * 6),
    "chained_members": ("tl.store(out, tl.arange(0, 4).to(tl.float32).sum())", [6]),
    # ---- f-strings
    "f_string": ('a: tl.constexpr = f"{SIX}-{NAME!r}-{SIX:04d}{{}}"\ntl.static_assert(a == "6-\'six\'-0006{}")\ntl.store(out, 1)',
                 [1]),
    "f_string_values": ('tl.static_assert(f"{(1, 2.5)} {tl.float32} {None} {NAME + \'!\'}" "x" == "(1, 2.5) fp32 None six!x")\n'
                        'tl.static_assert(f"{SIX=} {SIX + 1 = }" == "SIX=6 SIX + 1 = 7")\ntl.store(out, 1)', [1]),
    # ---- with
    "with": ("with region(out, n) as twice:\n    tl.store(out + 1, twice)\ntl.store(out + 2, twice + 1)", [5, 10, 11]),
    "with_several": ("with region(out, n) as a, region(out + 1, n + 1) as b:\n    tl.store(out + 2, a + b)", [5, 6, 22]),
    "with_class": ("with (Region(out, n) as a,):\n    tl.store(out, 77)\n    tl.store(out + 1, a)", [5, 10]),
    # ---- aggregates
    "aggregate": ("v = Vector(n, 2)\nw = Vector(y=n, x=n, scale=3)\ntl.store(out, v.dot(w))\ntl.store(out + 1, w.scale)\n"
                  "tl.store(out + 2, v.scale + v[0] * v[1])", [35, 3, 20]),
    "aggregate_operators": ("v = Vector(n, n + 1)\nw = -(v + 3 * v)\ntl.store(out, w.x)\ntl.store(out + 1, w.y)\n"
                            "tl.store(out + 2, w < v)\ntl.store(out + 3, v(10))\ntl.store(out + 4, len(v))",
                            [-20, -24, 1, 56, 2]),
    "aggregate_reflected": ("r = Right(n)\ntl.store(out, n + r)\ntl.store(out + 1, 4 + r)\n"
                            "tl.store(out + 2, Vector(n, n + 2) @ r)\ntl.store(out + 3, r == Right(n))",
                            [500, 500, 12, 1]),
    "aggregate_python_methods": ("v = Vector(n, 2)\ntl.store(out, v.total(1))\ntl.store(out + 1, v.bigger(by=5))\n"
                                 "tl.store(out + 2, v.first())", [8, 15, 5]),
    "aggregate_inherits": ("v = Labelled(n, 2, label=9)\ntl.store(out, v.dot(v))\ntl.store(out + 1, v[1] + v.scale)", [14, 12]),
    "aggregate_init": ("tl.store(out, n)\nc = Counter(out, 3)\ntl.store(out + 1, c.base * c.many + c.pair[0] + c.pair[1])",
                       [5, 23]),
    "aggregate_nested": ("o = Outer(Vector(n, 1), double)\np = Outer(o.inner, sign, width=n)\n"
                         "tl.store(out, o.op(o.inner.x) + o.width)\ntl.store(out + 1, p.op(p.inner.x) + p.width)", [14, 6]),
    "aggregate_replace": ("v = tl.aggregate_replace(Vector(n, 2), y=7, scale=1)\ntl.store(out, v.x + v.y + v.scale)", [13]),
    "aggregate_in_loop": ("v = Vector(n, 0)\nfor i in range(n):\n    v = v + Vector(1, i)\n    if v.y > 5:\n"
                          "        v = Vector(v.x, 0)\ntl.store(out, v.x * 100 + v.y)", [1004]),
    "aggregate_tiles": ("i = tl.arange(0, 6)\nv = Vector(i, i * i) + Vector(i, n)\ntl.store(out + i, v.x * 100 + v.y)",
                        [2 * i * 100 + i * i + 5 for i in range(6)]),
    "aggregate_passed": ("tl.store(out, use(Vector(n, 1), Vector(2, n)))", [15]),
}

MORE = '''
@libtile.aggregate
class Plain:
    many: tl.constexpr
    more: tl.constexpr = None

@libtile.jit
def prints(n):
    tl.static_print(NAME, SIX, end="|")
    tl.static_print(tl.float32, (1, 2.5), sep="|")
    tl.static_print(tl.arange(0, 4), end="!")

@libtile.jit
def scaled_sum(a, b):
    return a + b

@libtile.jit
def use(v, w):
    if v.x > w.x:
        r = v
    else:
        r = w
    return r.dot(w)
'''

# name: (body, the error's class, what it says)
REFUSED = {
    "one_branch": ("if n > 0:\n    a = 1\ntl.store(out, a)", "`a` is not defined"),
    "two_types": ("a = 1\nif n > 0:\n    a = 1.5\ntl.store(out, a)", "`a` would be"),
    "if_of_a_tile": ("if tl.arange(0, 4) > 0:\n    tl.store(out, 1)", "ambiguous"),
    "if_of_text": ("if NAME:\n    pass", "a constant condition must be a bool, an int or None"),
    "if_of_a_tuple": ("if (1, 2):\n    pass", "a constant condition must be"),
    "membership_of_a_tile": ("if tl.arange(0, 4) in (1, 2):\n    pass", r"operator in compares scalars, got tensor of int32\[4\]"),
    "for_over_a_tuple": ("for i in (1, 2):\n    pass", "a `for` runs over range"),
    "loop_else": ("for i in range(n):\n    pass\nelse:\n    pass", "`else` after a loop"),
    "starred_target": ("a, *b = 1, 2, 3", r"a `\*` target"),
    "dict": ('d = {"a": 1}', "a dict is not allowed"),
    "set": ("d = {1, 2}", "a set is not allowed"),
    "lambda": ("f = lambda x: x", "`lambda` is not allowed"),
    "nested_def": ("def f(x):\n    return x", "a nested function"),
    "nested_class": ("class A:\n    pass", "`class`"),
    "generator": ("a = double(x for x in (1, 2))", "a generator expression"),
    "comprehension_of_range": ("a = [i for i in range(3)]", "stands? in|iterable of a `for` only"),
    "comprehension_of_a_tile": ("a = [i for i in tl.arange(0, 4)]", "a comprehension runs over a tuple"),
    "comprehension_condition": ("a = [i for i in (1, 2) if n > 1]", "must be a constant"),
    "comprehension_scope": ("a = [i for i in (1, 2)]\ntl.store(out, i)", "`i` is not defined"),
    "double_comprehension": ("a = [x + y for x in (1, 2) for y in (1, 2)]", "several `for`"),
    "f_string_tensor": ('tl.static_print(f"v={n}")', "cannot show tensor of int32"),
    "f_string_format": ('tl.static_print(f"{SIX:q}")', "does not take the format 'q'"),
    "with_return": ("with region(out, n):\n    if n > 3:\n        return", "not allowed inside of `with`"),
    "with_number": ("with 3:\n    pass", "constexpr 3 has no `__enter__`"),
    "try": ("try:\n    pass\nexcept Exception:\n    pass", "`try`"),
    "raise": ('raise ValueError("x")', "`raise`"),
    "del": ("a = 1\ndel a", "`del`"),
    "import": ("import math", "`import`"),
    "global": ("global SIX", "`global`"),
    "match": ("match n:\n    case 1:\n        pass", "`match`"),
    "store_to_an_item": ("x = tl.arange(0, 4)\nx[0] = 1", "assignment to an element"),
    "store_to_a_field": ("v = Vector(n, n)\nv.x = 1", "assignment to an attribute"),
    "no_builtin": ("a = enumerate((1, 2))", "`enumerate` is not defined"),
    "aggregate_type": ('v = Vector(n, "a")', "the field `y` of `Vector` is declared as tl.tensor and cannot hold constexpr 'a'"),
    "aggregate_constexpr": ("v = Vector(n, n, n)", "the field `scale` .* tl.constexpr and cannot hold tensor of int32"),
    "aggregate_missing": ("v = Vector(n)", "`Vector` needs a value for `y`"),
    "aggregate_unknown": ("v = Vector(n, n, scael=1)", "no field `scael`; did you mean `scale`"),
    "aggregate_operator": ("v = Vector(n, n)\nw = v - v", "operator - does not take Vector and Vector"),
    "aggregate_compared": ("v = Vector(n, n)\nw = v == v", "operator == does not take Vector and Vector"),
    "aggregate_not_implemented": ("v = Vector(n, n)\nw = v @ v", "operator @ does not take Vector and Vector"),
    "aggregate_replace_unknown": ("v = tl.aggregate_replace(Vector(n, n), z=1)", "`Vector` has no field `z`"),
    "unused": ("needed(n)", "the result of needed is not used: it has no effect"),
    "unused_method": ("m = Needed(n)\nm.twice()", "the result of m.twice is not used"),
    "unused_constant": ("m = Needed(n)\nm.inner.three()", "the result of m.inner.three is not used: why"),
}

MORE_REFUSED = '''
@libtile.must_use_result("it has no effect")
@libtile.jit
def needed(x):
    return x + 1

@libtile.aggregate
class Inner:
    @libtile.must_use_result("why")
    @libtile.constexpr_function
    def three(self):
        return 3

@libtile.aggregate
class Needed:
    x: tl.tensor
    inner: Inner = Inner()

    @libtile.must_use_result
    @libtile.jit
    def twice(self):
        return 2 * self.x
'''


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module with a kernel for each body."""
    text = PRELUDE + MORE + MORE_REFUSED
    bodies = itertools.chain(((name, row[0]) for name, row in PROGRAMS.items()),
                             ((f"refused_{name}", row[0]) for name, row in REFUSED.items()))
    for name, body in bodies:
        text += f"\n@libtile.jit\ndef kernel_{name}(out, n):\n{textwrap.indent(body, '    ')}\n"
    file = tmp_path_factory.mktemp("syntax") / "syntax_kernels.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("syntax_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(kernels, device, name):
    want = PROGRAMS[name][1]
    on = OnDevice(device)
    out = on(poisoned(len(want) + 1, np.int32))
    untouched = on.back(out)[-1]
    kernels["kernel_" + name][(1,)](out, 5)
    assert on.back(out).tolist() == [*want, untouched]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_program(kernels, name):
    kernel = kernels["kernel_refused_" + name]
    with pytest.raises(libtile.CompilationError, match=REFUSED[name][1]) as caught:
        kernel.warmup("*i32", "i32")
    assert caught.value.line is not None and "^" in str(caught.value)


def test_static_print_prints_while_compiling(kernels, capsys):
    kernels["prints"].warmup("i32")
    assert capsys.readouterr().out == "six 6|fp32|(1, 2.5)\nint32[4]!"


def test_aggregates_in_python(kernels):
    right, labelled, counter = kernels["Right"], kernels["Labelled"], kernels["Counter"]
    with pytest.raises(TypeError, match="the field 'v' of Right is declared as .* and cannot hold"):
        right(3)
    with pytest.raises(TypeError, match="Right needs a value for 'v'"):
        right()
    with pytest.raises(TypeError, match="Right has no field 'w'"):
        right(w=1)
    with pytest.raises(RuntimeError, match="tl.load can only be called in a kernel"):
        counter(None, 1)
    assert labelled.__aggregate_fields__ == ("x", "y", "scale", "label")
    plain = kernels["Plain"](4)
    assert plain.many.value == 4 and plain.more.value is None
    with pytest.raises(AttributeError, match="cannot assign to field 'many' on immutable aggregate Plain"):
        plain.many = 5
    with pytest.raises(AttributeError, match="Plain has no field 'other'"):
        plain.other = 5
    assert kernels["tl"].aggregate_replace(plain, many=6).many.value == 6 and plain.many.value == 4
    with pytest.raises(TypeError, match="Plain has no field 'x'"):
        kernels["tl"].aggregate_replace(plain, x=6)
    with pytest.raises(TypeError, match="aggregate_replace expects an aggregate instance, not"):
        kernels["tl"].aggregate_replace(3, x=6)
    with pytest.raises(TypeError, match="can only inherit from other aggregates: int, a base of .*, is none"):
        libtile.aggregate(type("Number", (int,), {}))


def test_a_method_that_is_replaced_compiles_anew(kernels):
    vector, kernel = kernels["Vector"], kernels["kernel_aggregate"]
    before = vector.dot
    want = PROGRAMS["aggregate"][1]
    out = np.zeros(3, np.int32)
    try:
        kernel[(1,)](out, 5)
        vector.dot = kernels["Labelled"].__dict__["first_of"]
        kernel[(1,)](out, 5)
        assert out.tolist() == [5, *want[1:]]
    finally:
        vector.dot = before
    kernel[(1,)](out, 5)
    assert out.tolist() == want
