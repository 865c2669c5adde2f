# SPDX-License-Identifier: Apache-2.0
"""The types of the kernel language as objects of Python: element types, pointers, tiles, tuples, constants."""
from .. import _libtile


package = "libtile"  # that the reprs of types name


class base_type:
    """The root of the types of what kernels compute with."""


class LanguageType(base_type):
    """One that kernels know by `_value`, a Value."""

    def __repr__(self):
        return f"{package}.language.{self}"

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(self.name)

    def to_ir(self, builder):
        raise NotImplementedError("libtile's IR has no builder in Python")


class _Number(int):
    """A member of KIND or SIGNEDNESS."""

    def __new__(cls, name, value):
        made = int.__new__(cls, value)
        made.name, made.value = name, value
        return made

    def __repr__(self):
        return self.name


class _Numbers:
    def __init__(self, *names):
        for value, name in enumerate(names):
            setattr(self, name, _Number(name, value))


# name: (bits of the mantissa, bias of the exponent)
_FLOATS = {"fp8e4nv": (3, 7), "fp8e4b8": (3, 8), "fp8e4b15": (3, 15), "fp8e5": (2, 15), "fp8e5b16": (2, 16), "fp16": (10, 15), "bf16": (7, 127), "fp32": (23, 127), "fp64": (52, 1023)}


class dtype(LanguageType):
    """An element type."""
    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"]
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES = ["void"]
    KIND = _Numbers("BOOLEAN", "INTEGRAL", "FLOATING")
    SIGNEDNESS = _Numbers("SIGNED", "UNSIGNED")

    def __new__(cls, name):
        # A text such as "*fp32" means the type of pointers.
        value = _libtile.type_value(name)
        return object.__new__(pointer_type if cls is dtype and value.type()[0].startswith("pointer<") else cls)

    def __init__(self, name):
        self._value = _libtile.type_value(name)
        self.name = self._value.type()[0]
        digits = "".join(filter(str.isdigit, self.name.partition("fp8")[0] or "8"))
        self.primitive_bitwidth = 16 if self.name == "bf16" else int(digits or 0)
        self.itemsize = self.primitive_bitwidth // 8
        if self.is_int():
            self.int_bitwidth = self.primitive_bitwidth
            self.int_signedness = self.SIGNEDNESS.SIGNED if self.is_int_signed() else self.SIGNEDNESS.UNSIGNED
        elif self.name in _FLOATS:
            self.fp_mantissa_width, self.exponent_bias = _FLOATS[self.name]

    def __eq__(self, other):
        return isinstance(other, LanguageType) and self.name == other.name

    __hash__ = LanguageType.__hash__

    def is_floating(self):
        return self.name in self.FP_TYPES

    def is_standard_floating(self):
        return self.name in self.STANDARD_FP_TYPES

    def is_fp8(self):
        return self.name.startswith("fp8")

    def is_int(self):
        return self.is_int_signed() or self.is_int_unsigned()

    def is_int_signed(self):
        return self.name in self.SINT_TYPES

    def is_int_unsigned(self):
        return self.name in self.UINT_TYPES

    def is_bool(self):
        return self.is_int1()

    def kind(self):
        if not self.is_int() and not self.is_floating():
            raise TypeError(f"{self} is of no kind")
        return self.KIND.BOOLEAN if self.is_bool() else self.KIND.INTEGRAL if self.is_int() else self.KIND.FLOATING

    def get_int_max_value(self):
        return 2**(self.int_bitwidth - (1 if self.is_int_signed() else 0)) - 1

    def get_int_min_value(self):
        return -2**(self.int_bitwidth - 1) if self.is_int_signed() else 0

    @staticmethod
    def is_dtype(type_str):
        return type_str in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    @staticmethod
    def is_void():
        raise NotImplementedError("compare the type with tl.void")

    @staticmethod
    def is_block():
        return False

    @staticmethod
    def is_ptr():
        return False

    @staticmethod
    def is_const():
        return False

    def with_element_ty(self, element_ty):
        return element_ty

    @property
    def scalar(self):
        return self

    @property
    def cache_key_part(self):
        return self.name

    def codegen_name(self):
        return "bfloat16" if self.name == "bf16" else self.name.replace("fp", "float") if self.is_floating() else self.name

    def mangle(self):
        if self.is_int():
            return ("i" if self.is_int_signed() else "u") + str(self.int_bitwidth)
        return self.name if self.is_floating() else "V"

    def __repr__(self):
        return f"{package}.language.{self.codegen_name()}"


def _add_tests():
    """is_int8() and the like, one an element type."""
    for name in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES:
        setattr(dtype, f"is_{name}", (lambda wanted: lambda self: self.name == wanted)(name))


_add_tests()


