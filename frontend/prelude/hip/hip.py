# SPDX-License-Identifier: Apache-2.0
"""tl.extra.hip: what AMD's GPUs alone have."""
import libtile
import libtile.language as tl


@libtile.jit
def memrealtime():
    """The real-time counter, an int64 that each call reads anew: it counts a hundred million a second."""
    tl.only_on("extra.hip.memrealtime")
    return tl.clock() // 10


@libtile.jit
def smid():
    """The compute unit that runs the program: bits of the hardware's register, numbers that are not dense."""
    tl.only_on("extra.hip.smid")
    if tl.target_info.current_target().warp_size == 32:
        return tl.inline_asm_elementwise("s_getreg_b32 $0, hwreg(HW_REG_HW_ID1, 10, 11)", "=s", [], dtype=tl.int32, is_pure=True, pack=1)
    unit = tl.inline_asm_elementwise("s_getreg_b32 $0, hwreg(HW_REG_HW_ID, 8, 8)", "=s", [], dtype=tl.int32, is_pure=True, pack=1)
    if tl.target_info.is_hip_cdna3() or tl.target_info.is_hip_cdna4():  # of several dies
        unit |= tl.inline_asm_elementwise("s_getreg_b32 $0, hwreg(HW_REG_XCC_ID, 0, 4)", "=s", [], dtype=tl.int32, is_pure=True, pack=1) << 8
    return unit


@libtile.jit
def num_warps():
    """The warps of a program."""
    tl.only_on("extra.hip.num_warps")
    return tl.warps()


@libtile.jit
def num_threads():
    """The threads of a program."""
    tl.only_on("extra.hip.num_threads")
    return tl.warps() * tl.target_info.current_target().warp_size
