#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_tile_opt.py TILE_OPT TUTORIALS: the tool's options do what its manual says."""
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL, TUTORIALS = sys.argv[1], Path(sys.argv[2])
ADD = [TUTORIALS / "01_vector_add.py", "--sig", "x=*fp32:16,y=*fp32:16,out=*fp32:16,n=i32",
       "--const", "BLOCK=1024", "--target", "avx512"]


def run(*arguments, status=0):
    """Standard output and error of the tool, which ends with the status."""
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == status, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stdout, result.stderr


def headings(text):
    return [line.removeprefix("// ---- after ") for line in text.splitlines() if line.startswith("// ---- ")]


tile, _ = run(*ADD)  # the file has one function with @jit and others without
assert tile.startswith("func @add stage=tile")
with tempfile.TemporaryDirectory() as folder:
    text = Path(folder) / "add.tile"
    text.write_text(tile)
    assert run(text)[0] == tile, "the text form is its own fixed point"
    every = run(text, "--target", "avx512", "--print-after", "all")[0]
    assert headings(every)[0] == "simplify" and "form_nests" in headings(every), "the pipeline ran"
    one = run(text, "--target", "avx512", "--print-after", "form_nests")[0]
    assert headings(one) == ["form_nests"] and one.count("stage=nested") == 2
    alone = run(text, "--passes", "simplify", "--print-after", "all")[0]
    assert headings(alone) == ["simplify"] and "stage=nested" not in alone, "--passes is all that runs"
    assert "zmm" in run(text, "--target", "avx512", "--emit", "asm")[0]
    assert ".entry" in run(text, "--target", "sm_80", "--emit", "ptx")[0]
    stopped = run(text, "--target", "sm_80", "--stop-after", "assign_layouts")[0]
    assert "stage=laid-out" in stopped
    assert "form_nests" in run(text, "--target", "avx512", "--pipeline", "--time")[1]
    assert "no pass named" in run(text, "--print-after", "nothing", status=2)[1]
    text.write_text(tile.replace("add %", "add %9", 1))
    assert "^" in run(text, status=1)[1], "an error has a caret"
