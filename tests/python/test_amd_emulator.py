# SPDX-License-Identifier: Apache-2.0
"""What the emulator of AMD's GPUs (tests/amd) takes for a fault, by inline assembly that has it: registers without a wait, memory
out of bounds, LDS that nobody wrote. Scalar comparisons, and the bank conflicts that it counts. Each target's cases run in a process of their own,
`python test_amd_emulator.py`."""
import functools
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import libtile
import libtile.language as tl

pytestmark = pytest.mark.not_interpreted("it is about a GPU")
TARGETS = ["gfx942", "gfx1100", "gfx1201"]

LOAD, OTHER, STORE, FLAT = ("global_load_dword $0, $1, off", "global_load_dword v40, $1, off", "global_store_dword $1, $2, off",
                            "flat_load_dword $0, $1")
LANES, TICKS, BEFORE = "ds_bpermute_b32 $0, $2, $2", "TICKS s[40:41]", "v_mov_b32 $0, 0"
USE, READ = "v_mov_b32 $0, s40", ["v_mov_b32 $0, 0", "ds_read_b32 $0, $0", "SHARED(0)"]
ONE_LANE, ALL_LANES = ["s_mov_b32 m0, 0", "s_mov_b64 s[40:41], exec", "s_mov_b64 exec, 1"], "s_mov_b64 exec, s[40:41]"

# Lines of assembly, and what the fault says; None: there is none. LOADS(n), SHARED(n), SCALAR(n) are waits.
ALL = {
    "load": ([LOAD], "has not arrived: no wait covers `global_load_"),
    "load, waited for": ([LOAD, "LOADS(0)"], None),
    "load, overwritten": ([LOAD, BEFORE, "LOADS(0)"], "has not arrived: no wait covers `global_load_"),
    "load, written by a load of lanes": ([LOAD, LANES, "LOADS(0)", "SHARED(0)"], "has not arrived: no wait covers `global_load_"),
    "the first of two loads": ([LOAD, OTHER, "LOADS(1)"], None),
    "the last of two loads": ([OTHER, LOAD, "LOADS(1)"], "has not arrived: no wait covers `global_load_"),
    "two loads into one register": ([LOAD, LOAD, "LOADS(0)"], None),
    "load, the wrong wait": ([LOAD, "SHARED(0)"], "has not arrived: no wait covers `global_load_"),
    "flat load, half a wait": ([FLAT, "LOADS(0)"], "has not arrived: no wait covers `flat_load_"),
    "flat load": ([FLAT, "LOADS(0)", "SHARED(0)"], None),
    "lanes": ([LANES], "has not arrived: no wait covers `ds_bpermute_b32"),
    "lanes, waited for": ([LANES, "SHARED(0)"], None),
    "the first of two exchanges": ([LANES, "ds_bpermute_b32 v40, $2, $2", "SHARED(1)"], None),
    "ticks": ([TICKS, USE], "s40 has not arrived"),
    "ticks, waited for": ([TICKS, "SCALAR(0)", USE], None),
    "ticks return in any order": ([TICKS, "TICKS s[42:43]", "SCALAR(1)", USE, "SCALAR(0)"], "s40 has not arrived"),
    "waves meet": ([BEFORE, "ds_write_b32 $0, $2", "BARRIER"], "waves meet while LDS is being written: no wait covers `ds_"),
    "waves meet, waited for": ([BEFORE, "ds_write_b32 $0, $2", "SHARED(0)", "BARRIER"], None),
    "global": (["global_load_dword $0, $1, off offset:2048", "LOADS(0)"], "memory access out of bounds: 4 bytes at 0x"),
    "LDS": (["v_mov_b32 $0, 0x10000", "ds_read_b32 $0, $0", "SHARED(0)"], "LDS access out of bounds: 4 bytes at 65536 of "),
    "scratch": (["scratch_load_dword $0, off, off offset:2048", "LOADS(0)"], "scratch access out of bounds: 4 bytes at 2048 of 0 [instruction "),
    "LDS that nobody wrote": (READ, "LDS is read where nobody wrote: byte 0"),
}
CDNA = {
    "stores and loads are one kind": ([LOAD, STORE, "LOADS(1)"], None),
    "copy to LDS": ([*ONE_LANE, "global_load_lds_dword $1, off", *READ, "LOADS(0)", ALL_LANES],
                    "LDS is read where a copy has not landed: byte 0"),
    "copy to LDS, waited for": ([*ONE_LANE, "global_load_lds_dword $1, off", "LOADS(0)", *READ, ALL_LANES], None),
}
RDNA = {"stores and loads are two kinds": ([LOAD, STORE, "LOADS(1)"], "has not arrived: no wait covers `global_load_")}


