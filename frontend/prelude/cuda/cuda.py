# SPDX-License-Identifier: Apache-2.0
"""tl.extra.cuda: what NVIDIA's GPUs have, most of it they alone."""
import libtile
import libtile.language as tl


@libtile.jit
def globaltimer():
    """Nanoseconds, an int64 that each call reads anew."""
    return tl.clock()


@libtile.jit
def smid():
    """The multiprocessor that runs the program."""
    tl.only_on("extra.cuda.smid")
    return tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=True, pack=1)


@libtile.jit
def num_warps():
    """The warps of a program."""
    tl.only_on("extra.cuda.num_warps")
    return tl.warps()


@libtile.jit
def num_threads():
    """The threads of a program."""
    tl.only_on("extra.cuda.num_threads")
    return tl.warps() * 32


@libtile.jit
def convert_custom_float8_sm80(arg, dst_ty, fp_downcast_rounding=None):
    """From float8e4b15 or to it, as Triton's GPUs do it: to fp16 exactly, from fp32 with two roundings."""
    if arg.dtype == tl.float8e4b15:
        wide = arg.to(tl.float16)
        return wide.to(tl.float32) if dst_ty.scalar == tl.float32 else wide
    else:
        tl.static_assert(arg.dtype == tl.float16 or arg.dtype == tl.float32,
                         "convert_custom_float8 takes float8e4b15, fp16 or fp32")
        half = arg.to(tl.float16, fp_downcast_rounding="rtz") if arg.dtype == tl.float32 else arg
        return half.to(tl.float8e4b15)


@libtile.jit
def convert_custom_float8_sm70(arg, dst_ty, fp_downcast_rounding=None):
    """The same."""
    return convert_custom_float8_sm80(arg, dst_ty, fp_downcast_rounding)


@libtile.jit
def gdc_wait():
    """Behind it what launches before have written is there, and what they read may be written."""
    tl.grid_wait()


@libtile.jit
def gdc_launch_dependents():
    """The next launch may start when all programs have come here, or ended."""
    tl.launch_dependents()
