# SPDX-License-Identifier: Apache-2.0
"""Which names of the language a target does not have, or has by other means: what stands in docs/language.md in place of
"yes". tests/python/test_language_page.py compiles every name and holds what happens against this.

    no (WHY)           an UnsupportedError, whose text has the words WHY
    converted (WHAT)   compiled to something else than the name says
"""
# The columns, and what of each is compiled.
TARGETS = {"CPU": ("x86-64-v3",), "NVIDIA": ("sm_80", "sm_90a"), "AMD": ("gfx942",)}

_ON_NVIDIA = {"CPU": "no (NVIDIA's GPUs alone)", "AMD": "no (NVIDIA's GPUs alone)"}
_ON_AMD = {"CPU": "no (AMD's GPUs alone)", "NVIDIA": "no (AMD's GPUs alone)"}
_ADDRESSES = {"NVIDIA": "converted (plain accesses)"}
_FLOAT8 = dict.fromkeys(TARGETS, "converted (codes in memory, fp32 in arithmetic)")
_SCALED = dict.fromkeys(TARGETS, "converted (a dot of fp16 or bf16)")

# By name; those of descriptors as "desc.name", of types as "dtype.name".
EXCEPTIONS = {
    **{f"extra.cuda.{name}": _ON_NVIDIA for name in ("smid", "num_warps", "num_threads")},
    **{f"extra.hip.{name}": _ON_AMD for name in ("memrealtime", "smid", "num_warps", "num_threads")},
    **{name: _FLOAT8 for name in ("float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16")},
    **{name: _ADDRESSES for name in ("make_tensor_descriptor", "_experimental_make_tensor_descriptor",
                                     "load_tensor_descriptor", "store_tensor_descriptor")},
    **{f"desc.{name}": _ADDRESSES for name in ("load", "store", "gather", "scatter")},
    **{f"desc.atomic_{name}": {"NVIDIA": "converted (an atomic for each element)"}
       for name in ("add", "min", "max", "and", "or", "xor")},
    "dot_scaled": _SCALED,
    "inline_asm_elementwise": {"CPU": "converted (PTX that is arithmetic on integers and floats)",
                               "AMD": "converted (PTX that is arithmetic on integers and floats; AMD's own as it is)"},
}


def cells(name):
    """What stands in the columns of a name."""
    given = EXCEPTIONS.get(name, {})
    return [given.get(column, "yes") for column in TARGETS]