def cases(target):
    return {**ALL, **(CDNA if target.startswith("gfx9") else RDNA)}


def assembly(lines, target):
    names = ["loadcnt", "dscnt", "kmcnt"] if target.startswith("gfx12") else ["vmcnt", "lgkmcnt", "lgkmcnt"]
    form = "s_wait_{} {}" if target.startswith("gfx12") else "s_waitcnt {}({})"
    text = "\n".join(lines)
    for kind, name in zip(["LOADS", "SHARED", "SCALAR"], names):
        for number in (0, 1):
            text = text.replace(f"{kind}({number})", form.format(name, number))
    text = text.replace("BARRIER", "s_barrier_signal -1\ns_barrier_wait -1" if target.startswith("gfx12") else "s_barrier")
    if target.startswith("gfx9"):
        return text.replace("TICKS", "s_memtime")
    lines = [f"s_sendmsg_rtn_b64 {line[6:]}, sendmsg(MSG_RTN_GET_REALTIME)" if line.startswith("TICKS") else line for line in text.split("\n")]
    return "\n".join(lines)


@libtile.jit
def has_fault(x, out, TEXT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    words = tl.inline_asm_elementwise(TEXT, "=&v,v,v", [(x + i).to(tl.int64), i * 4], tl.int32, False, 1)
    tl.store(out, tl.sum(words))  # which takes LDS


def run(target):
    """What each case's fault says, by its name; None: it has none."""
    said = {}
    for name, (lines, _) in cases(target).items():
        x, out = (libtile.to_device(np.arange(n, dtype=np.int32), "hip") for n in (256, 1))
        os.environ["LIBTILE_EMULATED_STRICT"] = "1" if name.startswith("LDS that") else "0"
        try:
            has_fault[(1,)](x, out, assembly(lines, target), 256, num_warps=256 // (64 if target.startswith("gfx9") else 32))
            said[name] = None
        except libtile.DeviceError as error:
            said[name] = str(error)
    print(json.dumps(said))


# Of -4096 and a constant of 16 bits; what SCC is.
COMPARES = [("i32", "eq", 0xF000, 1), ("i32", "eq", 0x7000, 0), ("i32", "lg", 0xF000, 0), ("i32", "lt", 0xF001, 1), ("i32", "gt", 0xF000, 0), ("u32", "eq", 0xF000, 0),
            ("u32", "gt", 0xF000, 1)]


@libtile.jit
def has_compare(out, TEXT: tl.constexpr):
    tl.store(out + tl.arange(0, 64), tl.inline_asm_elementwise(TEXT, "=v,v", [tl.arange(0, 64)], tl.int32, False, 1))


def compare(_):
    """What SCC is behind each of COMPARES."""
    said = []
    for kind, condition, number, _ in COMPARES:
        out = libtile.to_device(np.zeros(64, np.int32), "hip")
        text = ["s_mov_b32 s40, 0xfffff000", f"s_cmpk_{condition}_{kind} s40, {number}", "s_cselect_b32 s40, 1, 0", "v_mov_b32 $0, s40"]
        has_compare[(1,)](out, "\n".join(text), num_warps=1)
        said.append(int(out.numpy()[0]))
    print(json.dumps(said))


@libtile.jit
def has_conflicts(x, out, words, TEXT: tl.constexpr, N: tl.constexpr, LANES: tl.constexpr):
    i, lanes = tl.arange(0, N), tl.arange(0, LANES)
    tl.store(out + i, tl.gather(tl.load(x + i), (i * 7) % N, 0))  # which takes LDS of 4 N bytes
    tl.store(words + lanes, tl.inline_asm_elementwise(TEXT, "=&v,v", [lanes * 4], tl.int32, False, 1))


@libtile.jit
def nothing(x):
    tl.store(x, 0)


# Bytes from lane to lane, the instruction, and the cycles of its bank conflicts by target. What is CROSSED has 64 bytes between the upper
# half of 32 lanes and their places: reads serve neighbours together, or lanes of both halves.
CROSSED = ["v_lshrrev_b32 v42, 2, v41", "v_and_b32 v42, 64, v42", "v_xor_b32 v41, v41, v42"]
CONFLICTS = [
    (4, ["ds_read_b32 v40, v41"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),
    (0, ["ds_read_b32 v40, v41"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),       # all lanes read one word
    (8, ["ds_write_b32 v41, v41"], {"gfx942": 2, "gfx950": 2, "gfx1100": 1, "gfx1201": 1}),      # every other bank
    (8, ["ds_read_b32 v40, v41"], {"gfx942": 2, "gfx950": 1, "gfx1100": 1, "gfx1201": 1}),
    (128, ["ds_read_b32 v40, v41"], {"gfx942": 62, "gfx950": 31, "gfx1100": 31, "gfx1201": 31}),  # one bank, or two of 64
    (128, ["ds_write_b16 v41, v41"], {"gfx942": 62, "gfx950": 62, "gfx1100": 31, "gfx1201": 31}),
    (2, ["ds_read_u16 v40, v41"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),       # two lanes a word
    (8, ["ds_read_b64 v[44:45], v41"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),
    (16, ["ds_read_b64 v[44:45], v41"], {"gfx942": 4, "gfx950": 2, "gfx1100": 2, "gfx1201": 2}),
    (16, ["ds_read_b128 v[44:47], v41"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),
    (16, ["CROSSED", "ds_read_b128 v[44:47], v41"], {"gfx942": 8, "gfx950": 4, "gfx1100": 4, "gfx1201": 0}),
    (16, ["CROSSED", "ds_write_b128 v41, v[44:47]"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),
    (32, ["ds_read_b128 v[44:47], v41"], {"gfx942": 8, "gfx950": 4, "gfx1100": 4, "gfx1201": 4}),
    (80, ["ds_write_b128 v41, v[44:47]"], {"gfx942": 0, "gfx950": 0, "gfx1100": 0, "gfx1201": 0}),
]


def count(target):
    """Launches each of CONFLICTS, which the emulator writes the counts of."""
    lanes = 64 if target.startswith("gfx9") else 32
    for stride, texts, _ in CONFLICTS:
        x, out, words = (libtile.to_device(np.arange(n, dtype=np.int32), "hip") for n in (2048, 2048, lanes))
        place = ["v_mbcnt_lo_u32_b32 v41, -1, 0", "v_mbcnt_hi_u32_b32 v41, -1, v41", f"v_mul_u32_u24 v41, {stride}, v41"]
        access = [line for text in texts for line in (CROSSED if text == "CROSSED" else [text])]
        has_conflicts[(1,)](x, out, words, assembly([*place, *access, "SHARED(0)", BEFORE], target), 2048, lanes, num_warps=1)


def child_on(what, target, **environment):
    library = pathlib.Path(importlib.util.find_spec("libtile").origin).parents[2] / "tests" / "amd" / "libamdhip64_emulated.so"
    child = subprocess.run([sys.executable, __file__, what, target], capture_output=True, text=True, check=False,
                           env={**os.environ, "LIBTILE_HIP": str(library), "LIBTILE_EMULATED_GPU": target, **environment})
    assert child.returncode == 0, child.stderr
    return child


@functools.cache
def said_on(target):
    return json.loads(child_on("run", target).stdout)


@pytest.mark.parametrize("target, name", [(target, name) for target in TARGETS for name in cases(target)])
def test_faults(target, name):
    said, expected = said_on(target)[name], cases(target)[name][1]
    assert said is None if expected is None else expected in said and "[instruction " in said, said


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_short_constants_are_compared_with_their_sign(target):
    assert json.loads(child_on("compare", target).stdout) == [scc for *_, scc in COMPARES]


@pytest.mark.parametrize("target", CONFLICTS[0][2])
def test_bank_conflicts(target):
    try:
        nothing.warmup("*i32", target=target, grid=(1,))
    except libtile.UnsupportedError as error:
        assert target == "gfx950" and "needs LLVM 20" in str(error)
        return
    launches = child_on("count", target, LIBTILE_EMULATED_COUNTS="1").stderr.split("has_conflicts: ")[1:]
    line = r"LDS \d+, .*vector \d+, waits \d+; LDS takes \d+ cycles, (\d+) of them for bank conflicts\n"
    cycles = [int(re.match(line, said)[1]) for said in launches]  # the first one has those of the kernel's other accesses alone
    assert [all_of_them - cycles[0] for all_of_them in cycles] == [expected[target] for _, _, expected in CONFLICTS]
    assert re.search(r"\n  (62|31) cycles in 1 times ds_(read|load)_b32 v40, v41\n", launches[4])


if __name__ == "__main__":
    {"run": run, "compare": compare, "count": count}[sys.argv[1]](sys.argv[2])
