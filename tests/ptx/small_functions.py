#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small functions of LLVM IR, what our writer of PTX makes of them, and the words that they must store.

    tests/ptx/small_functions.py build/tests/ptx/write_ptx
"""
import argparse
import struct
import subprocess
import sys

from ptx_machine import Machine, kernels

IN, OUT = 0x7F0000000000, 0x7E0000000000

# By name: words of `in`, words of `out`, and the body. A function has the pointers %in and %out and the first word, %n.
CASES = {}


def case(name, given, wanted, body):
    CASES[name] = given, wanted, body


def bits(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


case("number_of_another_type", [7], [bits(1.0) + 7, 7 ^ (1 << 31)], """
  %v0 = insertelement <4 x float> poison, float 1.0, i32 0
  %v1 = insertelement <4 x float> %v0, float -0.0, i32 1
  %words = bitcast <4 x float> %v1 to <4 x i32>
  %one = extractelement <4 x i32> %words, i32 0
  %sum = add i32 %n, %one
  store i32 %sum, ptr addrspace(1) %out
  %top = extractelement <4 x i32> %words, i32 1
  %turned = xor i32 %n, %top
  %second = getelementptr i32, ptr addrspace(1) %out, i64 1
  store i32 %turned, ptr addrspace(1) %second
  ret void
""")

case("float_of_a_word", [bits(2.0)], [bits(3.0)], """
  %x = load float, ptr addrspace(1) %in
  %v = insertelement <4 x i32> poison, i32 1065353216, i32 2
  %floats = bitcast <4 x i32> %v to <4 x float>
  %one = extractelement <4 x float> %floats, i32 2
  %sum = fadd float %x, %one
  store float %sum, ptr addrspace(1) %out
  ret void
""")

case("sum_with_what_no_one_knows", [bits(2.0)], [bits(4.0), 0], """
  %x = load <2 x float>, ptr addrspace(1) %in, align 4
  %y = shufflevector <2 x float> %x, <2 x float> poison, <2 x i32> <i32 0, i32 poison>
  %sum = fadd <2 x float> %y, %y
  %first = extractelement <2 x float> %sum, i32 0
  store float %first, ptr addrspace(1) %out
  %second = extractelement <2 x float> %sum, i32 1
  %other = getelementptr i32, ptr addrspace(1) %out, i64 1
  store float %second, ptr addrspace(1) %other
  ret void
""")

case("halves_with_numbers", [0x4200], [0x4700], """
  %x = load half, ptr addrspace(1) %in
  %product = fmul contract half %x, 2.0
  %sum = fadd contract half %product, 1.0
  store half %sum, ptr addrspace(1) %out
  ret void
""")

case("before_a_pointer", [5], [5], """
  %behind = getelementptr i8, ptr addrspace(1) %in, i32 %n
  %there = getelementptr i8, ptr addrspace(1) %behind, i64 -5
  %x = load i32, ptr addrspace(1) %there, align 4
  store i32 %x, ptr addrspace(1) %out
  ret void
""")

case("shifts_of_single_bits", [5], [1], """
  %on = icmp eq i32 %n, 5
  %by = icmp eq i32 %n, 4
  %shifted = shl i1 %on, %by
  %again = lshr i1 %shifted, %by
  %stored = zext i1 %again to i32
  store i32 %stored, ptr addrspace(1) %out
  ret void
""")

# Assembly that changes what it begins as, in a loop inside of the one where that lives.
LOOPS = """
  br label %outer
outer:
  %i = phi i32 [0, %entry], [%i1, %latch]
  %p = phi i32 [10, %entry], [%r, %latch]
  br label %inner
inner:
  %j = phi i32 [0, %outer], [%j1, %inner]
  {}
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, 3
  br i1 %again, label %inner, label %latch
latch:
  %i1 = add i32 %i, 1
  %on = icmp ult i32 %i1, 2
  br i1 %on, label %outer, label %exit
exit:
  store i32 %r, ptr addrspace(1) %out
  ret void
"""
case("phi_of_a_loop_around", [0], [12], LOOPS.format('%r = call i32 asm sideeffect "add.s32 $0, $1, 1;", "=r,0"(i32 %p)'))
case("phi_that_is_read_again", [0], [43], LOOPS.format(
    '%q = add i32 %p, %p\n  %r = call i32 asm sideeffect "add.s32 $0, $1, 1;", "=r,r"(i32 %q)'))
case("sum_that_is_an_operand", [0], [7 + 3], """
  br label %loop