class pointer_type(dtype):
    """The type of pointers to elements of a type."""

    def __new__(cls, element_ty, address_space="global", const=False):
        return object.__new__(cls)

    def __init__(self, element_ty, address_space="global", const=False):
        if isinstance(element_ty, str):  # the text of the whole type
            element_ty = dtype(_libtile.type_value(element_ty).type()[0][len("pointer<"):-1])
        if not isinstance(element_ty, dtype):
            raise TypeError(f"a pointer is to elements of a type, not to {element_ty!r}")
        self.element_ty, self.address_space, self.const = element_ty, address_space, bool(const)
        self.name = f"pointer<{element_ty.name}>"
        self._value = _libtile.type_value(self.name)
        self.primitive_bitwidth, self.itemsize = 64, 8

    def __eq__(self, other):
        return (isinstance(other, pointer_type) and self.element_ty == other.element_ty
                and self.address_space == other.address_space and self.const == other.const)

    __hash__ = dtype.__hash__
    __repr__ = LanguageType.__str__

    def is_ptr(self):
        return True

    def is_const(self):
        return self.const

    def mangle(self):
        return "P" + self.element_ty.mangle()


class block_type(dtype):
    """The type of tiles."""

    def __new__(cls, element_ty, shape):
        return object.__new__(cls)

    def __init__(self, element_ty, shape):
        from ._objects import constexpr
        self.element_ty = element_ty
        self.shape = tuple(int(each.value if isinstance(each, constexpr) else each) for each in shape)
        if not self.shape:
            raise TypeError("a tile has at least one axis")
        self._value = _libtile.type_value(element_ty.name, self.shape)
        self.name = f"<{list(self.shape)}, {element_ty.name}>"
        self.primitive_bitwidth, self.itemsize = element_ty.primitive_bitwidth, element_ty.itemsize
        self.numel = 1
        for extent in self.shape:
            self.numel *= extent

    def __eq__(self, other):
        return isinstance(other, block_type) and self.element_ty == other.element_ty and self.shape == other.shape

    __hash__ = dtype.__hash__
    __repr__ = LanguageType.__str__

    def get_block_shapes(self):
        return self.shape

    def is_block(self):
        return True

    def with_element_ty(self, scalar_ty):
        return block_type(scalar_ty, self.shape)

    @property
    def scalar(self):
        return self.element_ty

    @property
    def nbytes(self):
        return self.numel * (self.element_ty.primitive_bitwidth // 8)

    def mangle(self):
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S"


class tuple_type(base_type):
    """The type of tuples: those of the items, and their names if they have some."""

    def __init__(self, types, fields=None):
        self.types, self.fields = list(types), fields
        self.name = "[" + ",".join(f"{name}:{each}" if name else str(each)
                                   for name, each in zip(fields or [""] * len(self.types), self.types)) + "]"

    def __str__(self):
        return self.name

    __repr__ = __str__

    def __iter__(self):
        return iter(self.types)

    def __getitem__(self, index):
        return self.types[index]

    def __eq__(self, other):
        return isinstance(other, tuple_type) and self.types == other.types and self.fields == other.fields

    def __hash__(self):
        return hash(self.name)

    def mangle(self):
        return "T" + "_".join(each.mangle() for each in self.types) + "T"


class constexpr_type(base_type):
    """The type of a constant, which carries its value."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"constexpr_type[{self.value}]"

    def mangle(self):
        return "c" + (self.value.mangle() if hasattr(self.value, "mangle") else repr(self.value))


def type_of(value):
    """A Value of a type, or of a tensor, as one of these."""
    name, shape = value.type()
    element = dtype(name)
    return block_type(element, shape) if shape else element


def get_int_dtype(bitwidth, signed):
    """The integer type of a width."""
    if bitwidth == 1 and not signed:
        return dtype("int1")
    if bitwidth not in (8, 16, 32, 64):
        raise ValueError(f"there is no {'signed' if signed else 'unsigned'} integer type of {bitwidth} bits")
    return dtype(f"{'int' if signed else 'uint'}{bitwidth}")


def str_to_ty(name, c=None):
    """The type of a text as in signatures: "*fp32", "*kfp32", "i32", "u1"; "constexpr" has the value c. A tuple
    of texts gives a tuple's type."""
    if isinstance(name, tuple):
        fields = getattr(type(name), "_fields", None)
        constants = c if isinstance(c, tuple) else [c] * len(name)
        return tuple_type([str_to_ty(*each) for each in zip(name, constants)], fields)
    if name == "constexpr":
        return constexpr_type(c)
    if name.startswith("*"):
        is_const = name.startswith("*k")
        return pointer_type(str_to_ty(name[2 if is_const else 1:], c), const=is_const)
    return dtype(name)
