# SPDX-License-Identifier: Apache-2.0
"""`import triton` answered by libtile: each test runs an interpreter of its own."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import libtile

HERE = Path(__file__).resolve().parent
ROOT = Path(libtile.__file__).resolve().parent.parent

# Rows of triton_names.tsv that are not answered, and why: (module, names).
UNANSWERED = {
    "of MLIR and of its tools": [
        ("triton.tools", "LinearLayout"), ("triton.compiler", "IRSource"), ("triton._filecheck", "*"),
        ("triton.backends.nvidia / amd", "CUDABackend, HIPBackend"),
    ],
    "code ahead of time is the C++ library's": [("triton.tools.compile", "__main__"), ("triton.tools.link", "__main__")],
    "how the peer keeps compiled kernels": [
        ("triton.runtime.jit.JITFunction", "create_binder preload device_caches"),
        ("triton.compiler.CompiledKernel", "__del__"), ("triton.runtime.autotuner.Autotuner", "check_disk_cache"),
        ("triton.backends.driver.DriverBase", "__abstractmethods__ allocate_default_profile_scratch launcher_cls"),
    ],
    "a slice has no type": [("triton.language.core", "slice_type")],
    "another language": [("triton.experimental.gluon", "*"), ("triton.experimental.gsan", "*")],
    "members that tensors of a kernel have and their class has not": [
        ("triton.language.tensor", "*"), ("triton.language.tensor_descriptor", "*"), ("triton.language.tuple", "__getattr__"),
        ("triton.runtime.TensorWrapper", "dtype base data device shape"),
        ("triton.tools.tensor_descriptor", "TensorDescriptor.base TensorDescriptor.shape TensorDescriptor.strides "
                                           "TensorDescriptor.block_shape"),
    ],
    "torch alone has them": [("triton.tools.mxfp", "MXFP4Tensor MXScaleTensor fp8e8m0_to_float32")],
    "clocks and tools of a machine": [
        ("triton.testing", "cublas cuda_graph_without_gc cuda_memcheck do_bench_cudagraph_proton do_bench_proton nvsmi "
                           "set_gpu_clock get_dram_gbps get_max_simd_tflops get_max_tensorcore_tflops")],
}


def python(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "LIBTILE_TRITON"))}
    environment.update({"PYTHONPATH": str(ROOT), **variables})
    return subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300)


def output(*arguments, **variables):
    result = python(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


def is_unanswered(module, name):
    return any(module == of and (names == "*" or name == names or name in names.split())
               for rows in UNANSWERED.values() for of, names in rows)


def test_every_name_is_answered(tmp_path):
    """On a machine without NVIDIA's tools too."""
    said = output("-m", "libtile.as_triton", HERE / "triton_names.py", PATH=str(tmp_path))
    missing = [line.split("\t") for line in said.splitlines()]
    assert [row for row in missing if not is_unanswered(*row[:2])] == []


def test_a_script_that_knows_nothing_of_libtile(tmp_path):
    (tmp_path / "helper.py").write_text("import triton\nN = triton.cdiv(100, 32)\n")
    script = tmp_path / "script.py"
    script.write_text("""
import sys
import numpy as np
import helper
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

x, y, out = np.arange(100.), np.ones(100), np.full(101, -1.)
kernel = add[(helper.N,)](x, y, out, 100, BLOCK=32, num_warps=4)
assert (out[:100] == x + 1).all() and out[100] == -1
assert add[helper.N,](x, y, out, 100, BLOCK=32) is kernel
print(sys.argv, __name__, kernel.name, kernel.metadata.shared, kernel.metadata["num_ctas"])
""")
    assert output("-m", "libtile.as_triton", script, "a", "b") == f"['{script}', 'a', 'b'] __main__ add 1 1\n"


