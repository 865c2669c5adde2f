# SPDX-License-Identifier: Apache-2.0
"""`triton._internal_testing`: what test suites of kernels take from Triton's own: lists of types, arrays of random numbers,
questions about the device, a process of its own for what may end one."""
import os
import re
from dataclasses import dataclass

import triton

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted({*dtypes_with_bfloat16} - {"int64", "uint64", "float64"})


# ---- the device

def is_interpreter():
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def get_current_target():
    """The active driver's; None: kernels are interpreted."""
    return None if is_interpreter() else triton.runtime.driver.active.get_current_target()


def _is(backend, *archs):
    """Whether the target is of that kind, and of one of the architectures if any are given."""
    target = get_current_target()
    return target is not None and target.backend == backend and (not archs or str(target.arch) in archs)


def _cuda_arch():
    return get_current_target().arch if _is("cuda") else 0


def is_cuda():
    return _is("cuda")


def is_ampere_or_newer():
    return _cuda_arch() >= 80


def is_hopper_or_newer():
    return _cuda_arch() >= 90


def is_hopper():
    return _cuda_arch() // 10 == 9


def is_blackwell():
    return _cuda_arch() // 10 == 10


def is_sm12x():
    return _cuda_arch() // 10 == 12


def is_hip():
    return _is("hip")


def is_hip_cdna2():
    return _is("hip", "gfx90a")


def is_hip_cdna3():
    return _is("hip", "gfx942")


def is_hip_cdna4():
    return _is("hip", "gfx950")


def is_hip_cdna():
    return _is("hip", "gfx908", "gfx90a", "gfx942", "gfx950")


def is_hip_rdna3():
    return _is("hip", "gfx1100", "gfx1101", "gfx1102")


def is_hip_rdna4():
    return _is("hip", "gfx1200", "gfx1201")


def is_hip_gfx1250():
    return _is("hip", "gfx1250")


def is_xpu():
    return _is("xpu")


def is_cpu():
    return _is("cpu")


def get_arch():
    target = get_current_target()
    return "" if target is None else str(target.arch)


def supports_tma():
    """Whether tensor descriptors work: everywhere."""
    return True


def tma_skip_msg():
    return "tensor descriptors work on every device"


# ---- arrays

def numpy_random(shape, dtype_str, rs=None, low=None, high=None):
    """Of a type of the lists: integers of its range, or from low on below high, without 0; floats of the normal distribution;
    bools. bfloat16 as float32 of its numbers. The same ones at each call, if no generator is given."""
    import numpy as np
    rs = np.random.RandomState(seed=17) if rs is None else rs
    if dtype_str in integral_dtypes:
        limits = np.iinfo(dtype_str)
        low = limits.min if low is None else max(low, limits.min)
        high = limits.max if high is None else min(high, limits.max)
        found = rs.randint(low, high, shape, dtype=dtype_str)
        return np.where(found == 0, found.dtype.type(1), found)
    if "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    found = rs.normal(0, 1, shape)
    if dtype_str in ("bool", "int1", "bool_"):
        return found > 0
    if dtype_str == "bfloat16":
        return (found.astype("float32").view("uint32") & np.uint32(0xFFFF0000)).view("float32")
    return found.astype(dtype_str)


def to_triton(x, device, dst_type=None):
    """A tensor of torch, or one that kernels see under its own type, with the array's numbers."""
    import torch
    import triton.language as tl
    name = x.dtype.name
    if name in uint_dtypes:
        return triton.reinterpret(torch.tensor(x.view(name[1:]), device=device), getattr(tl, name))
    if dst_type and "float8" in dst_type:
        return triton.reinterpret(torch.tensor(x, device=device), getattr(tl, dst_type))
    made = torch.tensor(x, device=device)
    return made.bfloat16() if dst_type == "bfloat16" else made


def to_numpy(x):
    import torch
    if isinstance(x, triton.runtime.jit.TensorWrapper):
        return x.base.cpu().numpy().astype(torch_dtype_name(x.dtype))
    return (x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy()


def unwrap_tensor(t):
    """The tensor of torch below."""
    return t.base if isinstance(t, triton.runtime.jit.TensorWrapper) else t


_LANGUAGE_NAMES = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
                   "float8_e5m2fnuz": "float8e5b16"}


def str_to_triton_dtype(x):
    """The type of the language for a name of torch's."""
    import triton.language as tl
    return getattr(tl, _LANGUAGE_NAMES.get(x, x))


def torch_dtype_name(dtype):
    """The name of a type of torch, or of the language, as torch has it."""
    name = getattr(dtype, "name", None)
    if name is None:
        return str(dtype).removeprefix("torch.")
    return re.sub(r"^fp(?=\d\d$)", "float", name.replace("bf16", "bfloat16"))


def default_alloc_fn(size, align, stream):
    import torch
    return torch.empty(size, dtype=torch.int8, device=triton.runtime.driver.active.get_active_torch_device())


# ---- a process

@dataclass
class ProcessResult:
    """How a function ended in a process of its own: what it raised, or None, and what that process wrote to stderr."""
    exc: object
    driver_stderr_output: str


def _run(sender, path, client_fn, args, kwargs, env):
    os.environ.update(env)
    with open(path, "w") as file:
        os.dup2(file.fileno(), 2)
    raised = None
    try:
        client_fn(*args, **kwargs)
    except Exception as error:
        raised = error
    sender.send(raised)


def run_in_process(client_fn, args=(), kwargs=None, env=None):
    """Calls the function in a new process with these variables more."""
    import multiprocessing
    import tempfile
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stderr")
        process = context.Process(target=_run, args=(sender, path, client_fn, args, kwargs or {}, env or {}))
        process.start()
        sender.close()
        try:
            raised = receiver.recv()
        except EOFError:
            raised = RuntimeError("the process ended before the function did")
        process.join()
        written = open(path).read() if os.path.exists(path) else ""
    return ProcessResult(raised, written)
