# SPDX-License-Identifier: Apache-2.0
"""libtile.profile: what it counts, exactly; what it makes of the counts; and the machine's own rates."""
import numpy as np
import pytest
from spine import DEVICES, add, layer_norm, matmul

import libtile
import libtile.language as tl
from libtile import profiling
from libtile.tools.tensor_descriptor import TensorDescriptor


@pytest.fixture(autouse=True)
def machine(request, monkeypatch):
    """Of 100 GB/s and 1 TFLOP/s, in place of this one."""
    if "measured" in request.node.name:
        return None
    made = profiling.Roofline("cpu")
    made.gbps, made.tflops = 100.0, lambda type: 1.0
    monkeypatch.setattr(profiling, "roofline", lambda device: made)
    return made


def profile(kernel, *args, **kwargs):
    return libtile.profile(kernel, *args, warmup=0, rep=0, clear_cache=False, **kwargs)


def arrays(*shapes, device="cpu", dtype=np.float32):
    made = [np.ones(shape, dtype) for shape in shapes]
    return made if device == "cpu" else [libtile.to_device(array, device) for array in made]


@pytest.mark.parametrize("device", DEVICES)
def test_accesses_and_operations_of_a_vector_addition(device):
    n, block = 1000, 256
    x, y, out = arrays(n, n, n, device=device)
    found = profile(add.add, x, y, out, n, grid=(4,), BLOCK=block)
    assert (found.loaded, found.stored, found.bytes) == (8 * n, 4 * n, 12 * n)
    # What is masked off is computed, and does not reach memory.
    assert found.operations == {"f32": 4 * block} and found.flops == 4 * block
    assert found.programs == 4 and found.program_us == pytest.approx(found.milliseconds * 1e3 / 4)
    assert found.bound == "memory" and found.fraction == pytest.approx(12 * n / 100e9 / (found.milliseconds * 1e-3))


def test_what_is_read_again_comes_from_memory_once():
    m, n, k = 64, 96, 128
    a, b, c = arrays((m, k), (k, n), (m, n))
    found = profile(matmul.matmul, a, b, c, m, n, k, k, 1, n, 1, n, 1, grid=(6,), BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=8)
    assert found.operations == {"f32": 2 * m * n * k}
    assert found.loaded == 4 * (m * k * n // 32 + k * n * m // 32) and found.stored == c.nbytes
    assert found.bytes == a.nbytes + b.nbytes + c.nbytes
    assert found.tflops == pytest.approx(found.flops / found.milliseconds * 1e-9)


def test_operations_are_of_their_types():
    a = np.ones((32, 32), np.float16)
    c = np.zeros((32, 32), np.float32)
    found = profile(matmul.matmul, a, a, c, 32, 32, 32, 32, 1, 32, 1, 32, 1, grid=(1,), BLOCK_M=32, BLOCK_N=32, BLOCK_K=32,
                    GROUP_M=8, ACTIVATION=matmul.leaky_relu)
    assert found.operations == {"f16": 2 * 32**3, "f32": 32 * 32}


@libtile.jit
def fused(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(out, tl.sum(tl.fma(a, a, tl.sqrt(a))))


def test_elements_of_a_reduction_and_of_functions():
    x, out = arrays(64, 1)
    # A root, two of an fma, and the additions of 64 elements.
    assert profile(fused, x, out, grid=(1,), BLOCK=64).operations == {"f32": 64 + 2 * 64 + 63}


def test_few_of_many_programs_stand_for_all():
    n = 64 * 100
    x, y, out = arrays(n, n, n)
    found = profile(add.add, x, y, out, n, grid=(100,), BLOCK=64, most_programs=10)
    assert (found.loaded, found.stored, found.flops) == (8 * n, 4 * n, n)


@libtile.jit
def ticket(counter, turns):
    # Each program waits for the one before it.
    while tl.atomic_add(counter, 0) < tl.program_id(0):
        turns += 0
    tl.atomic_add(counter, 1)


def test_programs_that_may_wait_for_others_all_run():
    counter = np.zeros(1, np.int32)
    found = profile(ticket, counter, 1, grid=(20,), most_programs=3)
    assert found.stored == 4 * 2 * 20 and found.bytes == 8, "the array has four bytes to read, and to write"


def test_rows_of_a_view():
    x, out = (array[::2] for array in arrays((64, 48), (64, 48)))
    weight, bias, mean, rstd = arrays(48, 48, 32, 32)
    found = profile(layer_norm.layer_norm, x, out, weight, bias, mean, rstd, 96, 48, 1e-5, grid=(32,), BLOCK=64)
    assert found.loaded == 4 * 32 * 48 * 5 and found.stored == 4 * 32 * (48 + 2)


@libtile.jit
def double(x):
    at = [tl.program_id(0) * x.block_shape[0], 0]
    x.store(at, 2 * x.load(at))


def test_descriptors_and_tuples():
    x = np.ones((64, 16), np.float32)
    found = profile(double, TensorDescriptor.from_tensor(x, [32, 16]), grid=(2,))
    assert (found.loaded, found.stored, found.flops) == (x.nbytes, x.nbytes, x.size)


@libtile.jit
def total(out, n, *parts, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(len(parts)):
        acc += tl.load(parts[part] + i, mask=i < n)
    tl.store(out + i, acc, mask=i < n)


def test_the_rest_of_the_arguments():
    out, *parts = arrays(50, 50, 50, 50)
    assert profile(total, out, 50, *parts, grid=(1,), BLOCK=64).loaded == 4 * 3 * 50


def test_an_autotuned_kernel_in_its_best_configuration():
    tuned = libtile.autotune([libtile.Config({"BLOCK": block}) for block in (64, 128)], key=["n"], warmup=0, rep=0)(add.add)
    x, y, out = arrays(512, 512, 512)
    found = profile(tuned, x, y, out, 512, grid=lambda args: (libtile.cdiv(512, args["BLOCK"]),))
    assert found.programs == 512 // tuned.best_config.kwargs["BLOCK"] and found.loaded == 8 * 512


def test_its_text():
    x, y, out = arrays(1000, 1000, 1000)
    text = str(profile(add.add, x, y, out, 1000, grid=(4,), BLOCK=256))
    assert text.startswith("add on cpu\n") and "8 kB loaded, 4 kB stored" in text and "12 kB" in text
    assert "1,024" in text and "4 programs" in text and "100 GB/s, 1 TFLOP/s of f32" in text and "bound by memory" in text


@libtile.jit
def asserts(n):
    tl.device_assert(n > 1, "too few")


def test_mistakes_are_told_and_leave_nothing_behind():
    x, y, out = arrays(10, 10, 10)
    before = libtile.knobs.interpreter.enabled
    with pytest.raises(ValueError, match="the grid is empty"):
        profile(add.add, x, y, out, 10, grid=(0,), BLOCK=16)
    with pytest.raises(libtile.KernelAssertionError):
        profile(asserts, 1, grid=(1,))
    assert libtile.knobs.interpreter.enabled == before and not libtile.hooks.launch_enter


@pytest.mark.not_interpreted("it measures the machine")
def test_the_rates_of_the_machine_are_measured_once():
    machine = libtile.roofline("cpu")
    assert machine is libtile.roofline("cpu") and machine.device == "cpu"
    assert machine.gbps > 0.5 and machine.gbps == machine.gbps
    assert machine.tflops("f32") > 1e-3 and machine.tflops("f32") == machine.tflops("f32")