def test_it_is_a_package_with_a_spec():
    print(output("-c", """
import libtile.as_triton, importlib.util, sys
spec = importlib.util.find_spec("triton")
assert spec.origin.endswith("__init__.py") and "triton" not in sys.modules
import triton
assert triton.__spec__ is not None and triton.__file__ == spec.origin
assert importlib.util.find_spec("triton.language.extra.cuda") is not None
assert importlib.util.find_spec("triton.nothing") is None
import triton.language.extra.libdevice, triton.runtime.driver
from triton.runtime.driver import driver
assert triton.runtime.driver is driver and driver.active is driver.default
from triton.language.extra import libdevice
assert libdevice is triton.language.extra.libdevice is sys.modules["triton.language.extra.libdevice"]
assert triton.language.math.exp is triton.language.exp
assert not hasattr(triton, "nothing") and not hasattr(triton.compiler, "nothing")
assert "jit" in dir(triton) and "ASTSource" in dir(triton.compiler)
"""))


def test_children_have_it_too():
    code = "import triton, multiprocessing.spawn; print(triton.cdiv(7, 2), triton.__file__)"
    first = output("-c", f"""
import libtile.as_triton, subprocess, sys
{code}
sys.stdout.flush()
subprocess.run([sys.executable, "-c", {code!r}], check=True)
subprocess.run([sys.executable, "-c", {code!r}], check=True, cwd="/")
""").splitlines()
    assert len(set(first)) == 1 and len(first) == 3


def test_spawned_children_have_it_too(tmp_path):
    """Although an installed triton stands in sys.path, which they take over."""
    (tmp_path / "installed" / "triton").mkdir(parents=True)
    (tmp_path / "installed" / "triton" / "__init__.py").write_text("__version__ = 'theirs'\n")
    script = tmp_path / "script.py"
    script.write_text(f"""
import multiprocessing, sys
sys.path.append({str(tmp_path / "installed")!r})
import triton

def version(_):
    return triton.__version__

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(triton.__version__, *pool.map(version, [1]))
""")
    assert output("-m", "libtile.as_triton", str(script)) == "3.9.0 3.9.0\n"


def test_another_triton_is_left_alone(tmp_path):
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = 'theirs'\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    theirs = python("-c", "import triton; print(triton.__version__)\nimport libtile.as_triton", PYTHONPATH=path)
    assert theirs.stdout == "theirs\n" and "another triton is imported already" in theirs.stderr
    assert theirs.stderr.strip().splitlines()[-1].startswith("ImportError")
    assert output("-c", "import libtile.as_triton, triton; print(triton.cdiv(3, 2))", PYTHONPATH=path) == "2\n"
    assert output("-c", "import libtile, sys; print('triton' in sys.modules, 'libtile.as_triton' in sys.modules)",
                  PYTHONPATH=path) == "False False\n"


def test_the_version_is_an_option():
    code = "import triton; print(triton.__version__)"
    assert output("-m", "libtile.as_triton", "-c", code) == "3.9.0\n"
    assert output("-m", "libtile.as_triton", "--version", "3.7", "-c", code) == "3.7.0\n"
    assert output("-m", "libtile.as_triton", "-c", code, LIBTILE_TRITON_VERSION="3.8.1") == "3.8.1\n"
    wrong = python("-m", "libtile.as_triton", "--version", "2.0", "-c", code)
    assert wrong.returncode != 0 and wrong.stderr == "LIBTILE_TRITON_VERSION is '2.0'; libtile answers for 3.7, 3.8, 3.9\n"
    assert python("-m", "libtile.as_triton").returncode == 2


def test_what_is_another_language_says_so():
    for module in ("triton.experimental.gluon", "triton.experimental.gsan", "triton._C.libtriton.ir"):
        result = python("-c", f"import libtile.as_triton, {module}")
        assert result.returncode == 1 and "ImportError: " in result.stderr and " is not there: " in result.stderr
    named = python("-c", "import libtile.as_triton\nfrom triton._C.libtriton import ir")
    assert named.returncode == 1 and "ImportError: triton._C.libtriton.ir is not there: " in named.stderr
    # Packages that only ask go without.
    asked = "from importlib.util import find_spec; print(find_spec('triton.experimental.gluon'), find_spec('triton.language').name)"
    assert output("-c", "import libtile.as_triton; " + asked) == "None triton.language\n"


