# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of bit patterns, for the model of LLVM IR and for the machine that runs PTX."""
import math
import struct
from fractions import Fraction

LETTERS = {16: "He", 32: "If", 64: "Qd"}  # of `struct`, by width
WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
DIGITS = {"half": 11, "bfloat": 8, "float": 24, "double": 53}
LEAST = {"half": -14, "bfloat": -126, "float": -126, "double": -1022}  # exponents of normal numbers


def signed(bits, width):
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def number(bits, name):
    """A Python float, which holds all of them."""
    if name == "bfloat":
        return number(bits << 16, "float")
    whole, floating = LETTERS[WIDTHS[name]]
    return struct.unpack(floating, struct.pack(whole, bits))[0]


def rounded(value, name, sign=1):
    """The bits of the nearest number to a fraction or float, ties to even; `sign` is that of a zero."""
    width, digits = WIDTHS[name], DIGITS[name]
    infinity = ((1 << (width - digits)) - 1) << (digits - 1)
    if isinstance(value, float) and not math.isfinite(value):
        return (1 << (width - 1)) - 1 if math.isnan(value) else infinity | (1 << (width - 1) if value < 0 else 0)
    exact = Fraction(value)
    if exact == 0:
        negative = math.copysign(1, value) < 0 if isinstance(value, float) else sign < 0
        return 1 << (width - 1) if negative else 0
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), LEAST[name])
    exponent += 1 if size >= Fraction(2) ** (exponent + 1) else 0
    exponent -= 1 if size < Fraction(2) ** exponent and exponent > LEAST[name] else 0
    units = round(size / Fraction(2) ** (exponent - digits + 1))  # Python rounds ties to even
    bits = ((exponent - LEAST[name]) << (digits - 1)) + units
    return min(bits, infinity) | (1 << (width - 1) if exact < 0 else 0)


def floats(op, name, *operands):
    """The bits of a correctly rounded result."""
    values = [number(bits, name) for bits in operands]
    if all(map(math.isfinite, values)) and not (op == "div" and values[1] == 0):
        a, b, c = [*map(Fraction, values), 0, 0][:3]
        exact = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a / b, "fma": lambda: a * b + c}[op]()
        if exact:
            return rounded(exact, name)
        if op == "fma" and Fraction(values[0]) * Fraction(values[1]):
            return 0  # a product and its opposite
    if op == "fma" and math.isfinite(values[0]) and math.isfinite(values[1]) and not math.isfinite(values[2]):
        return rounded(values[2], name)
    a, b, c = [*values, 0, 0][:3]  # zeros and infinities, which need no rounding
    if op == "div" and b == 0:
        a, b = a * math.copysign(math.inf, b), 1.0
    return rounded({"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a / b,
                    "fma": lambda: a * b + c}[op](), name)


def extreme(is_max, propagates, name, x, y):
    a, b = number(x, name), number(y, name)
    if math.isnan(a) or math.isnan(b):
        nan = (1 << (WIDTHS[name] - 1)) - 1
        return nan if propagates or (math.isnan(a) and math.isnan(b)) else y if math.isnan(a) else x
    first = (a, math.copysign(1, a)) > (b, math.copysign(1, b))
    return x if first == is_max else y


def to_integer(bits, name, width, is_signed):
    """Towards zero, and the nearest that the type holds; NaN is 0."""
    value = number(bits, name)
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    if math.isnan(value):
        return 0
    whole = (most if value > 0 else least) if math.isinf(value) else max(least, min(most, int(value)))
    return whole & ((1 << width) - 1)


def whole(bits, name, how):
    value = number(bits, name)
    if not math.isfinite(value):
        return rounded(value, name)
    function = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "roundeven": round}[how]
    return rounded(Fraction(function(Fraction(value))), name, math.copysign(1, value))


def compared(predicate, a, b):
    """`a` and `b` are numbers; predicates of LLVM, o and u in front for floats."""
    nan = a != a or b != b
    if predicate in ("ord", "uno"):
        return nan == (predicate == "uno")
    if nan:
        return predicate[0] == "u"
    return {"eq": a == b, "ne": a != b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b}[predicate[-2:]]


def divided(is_remainder, a, b):
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a - quotient * b if is_remainder else quotient


def turned(bits, width):
    return int(f"{bits:0{width}b}"[::-1], 2)
