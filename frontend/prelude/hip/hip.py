# SPDX-License-Identifier: Apache-2.0
"""tl.extra.hip: what AMD's GPUs alone have."""
import libtile
import libtile.language as tl


@libtile.jit
def memrealtime():
    """The real-time counter."""
    tl.only_on("extra.hip.memrealtime")


@libtile.jit
def smid():
    """The compute unit that runs the program."""
    tl.only_on("extra.hip.smid")


@libtile.jit
def num_warps():
    """The warps of a program."""
    tl.only_on("extra.hip.num_warps")


@libtile.jit
def num_threads():
    """The threads of a program."""
    tl.only_on("extra.hip.num_threads")
