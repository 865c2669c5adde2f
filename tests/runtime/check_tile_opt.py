#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_tile_opt.py TILE_OPT TUTORIALS: the tool's options do what its manual says."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

TOOL, TUTORIALS = sys.argv[1], Path(sys.argv[2])
ADD = [TUTORIALS / "01_vector_add.py", "--sig", "x=*fp32:16,y=*fp32:16,out=*fp32:16,n=i32",
       "--const", "BLOCK=1024"]
SOFTMAX = [TUTORIALS / "02_fused_softmax.py", "--sig", "out=*fp32:16,x=*fp32:16,out_stride=i32,x_stride=i32,"
           "n_rows=i32,n_cols=i32", "--const", "BLOCK=1024"]
KERNELS = '''import libtile, libtile.language as tl

def host(n):
    return n

@libtile.jit
def one(x):
    tl.store(x, 1)

@libtile.jit
def two(x):
    tl.store(x, 2)
'''


def run(*arguments, status=0):
    """Standard output and error of the tool, which ends with the status."""
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == status, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stdout, result.stderr


def wrong(*arguments):
    """What an error of the user's says."""
    out, error = run(*arguments, status=1)
    assert out == "", out
    return error


def sections(text):
    """(pass, text) of each that was printed."""
    parts = re.split(r"^// ---- (?:after )?(.*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def headings(text):
    return [title for title, _ in sections(text)]


def patched(text, changes):
    """The text after the hunks of a diff."""
    lines, out, at = text.splitlines(), [], 0
    for line in changes.splitlines():
        hunk = re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@$", line)
        if hunk:
            out += lines[at:int(hunk[1]) - 1]
            at = int(hunk[1]) - 1
            assert len(out) == int(hunk[3]) - 1, line
            continue
        if line[0] != "+":
            assert lines[at] == line[1:], (lines[at], line)
            at += 1
        if line[0] != "-":
            out.append(line[1:])
    return "\n".join(out + lines[at:]) + "\n"


def names_and_definitions(text):
    """Each value's name, with what defines it."""
    return dict(re.findall(r"^ *%(\d+) = (\w+)", text, flags=re.M))


def check_prints(folder):
    tile, _ = run(*ADD)  # the file has one function with @jit and others without
    assert tile.startswith("func @add stage=tile")
    text = folder / "add.tile"
    text.write_text(tile)
    assert run(text)[0] == tile, "the text form is its own fixed point"
    every = run(text, "--target", "avx512", "--print-after", "all")[0]
    assert headings(every)[0] == "simplify" and "form_nests" in headings(every), "the pipeline ran"
    assert "simplify:2" in headings(every), "a second run has its number"
    one = run(text, "--target", "avx512", "--print-after", "form_nests")[0]
    assert headings(one) == ["form_nests"] and one.count("stage=nested") == 2
    second = run(text, "--target", "avx512", "--print-after", "simplify:2", "--emit", "none")[0]
    assert headings(second) == ["simplify:2"]
    alone = run(text, "--passes", "simplify", "--print-after", "all")[0]
    assert headings(alone) == ["simplify"] and "stage=nested" not in alone, "--passes is all that runs"
    assert "zmm" in run(text, "--target", "avx512", "--emit", "asm")[0]
    assert ".entry" in run(text, "--target", "sm_80", "--emit", "ptx")[0]
    assert run(text, "--pipeline", "--emit", "none")[0] == ""
    stopped = run(text, "--target", "sm_80", "--stop-after", "assign_layouts")[0]
    assert "stage=laid-out" in stopped
    assert "form_nests" in run(text, "--target", "avx512", "--pipeline", "--time")[1]
    source = run(*ADD, "--source")[0]
    assert re.search(r"^  // 01_vector_add.py:\d+: mask = i < n\n  %\d+ = splat %n", source, re.M)
    text.write_text(source)
    assert run(text)[0] == tile, "source lines are comments"
    text.write_text(run(*ADD, "--locations")[0])
    assert "// 01_vector_add.py:" in run(text, "--source")[0], "locations carry the source"


def check_changes():
    for kernel in (ADD, SOFTMAX):
        for target in ("avx512", "sm_80"):
            options = (*kernel, "--target", target)
            final = run(*options, "--pipeline")[0]
            whole = sections(run(*options, "--print-changed", "--emit", "none")[0])
            changes = sections(run(*options, "--print-changed=diff", "--emit", "none")[0])
            assert [title for title, _ in whole] == [title for title, _ in changes]
            assert changes[0] == ("at first", run(*kernel)[0])
            text, seen = changes[0][1], names_and_definitions(changes[0][1])
            for (title, change), (_, now) in zip(changes[1:], whole[1:]):
                assert change != "" and patched(text, change) == now != text, title
                text = now
                # A name stands for one value for ever.
                for name, op in names_and_definitions(now).items():
                    assert seen.setdefault(name, op) == op, (title, name)
            assert text == final, "the last change leads to the end"
            assert 4 < len(changes) < 16, "passes that changed nothing are left out"


def check_plan(folder):
    """The plan is the text that is planned, with comments; where nothing plans, that is an error."""
    for target, before, said in (("avx512", "narrow_compares", "stored by the first nest"), ("sm_80", "lower_sorts", "a thread has"),
                                 ("gfx942", "lower_sorts", "a thread has")):
        options = (*SOFTMAX, "--target", target)
        plan = run(*options, "--emit", "plan")[0]
        notes = [line for line in plan.splitlines() if line.lstrip().startswith("//")]
        assert any(said in note for note in notes), plan
        without = "".join(line + "\n" for line in plan.splitlines() if line not in notes)
        assert without == run(*options, "--stop-after", before)[0]
    text = folder / "plan.tile"
    text.write_text(run(*options, "--pipeline")[0])
    assert "no pass that plans" in wrong(text, "--target", "avx512", "--emit", "plan")


def check_stages(folder):
    """A text from between two passes goes on to the same code, with its names."""
    text = folder / "stage.tile"
    for target, middle, code in (("avx512", "form_nests", "asm"), ("sm_80", "assign_layouts", "ptx"),
                                 ("sm_80", "allocate_shared", "ptx")):
        options = ("--target", target)
        text.write_text(run(*SOFTMAX, *options, "--stop-after", middle)[0])
        whole = run(*SOFTMAX, *options, "--emit", code)[0]
        assert run(text, *options, "--start-after", middle, "--emit", code)[0] == whole, middle
        assert run(text, *options)[0] == text.read_text(), "names stay"
        assert "pass simplify takes a function in stage tile" in wrong(text, *options, "--pipeline")
        assert "in front of it" in wrong(*SOFTMAX, *options, "--disable", {"asm": "form_nests",
                                                                           "ptx": "assign_layouts"}[code])
        if target == "sm_80":
            assert "is made in stage staged" in wrong(text, *options, "--emit", code)
        assert "takes a function in stage tile" in wrong(text, *options, "--passes", "request_guards")
        text.write_text(run(*SOFTMAX, *options, "--pipeline")[0])
        assert run(text, *options, "--emit", code)[0] == whole, "a finished text needs no pass"
    assert "#blocked0" in run(*SOFTMAX, "--target", "sm_80", "--pipeline")[0]
    assert "guard disjoint %x %out" in run(*ADD, "--pipeline")[0]


def check_names(folder):
    text, kernels = folder / "two.tile", folder / "kernels.py"
    kernels.write_text(KERNELS)
    sig = ("--sig", "x=*i32")
    error = wrong(kernels, *sig)
    assert "one, two" in error and "--kernel" in error, error
    error = wrong(kernels, *sig, "--kernel", "three")
    assert "no function three" in error and "one, two" in error, error
    both = [run(kernels, *sig, "--kernel", name)[0] for name in ("one", "two")]
    text.write_text("".join(both))
    assert run(text)[0] == "".join(both)
    assert run(text, "--kernel", "two")[0] == both[1]
    assert "one, two" in wrong(text, "--kernel", "three")
    assert "sm_90a" in wrong(text, "--target", "pdp11")
    for target, kinds in (("avx512", "tile, plan, llvm, asm, none"), ("sm_80", "tile, plan, llvm, ptx, none")):
        assert kinds in wrong(text, "--target", target, "--emit", "object")
    for option in ("--passes", "--stop-after", "--start-after", "--disable", "--print-after"):
        for name in ("nothing", "simplify:9", "form_nests"):
            error = wrong(text, "--target", "sm_80", option, name)
            assert f"{option}: no pass named {name}" in error and "simplify:2" in error, error
    for arguments in ((), (text, text), (text, "--what"), (text, "--warps"), (text, "--warps", "many"),
                      (text, "--passes", "simplify", "--pipeline"), (kernels, "--kernel", "one")):
        assert "--help" in run(*arguments, status=2)[1], arguments


def check_faults(folder):
    text = folder / "wrong.tile"
    tile = run(*ADD)[0]
    text.write_text(tile.replace("add %", "add %9", 1))
    assert "^" in wrong(text), "an error has a caret"
    text.write_text("func @k stage=tile warps=4 stages=3 (%n: i32, %p: ptr<f32>) {\n"
                    "  %a = splat %n : tile<4xi32>\n"
                    "  %b = broadcast %a : tile<8xi32>\n"
                    "  store %p, %n\n"
                    "  return\n}\n")
    error = wrong(text)
    assert f"{text}:3:8: error: [16] " in error and "  3 |   %b = broadcast" in error, error
    assert "%b = broadcast (tile<4xi32>) -> (tile<8xi32>)" in error, error
    assert f"{text}:4:3: error: [11] operand value is i32, not f32" in error, error


def check_lanes(folder):
    """A text for warps of 64 lanes is refused where they have 32."""
    source = folder / "lanes.tile"
    source.write_text("#0 = layout regs=[] lanes=[[1],[2],[4],[8],[16],[32]] warps=[] subtile=[64] repeats=[1]\n"
                      "func @f stage=laid-out warps=1 stages=1 (%n: i32) {\n  %0 = splat %n : tile<64xi32, #0>\n  return\n}\n")
    message = wrong(source, "--target", "sm_90a")
    assert "[33] the layout has 64 lanes, a warp of the target 32" in message and "lanes.tile:3:" in message, message


def check_draw(folder):
    """A picture is XML, has each loop, slot and layout, and takes the place of no other output."""
    kernel, picture = folder / "product.py", folder / "picture.svg"
    kernel.write_text("""
import libtile
import libtile.language as tl

@libtile.jit
def product(a, b, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, cols, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + rows[:, None] * k + start + ks[None, :])
        right = tl.load(b + (start + ks)[:, None] * N + cols[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(out + rows[:, None] * N + cols[None, :], acc)
""")
    sizes = [word for name in ("M=128", "N=128", "K=64") for word in ("--const", name)]
    command = [kernel, "--sig", "a=*fp16:16,b=*fp16:16,out=*fp32:16,k=i32:16", *sizes, "--stages", "3", "--draw", picture]
    for target, slots, unit in (("sm_80", 3, "mma_m16n8k16_f16"), ("sm_90a", 3, "wgmma_m64k16_f16")):
        printed = run(*command, "--target", target)[0]
        assert printed == run(*command[:-2], "--target", target, "--pipeline")[0] and "stage=staged" in printed
        texts = [text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0] == f"Loop at {kernel}:9:5", texts[0]
        assert f"3 stages in {slots} slots" in texts[1] and texts.count("copy 0") == texts.count("read 0") == 2
        assert texts.count("slot 0") == texts.count(f"slot {slots - 1}") == 2 and f"slot {slots}" not in texts
        assert f"The accumulator of {unit}: tile<128x128xf32>" in texts and texts.count("31:3") >= 1
        assert any(text.startswith("A slot of tile<128x64xf16> in shared memory (16384 bytes") for text in texts)
    assert "there are none" in wrong(*command, "--target", "avx512", "--emit", "none")
    command[-1] = folder / "nowhere" / "picture.svg"
    assert "cannot write" in wrong(*command, "--target", "sm_80")


def check_reduce(folder):
    """What is left has what the command looks for, is valid, and no op of it can go."""
    text = folder / "softmax.tile"
    text.write_text(run(*SOFTMAX)[0])
    for wanted, most in (("= reduce ", 11), ("= fdiv ", 8), ("cmp .*slt", 9)):
        smaller = run("reduce", text, "--while", f"grep -q '{wanted}' {{}}")[0]
        (folder / "smaller.tile").write_text(smaller)
        assert run(folder / "smaller.tile")[0] == smaller
        ops = [line for line in smaller.splitlines() if re.match(r"^ +(%|[a-z])", line)]
        assert re.search(wanted, smaller) and len(ops) <= most, smaller
        assert smaller.splitlines()[0] == text.read_text().splitlines()[0], "the parameters stay"
    both = run("reduce", text, "--while", f"{TOOL} {{}} --target sm_80 --emit ptx | grep -q ex2.approx")[0]
    assert "= exp" in both and "store" in both and "= load" not in both, both
    assert "nothing goes wrong with @" in wrong("reduce", text, "--target", "avx512", "--pipeline")
    assert "the command fails for @" in wrong("reduce", text, "--while", "false")
    assert "--help" in run(text, "--while", "true", status=2)[1]
    assert "tile-opt makes nothing for it" in wrong(text, "--target", "interpreter", "--pipeline")


def check_left_out(folder):
    """Without a pass there is code, or an error that names the pass or the stage that is missing."""
    kernel = folder / "every.py"
    kernel.write_text("""import libtile, libtile.language as tl

@libtile.jit
def every(x, y, out):
    r, c = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    place = r * 32 + c
    tl.store(out + c * 32 + r, tl.log(tl.dot(tl.load(x + place), tl.load(y + place))))
""")
    stages = {"form_nests": "stage nested", "assign_layouts": "stage laid-out", "place_barriers": "stage staged"}
    for target, code, needed in (
            ("avx512", "asm", ["form_nests", "expand_functions", "allocate_scratch"]),
            ("sm_80", "ptx", ["expand_functions", "plan_dots", "assign_layouts", "lower_conversions", "allocate_shared",
                              "place_barriers"])):
        command = [kernel, "--sig", "x=*fp16:16,y=*fp16:16,out=*fp32:16", "--target", target, "--emit", code]
        passes = set(re.findall(r"^ *[0-9.]+ ms +([a-z_]+)$", run(*command, "--time")[1], re.MULTILINE))
        assert passes >= set(needed), passes
        for name in passes - {"specialise"}:
            if name in needed:
                assert stages.get(name, f"the pass {name} ") in wrong(*command, "--disable", name), name
            else:
                assert run(*command, "--disable", name)[0], name


with tempfile.TemporaryDirectory() as name:
    check_prints(Path(name))
    check_changes()
    check_stages(Path(name))
    check_names(Path(name))
    check_plan(Path(name))
    check_faults(Path(name))
    check_lanes(Path(name))
    check_draw(Path(name))
    check_reduce(Path(name))
    check_left_out(Path(name))
