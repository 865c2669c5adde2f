# SPDX-License-Identifier: Apache-2.0
"""What the emulator of AMD's GPUs (tests/amd) takes for a fault, by inline assembly that has it: registers without a wait, memory
out of bounds, LDS that nobody wrote. Each target's cases run in a process of its own, `python test_amd_emulator.py`."""
import functools
import importlib.util
import json
import os
import pathlib
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


@functools.cache
def said_on(target):
    library = pathlib.Path(importlib.util.find_spec("libtile").origin).parents[2] / "tests" / "amd" / "libamdhip64_emulated.so"
    environment = {**os.environ, "LIBTILE_HIP": str(library), "LIBTILE_EMULATED_GPU": target}
    child = subprocess.run([sys.executable, __file__, target], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.parametrize("target, name", [(target, name) for target in TARGETS for name in cases(target)])
def test_faults(target, name):
    said, expected = said_on(target)[name], cases(target)[name][1]
    assert said is None if expected is None else expected in said and "[instruction " in said, said


if __name__ == "__main__":
    run(sys.argv[1])