loop:
  %j = phi i32 [0, %entry], [%j1, %loop]
  %p = phi i32 [7, %entry], [%r, %loop]
  %s = phi i32 [0, %entry], [%s1, %loop]
  %v = insertelement <4 x i32> zeroinitializer, i32 %p, i32 0
  %w = insertelement <4 x i32> zeroinitializer, i32 %n, i32 1
  %both = add <4 x i32> %v, %w
  %r = call i32 asm sideeffect "mov.b32 $0, 3;", "=r"()
  %before = extractelement <4 x i32> %both, i32 0
  %s1 = add i32 %s, %before
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, 2
  br i1 %again, label %loop, label %exit
exit:
  store i32 %s1, ptr addrspace(1) %out
  ret void
""")
case("result_from_before_a_loop", [0], [18], """
  %p = call i32 asm "mov.b32 $0, 5;", "=r"()
  br label %loop
loop:
  %j = phi i32 [0, %entry], [%j1, %loop]
  %s = phi i32 [0, %entry], [%s1, %loop]
  %r = call i32 asm sideeffect "add.s32 $0, $1, 1;", "=r,0"(i32 %p)
  %s1 = add i32 %s, %r
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, 3
  br i1 %again, label %loop, label %exit
exit:
  store i32 %s1, ptr addrspace(1) %out
  ret void
""")


case("block_that_no_way_leads_to", [5], [20], """
  %b = mul i32 %n, %n
  br label %loop
loop:
  %j = phi i32 [0, %entry], [%j1, %loop]
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, %n
  br i1 %again, label %loop, label %exit
nowhere:
  %c = add i32 %b, 1
  br label %exit
exit:
  %r = phi i32 [%j1, %loop], [%b, %nowhere]
  %q = phi i32 [0, %loop], [%c, %nowhere]
  %d = sub i32 %b, %r
  %s = add i32 %d, %q
  store i32 %s, ptr addrspace(1) %out
  ret void
""")


case("three_words", [5, 6, 7], [5, 6, 7], """
  %v = load <3 x i32>, ptr addrspace(1) %in, align 16
  store <3 x i32> %v, ptr addrspace(1) %out, align 16
  ret void
""")

# What no emitter makes has no text: bodies.
REFUSED = {
    "not_aligned": "%v = load i32, ptr addrspace(1) %in, align 2\n  store i32 %v, ptr addrspace(1) %out",
    "atomic": "%v = load atomic i32, ptr addrspace(1) %in acquire, align 4\n  store i32 %v, ptr addrspace(1) %out",
    "single_bit": "%v = load i1, ptr addrspace(1) %in\n  store i1 %v, ptr addrspace(1) %out",
    "wide_number": "%v = load <2 x i64>, ptr addrspace(1) %in\n  %w = bitcast <2 x i64> %v to i128\n  store i128 %w, ptr addrspace(1) %out",
    "function_of_bf16": "%v = load bfloat, ptr addrspace(1) %in\n  %w = call bfloat @llvm.floor.bf16(bfloat %v)\n"
                        "  store bfloat %w, ptr addrspace(1) %out",
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("writer")
    options = parser.parse_args()
    failed = 0
    for name, (given, wanted, body) in CASES.items():
        text = (f"define ptx_kernel void @{name}(ptr addrspace(1) %in, ptr addrspace(1) %out) {{\nentry:\n"
                f"  %n = load i32, ptr addrspace(1) %in, align 4{body}}}\n")
        result = subprocess.run([options.writer, "sm_90a"], input=text, capture_output=True, text=True)
        out = bytearray(4 * len(wanted))
        try:
            assert result.returncode == 0, result.stderr
            memory = bytearray(struct.pack("<4I", *given, *[0] * (4 - len(given))))
            Machine(kernels(result.stdout)[name], [IN, OUT], {IN: memory, OUT: out}, {}).run()
            stored = list(struct.unpack(f"<{len(wanted)}I", out))
            assert stored == wanted, f"{stored}, not {wanted}"
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"---- {name}: {error}\n{result.stdout}")
    for name, body in REFUSED.items():
        text = (f"declare bfloat @llvm.floor.bf16(bfloat)\ndefine ptx_kernel void @{name}(ptr addrspace(1) %in, ptr addrspace(1) %out) {{\n"
                f"  {body}\n  ret void\n}}\n")
        result = subprocess.run([options.writer, "sm_90a"], input=text, capture_output=True, text=True)
        if result.returncode != 1 or "no PTX is known" not in result.stderr:
            failed += 1
            print(f"---- {name}: {result.stderr}\n{result.stdout}")
    print(f"{len(CASES) + len(REFUSED)} functions, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