def test_a_profile_of_nothing_can_be_shown():
    said = output("-m", "libtile.as_triton", "-c", """
import triton.profiler as proton
import triton.profiler.viewer as viewer
proton.start("kernels", hook="triton")
with proton.scope("a", {"flops": 1.0}):
    pass
proton.finalize()
viewer.print_tree(*viewer.parse(["time/ms"], "kernels.hatchet"))
""")
    assert said == "triton.profiler measured nothing: libtile answers its names alone\n"


KERNELS = """
import libtile.as_triton
import numpy as np
import triton, triton.language as tl
from triton import knobs
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget

@triton.jit
def scale(x, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

@triton.jit
def product(a, b, c):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))
"""


def check(code, **variables):
    # In a file, since a kernel's source is read from one.
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"as_triton_{os.getpid()}.py"
    path.write_text(KERNELS + code)
    try:
        return output(path, **variables)
    finally:
        path.unlink()


def test_a_kernel_is_compiled_from_its_signature():
    check("""
source = ASTSource(scale, {"x": "*fp32", "n": "i32", "FACTOR": "constexpr", "BLOCK": "constexpr"},
                   {"FACTOR": 3, (3,): 64}, {(0,): [["tt.divisibility", 16]]})
for arch, entry in ((80, ".target sm_80"), (90, ".target sm_90a")):
    kernel = triton.compile(source, GPUTarget("cuda", arch, 32), {"num_warps": 2, "unknown": 1})
    assert entry in kernel.asm["ptx"] and kernel.metadata.num_warps == 2 and kernel.metadata["shared"] == kernel.metadata.shared_bytes
    assert kernel.src is source and kernel.metadata.target == GPUTarget("cuda", arch, 32)
    assert {"source", "ttir", "ttgir", "llir", "ptx", "cubin"} <= set(kernel.asm)
    assert len(kernel.hash) == 64
kernel = triton.compile(source)
x = np.arange(64, dtype="f4")
kernel[(1, 1, 1)](x, 50, 3, 64)
assert (x == np.where(np.arange(64) < 50, 3, 1) * np.arange(64)).all()
kernel.run(1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, 50, 3, 64)
assert x[49] == 9 * 49 and x[50] == 50
try:
    ASTSource(scale, {"y": "i32"})
except ValueError as error:
    assert "no parameter y" in str(error)
else:
    raise AssertionError
""")


def test_stages_of_amd():
    check("""
source = ASTSource(scale, {"x": "*fp32", "n": "i32"}, {"FACTOR": 3, "BLOCK": 64})
for name, lanes in (("gfx942", 64), ("gfx1100", 32)):
    kernel = triton.compile(source, GPUTarget("hip", name, lanes), {"num_warps": 2})
    assert kernel.metadata.target == GPUTarget("hip", name, lanes) and kernel.metadata.num_warps == 2
    assert list(kernel.asm) == ["source", "ttir", "ttgir", "llir", "amdgcn", "laid-out", "plan", "hsaco"]
    assert "s_endpgm" in kernel.asm["amdgcn"] == kernel.asm["asm"]
    assert kernel.asm["hsaco"].startswith(b"\\x7fELF") and kernel.kernel == kernel.asm["hsaco"]
    assert "ptx" not in kernel.asm and "cubin" not in kernel.asm
""")


def test_names_of_a_key_that_are_no_parameters_count_for_nothing():
    check("""
from triton.runtime.autotuner import Autotuner, autotune
assert triton.autotune is autotune and triton.runtime.autotune is autotune
tuned = triton.autotune([triton.Config({"FACTOR": 3}), triton.Config({"FACTOR": 3}, num_warps=2)], key=["n", "BT"])(scale)
assert isinstance(tuned, Autotuner) and tuned.keys == ["n"]
x = np.arange(64, dtype="f4")
above = triton.heuristics({"BLOCK": lambda args: 64})(scale)
for kernel, rest in ((tuned, {"BLOCK": 64}), (triton.autotune([triton.Config({"FACTOR": 5})], ["n", "K"])(above), {})):
    kernel[(1,)](x, 0, **rest)
assert (x == np.arange(64)).all()
""")


