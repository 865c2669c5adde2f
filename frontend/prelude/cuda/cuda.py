# SPDX-License-Identifier: Apache-2.0
"""tl.extra.cuda: what NVIDIA's GPUs alone have. Inline assembly says so on other targets."""
import libtile
import libtile.language as tl


@libtile.jit
def globaltimer():
    """Nanoseconds, an int64 that each call reads anew."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@libtile.jit
def smid():
    """The multiprocessor that runs the program."""
    return tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=True, pack=1)


@libtile.jit
def gdc_wait():
    """Nothing: launches do not overlap, so the grid before is done."""
    return None


@libtile.jit
def gdc_launch_dependents():
    """Nothing: launches do not overlap."""
    return None