def test_what_has_no_cubin_says_what_is_missing(tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\necho 'no such instruction' >&2\nexit 3\n")
    bad.chmod(0o755)
    code = """
import os
kernel = triton.compile(ASTSource(scale, {"x": "*fp32", "n": "i32"}, {"FACTOR": 3, "BLOCK": 64}), GPUTarget("cuda", 90, 32))
for name in ("kernel", "asm"):
    try:
        kernel.kernel if name == "kernel" else kernel.asm["sass"]
    except triton.runtime.errors.PTXASError as error:
        print(error)
"""
    missing = "there is no ptxas on PATH, which comes with CUDA; TRITON_PTXAS_PATH names another\n"
    assert check(code, PATH=str(tmp_path)) == 2 * missing
    wrong = str(tmp_path / "nothing")
    assert check(code, TRITON_PTXAS_PATH=wrong) == 2 * f"TRITON_PTXAS_PATH is {wrong!r}, which is no program\n"
    assert check(code, TRITON_PTXAS_PATH=str(bad)) == 2 * f"{bad} fails: no such instruction\n"


def test_dots_of_fp32_have_the_default_of_triton():
    code = """
import sys
text = product.warmup("*fp32:16", "*fp32:16", "*fp32:16", target="sm_90a", grid=(1,)).asm["ttir"]
assert ("tf32" in text) == (sys.argv[1] == "tf32"), text
assert "tf32" not in product.warmup("*fp32:16", "*fp32:16", "*fp32:16", target="avx512", grid=(1,)).asm["ttir"]
text = product.warmup("*fp32:16", "*fp32:16", "*fp32:16", target="sm_90a", grid=(1,), default_dot_input_precision="ieee")
assert "tf32" not in text.asm["ttir"]
"""
    check(code.replace("sys.argv[1]", "'tf32'"))
    check(code.replace("sys.argv[1]", "'ieee'"), TRITON_F32_DEFAULT="ieee")


def test_a_source_may_be_replaced():
    check("""
x = np.arange(8, dtype="f4")
other = triton.JITFunction(scale.fn)
assert other.src == scale.src and scale.src.startswith("def scale(x, n,") and other.cache_key == scale.cache_key
other._unsafe_update_src(other.src.replace("* FACTOR", "+ FACTOR"))
assert other.cache_key != scale.cache_key
other[(1,)](x, 8, 1, 8)
assert (x == np.arange(8) + 1).all()
scale[(1,)](x, 8, 2, 8)
assert (x == 2 * np.arange(8) + 2).all()
other._unsafe_update_src(scale.src)
other[(1,)](x, 8, 2, 8)
assert (x == 4 * np.arange(8) + 4).all()
""")


def test_classes_of_kernels():
    check("""
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, KernelInterface
tuned = triton.autotune([triton.Config({"BLOCK": 8})], key=["n"])(scale)
chosen = triton.heuristics({"FACTOR": lambda given: 2})(tuned)
assert isinstance(scale, JITFunction) and isinstance(tuned, Autotuner) and isinstance(chosen, Heuristics)
assert all(isinstance(kernel, KernelInterface) for kernel in (scale, tuned, chosen))
assert not any(isinstance(other, KernelInterface) for other in (triton.Config({}), np.arange(3), {}))
assert chosen.fn is tuned and tuned.fn is scale and tuned.base_fn is scale.fn
""")


def test_hooks():
    check("""
seen = []
knobs.runtime.jit_cache_hook = lambda **told: seen.append((told["fn"].name, told["compile"]["constants"]))
knobs.runtime.jit_post_compile_hook = lambda **told: seen.append("compiled")
x = np.arange(8, dtype="f4")
for _ in range(3):
    scale[(1,)](x, 8, FACTOR=2, BLOCK=8)
assert seen == [("scale", {"FACTOR": 2, "BLOCK": 8}), "compiled"], seen
knobs.runtime.jit_cache_hook = lambda **told: True
assert scale[(1,)](x, 8, FACTOR=3, BLOCK=8) is None and (x == 8 * np.arange(8)).all()
with knobs.runtime.scope():
    knobs.runtime.jit_cache_hook = None
    assert scale[(1,)](x, 8, FACTOR=3, BLOCK=8) is not None
assert scale[(1,)](x, 8, FACTOR=4, BLOCK=8) is None
knobs.runtime.jit_cache_hook = None
loads, launches = [], []
knobs.runtime.kernel_load_start_hook.add(lambda module, function, name, group, hash: loads.append(name))
knobs.runtime.launch_enter_hook.add(lambda told: launches.append(told.get()["name"]))
scale.add_pre_run_hook(lambda *args, **kwargs: launches.append(kwargs))
scale[(1,)](x, 8, FACTOR=5, BLOCK=8)
assert loads == ["scale"] and launches == [{"FACTOR": 5, "BLOCK": 8}, "scale"]
scale.pre_run_hooks.clear()
chain = knobs.runtime.launch_enter_hook
with knobs.runtime.scope():
    seen = []
    knobs.runtime.launch_enter_hook = lambda told: seen.append(("enter", told.get()["name"]))
    knobs.runtime.launch_exit_hook = lambda told: seen.append(("exit", told.get()["name"]))
    scale[(1,)](x, 8, FACTOR=5, BLOCK=8)
    assert seen == [("enter", "scale"), ("exit", "scale")] and len(launches) == 2, seen
    knobs.runtime.launch_enter_hook = None
    scale[(1,)](x, 8, FACTOR=5, BLOCK=8)
    assert len(seen) == 3
assert knobs.runtime.launch_enter_hook is chain
scale[(1,)](x, 8, FACTOR=5, BLOCK=8)
assert len(seen) == 3 and launches[2:] == ["scale"], (seen, launches)
""")


def test_tuned_kernels_are_told_of_by_the_knobs():
    check("""
heard = []
knobs.autotuning.listener = lambda **told: heard.append((told["fn"] is scale, told["cache_hit"], told["best_config"]))
tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (8, 16)], ["n"], restore_value=["x"], warmup=1,
                        rep=1)(scale)
x = np.arange(8, dtype="f4")
tuned[(1,)](x, 8, FACTOR=3)
assert heard == [(True, False, tuned.best_config)] and (x == 3 * np.arange(8)).all(), heard
""")


def test_slices_of_different_lengths():
    check("""
from triton.tools import ragged_tma

@triton.jit
def copy(source, target, offset, size, SIZE: tl.constexpr):
    block = ragged_tma.load_ragged(source, offset, size, (tl.program_id(0) * 4, 0))
    ragged_tma.store_ragged(target, offset, size, (tl.program_id(0) * 4, 0), block + 1)
    ragged_tma.atomic_add_ragged(target, offset, size, (tl.program_id(0) * 4, 0), block)

a = np.arange(20 * 8, dtype="f4").reshape(20, 8)
for offset, size in ((0, 20), (3, 6), (17, 3), (5, 1), (4, 0)):
    b = np.full_like(a, -1)
    copy[(triton.cdiv(20, 4),)](*(ragged_tma.create_ragged_descriptor(each, [4, 8]) for each in (a, b)), offset, size, 0)
    inside = (np.arange(20) >= offset) & (np.arange(20) < offset + size)
    assert (b == np.where(inside[:, None], 2 * a + 1, -1)).all()
""")


def test_a_kernel_knows_its_registers_before_a_launch():
    check("""
import libtile
from libtile import _libtile
is_there = "cuda:0" in libtile.available_devices()
kernel = scale.warmup("*fp32", "i32", FACTOR=3, BLOCK=1024, num_warps=8, grid=(1,), target=_libtile.target(0) if is_there else "sm_80")
if is_there:
    fits = triton.runtime.driver.active.utils.get_device_properties(0)
    assert 0 < kernel.n_regs <= 255 and kernel.n_spills == 0 and kernel.n_max_threads >= 8 * 32
    assert fits["max_num_regs"] // (kernel.n_regs * fits["warpSize"] * 8) > 0 and fits["multiprocessor_count"] > 1
    kernel._init_handles()
else:
    assert kernel.n_regs is None and kernel.n_spills is None
    try:
        kernel._init_handles()
    except libtile.errors.DeviceError as error:
        assert "NVIDIA" in str(error) or "GPUs" in str(error)
    else:
        raise AssertionError("a kernel was loaded on a GPU that is not there")
""")


@pytest.mark.not_interpreted("it is what runs such a launch")
def test_compiling_for_a_target_asks_no_device():
    check("""
from libtile import _libtile
def nowhere():
    raise RuntimeError("this process may not ask")
_libtile.set_home(nowhere)
signature = {"x": "*fp32", "n": "i32", "FACTOR": "constexpr", "BLOCK": "constexpr"}
assert "ptx" in triton.compile(ASTSource(scale, signature, {"FACTOR": 3, "BLOCK": 64}), GPUTarget("cuda", 80, 32)).asm
@triton.jit
def empty():
    pass
assert "ptx" in triton.compile(ASTSource(empty, {}), GPUTarget("cuda", 80, 32)).asm
try:
    empty[(1,)]()
except RuntimeError as error:
    assert "may not ask" in str(error)
else:
    raise AssertionError("a launch without arrays went nowhere")
""")


def test_knobs():
    check("""
import os
assert knobs.cache.dir.endswith(".triton/cache") and knobs.redis.port == 6379 and not knobs.compilation.dump_ir
os.environ["TRITON_CACHE_DIR"] = "/somewhere"
assert knobs.cache.dir == "/somewhere"
with knobs.cache.scope():
    knobs.cache.dir = "/elsewhere"
    assert os.environ["TRITON_CACHE_DIR"] == knobs.cache.dir == "/elsewhere"
assert os.environ["TRITON_CACHE_DIR"] == knobs.cache.dir == "/somewhere"
other = knobs.nvidia.copy().reset()
knobs.nvidia.ptxas = "/bin/ptxas"
assert os.environ["TRITON_PTXAS_PATH"] == "/bin/ptxas" and other.ptxas.path == "/bin/ptxas"
assert knobs.amd.use_buffer_ops and knobs.language.fp_fusion_enabled() and not knobs.language.fp_fusion_enabled(False)
""")


def test_a_cpu_may_be_told_to_be_a_gpu():
    code = """
x = np.ones(8, "f4")
kernel = scale[(1,)](x, 8, FACTOR=4, BLOCK=8, extern_libs={"libdevice": "libdevice.10.bc"})
assert (x == 4).all() and kernel.n_regs == kernel.metadata.shared == 1 and kernel.n_spills == 0
triton.runtime.driver.set_active_to_cpu()
print(tuple(triton.runtime.driver.active.get_current_target())[::2])
"""
    assert check(code) == "('cpu', 1)\n"
    assert check(code, LIBTILE_TRITON_TARGET="cuda:80") == "('cuda', 32)\n"
    wrong = python("-c", "import libtile.as_triton, triton; triton.runtime.driver.set_active_to_cpu()\n"
                   "triton.runtime.driver.active.get_current_target()", LIBTILE_TRITON_TARGET="gpu")
    assert "ValueError: LIBTILE_TRITON_TARGET is 'gpu'; it takes cuda:ARCH, as cuda:80" in wrong.stderr


def test_errors_have_causes_and_places_of_calls():
    check("""
@triton.jit
def inner(x):
    x + missing

@triton.jit
def outer(x):
    # a line
    inner(x)

@triton.jit
def twice(x):
    tl.expand_dims(tl.arange(0, 4), (0, -3))

def failing(kernel):
    try:
        kernel.warmup("*fp32", grid=(1,))
    except triton.CompilationError as error:
        return error
error = failing(outer)
assert "at 3:4:" in str(error) and "at 2:8:" in str(error.__cause__) and "missing" in str(error.__cause__)

@triton.jit
def returning(x, y, n):
    if n > 1:
        return x
    return y

@triton.jit
def either(x, y, n):
    if n > 2:
        out = x
    else:
        out = y
    tl.store(out, 1)

@triton.jit
def calling(x, y, n):
    tl.store(returning(x, y, n), 1)

for kernel in (calling, either):
    try:
        kernel.warmup("*fp32", "*fp16", "i32", grid=(1,))
    except triton.CompilationError as error:
        assert error.message.startswith("Return type mismatch: " if kernel is calling else "Mismatched type for out"), error
    else:
        raise AssertionError
assert str(failing(twice).__cause__) == "duplicate axes, normalized axes = [0, 0]"
""")


def test_errors_have_the_words_of_triton():
    check("""
import pickle

@triton.jit
def imprecise():
    x = tl.full((64, 64), 0.0, tl.float8e5)
    tl.dot(x, x, max_num_imprecise_acc=128)

@triton.jit
def scaled(n: tl.constexpr):
    a, b = tl.full((32, 64), 0, tl.uint8), tl.full((64, 32), 0, tl.uint8)
    tl.dot_scaled(a, tl.full((32, n), 0, tl.uint8), "e5m2", b, tl.full((32, 2), 0, tl.uint8), "e5m2")

@triton.jit(do_not_specialize=["N"])
def constant(x, N: tl.constexpr):
    pass

@triton.jit
def large(a, b, c, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))

def failing(call, kind=triton.CompilationError):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError

assert str(failing(lambda: imprecise.warmup(grid=(1,))).__cause__) == "max_num_imprecise_acc (128) must be <= K (64)"
words = "Operands must have the same scale factor; (lhs: 16 vs rhs: 32)"
assert str(failing(lambda: scaled.warmup(4, grid=(1,))).__cause__) == words
scaled.warmup(2, grid=(1,))
for call in (lambda: constant.warmup("*fp32", 5, grid=(1,)), lambda: constant[(1,)](np.zeros(1), 5)):
    error = failing(call)
    assert "N marked as constexpr and listed in do_not_specialize" in str(error) and error.line is not None
for warps, size, words in ((64, 16, "out of resource: threads, Required: 2048, Hardware limit: 1024"),
                           (4, 512, "out of resource: shared memory, Required: ")):
    error = failing(lambda: large.warmup("*fp32", "*fp32", "*fp32", size, grid=(1,), num_warps=warps, target="sm_80"), triton.OutOfResources)
    assert str(error).startswith(words), str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)

tuned = triton.autotune([triton.Config({"SIZE": 16}), triton.Config({"SIZE": 8})], [], prune_configs_by={"early_config_prune": lambda *args, **kwargs: []})(large)
assert str(failing(lambda: tuned[(1,)](*[np.zeros(256, "f4")] * 3), triton.TritonError)) == (
    "Autotuner error: No valid autotuner configs after pruning. `early_config_prune` should return at least one config.")
""")


def test_descriptors_reduce_the_types_of_triton():
    check("""
@triton.jit
def reduce(x, KIND: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [4, 16], [16, 1], [4, 16])
    value = tl.full((4, 16), 1, x.dtype.element_ty)
    if KIND == "add":
        desc.atomic_add([0, 0], value)
    elif KIND == "max":
        desc.atomic_max([0, 0], value)
    else:
        desc.atomic_xor([0, 0], value)

def refuses(kind, dtype, **options):
    try:
        reduce.warmup("*" + dtype, kind, grid=(1,), **options)
    except triton.CompilationError as error:
        assert "no such reduction" in str(error) and error.line is not None
        return True
    return False

whole = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
types = [*whole, "fp16", "bf16", "fp32", "fp64"]
taken = lambda kind, **options: {dtype for dtype in types if kind != "xor" or dtype in whole if not refuses(kind, dtype, **options)}
words = {"i32", "i64", "u32", "u64"}
for target in ("avx512", "sm_80", "sm_90a"):
    assert taken("add", target=target) == words - {"i64"} | {"fp16", "bf16", "fp32"}
    assert taken("max", target=target) == words | ({"fp16", "bf16"} if target == "sm_90a" else set())
    assert taken("xor", target=target) == words
assert taken("max", portable=False, target="avx512") == set(types)
""")


def test_the_type_of_a_constant_tuple():
    check("""
from triton.language.core import constexpr_type
LITERAL = tl.constexpr((5, 6, 7))

@triton.jit
def kernel(given: tl.constexpr):
    tl.static_assert(given.type == constexpr_type((5, 6, 7)) and given.type != constexpr_type((5, 6, 8)))
    same: tl.constexpr = given
    tl.static_assert(same.type == constexpr_type(LITERAL) and same == LITERAL)

kernel.warmup((5, 6, 7), grid=(1,))
""")


@pytest.mark.not_interpreted("it is what runs such a launch")
def test_a_launch_without_arrays_is_on_the_active_driver():
    check("""
import libtile
from triton.backends.driver import GPUDriver

@triton.jit
def printing(n):
    print("n", n)

class Elsewhere(GPUDriver):
    def get_current_device(self):
        return 63

    def get_current_stream(self, index=None):
        return 0

triton.runtime.driver.set_active_to_cpu()
printing[(1,)](3)
assert printing[(1,)](3, device="cpu").target == printing[(1,)](3).target
import sys
sys.modules.setdefault("torch", np)
triton.runtime.driver.set_active(Elsewhere())
try:
    printing[(1,)](3)
except libtile.DeviceError:
    pass
else:
    raise AssertionError
printing[(1,)](3, device="cpu")
scale[(1,)](np.ones(4, "f4"), 4, 3, 4)
""")


def test_helpers_of_test_suites():
    check("""
from triton import _internal_testing as helpers
assert helpers.is_cpu() == (helpers.get_current_target().backend == "cpu") != helpers.is_cuda()
for name in [*helpers.dtypes_with_bfloat16, "bool", "float8_e5m2"]:
    x = helpers.numpy_random((3, 4), name)
    assert x.shape == (3, 4) and (x == helpers.numpy_random((3, 4), name)).all() and (name == "bool" or (x != 0).all()), name
assert set(np.unique(helpers.numpy_random(99, "int32", low=-2, high=3))) <= {-2, -1, 1, 2}
assert helpers.str_to_triton_dtype("float8_e4m3fn") is tl.float8e4nv and helpers.torch_dtype_name(tl.bfloat16) == "bfloat16"
assert [helpers.torch_dtype_name(getattr(tl, name)) for name in helpers.dtypes] == helpers.dtypes
if __name__ == "__main__":
    import os
    assert helpers.run_in_process(print, ("written",)).exc is None
    assert helpers.run_in_process(os.write, (2, b"written")).driver_stderr_output == "written"
    assert isinstance(helpers.run_in_process(int, ("x",)).exc, ValueError)
    assert isinstance(helpers.run_in_process(os._exit, (3,)).exc, RuntimeError)
""")


def test_a_failed_assertion_is_the_error_that_programs_expect():
    check("""
@triton.jit
def asserting(x, n):
    tl.device_assert(n < 3, "small")

asserting[(1,)](np.zeros(1, "f4"), 2, debug=True)
try:
    asserting[(1,)](np.zeros(1, "f4"), 5, debug=True)
except RuntimeError as error:
    assert "small" in str(error)
else:
    raise AssertionError
""")
