# SPDX-License-Identifier: Apache-2.0
"""Options of launches and compilations: what is taken, refused, dropped and heeded."""
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl
from libtile import _libtile, testing

ROWS = {row[0]: row[1:] for row in _libtile.options()}


@libtile.jit
def multiply_add(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(out + i, a * a + 1.5)


@libtile.jit
def told(out, num_warps: tl.constexpr, debug: tl.constexpr = False):
    tl.store(out, num_warps)
    tl.store(out + 1, 1 if debug else 0)


@libtile.jit
def product(a, b, c, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@libtile.jit
def named(out, num_warps):
    tl.store(out, num_warps)


def launched(**options):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = multiply_add[(1,)](x, out, BLOCK=64, **options)
    np.testing.assert_array_equal(out, x * x + np.float32(1.5))
    return kernel


def compiled(target, **options):
    return multiply_add.warmup(tl.float32, tl.float32, BLOCK=64, target=target, **options)


def test_the_cpu_compiles_once_for_what_it_has_not():
    kernel = launched()
    for options in ({"num_warps": 8}, {"num_stages": 2, "num_warps": 1}, {"num_ctas": 2}, {"maxnreg": 64},
                    {"waves_per_eu": 2}, {"launch_pdl": True}, {"enable_fp_fusion": False},
                    {"sanitize_overflow": False}, {"debug": False}, {"num_warps": None}):
        assert launched(**options) is kernel, options
    assert kernel.fallbacks == []


def test_options_are_one_specialisation_each():
    kernel = launched(debug=True)
    assert kernel is not launched() and kernel is launched(debug=True, num_warps=2)
    assert kernel.fallbacks == []
    ignored = launched(extern_libs=1)
    assert ignored.fallbacks == [f"option extern_libs changes nothing on {kernel.target} yet"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[0] == "object"])
def test_objects_are_taken(name):
    assert launched(**{name: None}) is launched()
    assert all(name in line for line in launched(**{name: ("a", "b")}).fallbacks)


def test_what_a_target_does_not_heed():
    kernel = compiled("sm_90a", num_ctas=2, launch_pdl=True, ptx_version=85, waves_per_eu=4, num_warps=8)
    assert sorted(kernel.fallbacks) == ["option ptx_version changes nothing on sm_90a yet",
                                        "programs of a cluster copy nothing for each other: no warp of its own copies boxes"]
    assert kernel.metadata["num_warps"] == 8
    kernel = compiled("gfx942", matrix_instr_nonkdim=16, kpack=2, schedule_hint="none", waves_per_eu=2)
    assert kernel.fallbacks == ["option schedule_hint changes nothing on gfx942 yet"]


@libtile.jit
def all_meet(x, out, arrived, programs, BLOCK: tl.constexpr):
    i, program = tl.arange(0, BLOCK), tl.program_id(0)
    tl.store(x + program * BLOCK + i, program + i)
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < programs:
        pass
    tl.store(out + program * BLOCK + i, tl.load(x + (program + 1) % programs * BLOCK + i))


@libtile.jit
def powers(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.exp2(tl.load(x + i)))


@pytest.mark.parametrize("device", DEVICES)
def test_exp2_below_the_least_normal_number(device):
    """Flushed to 0 on GPUs alone, and there unless they are told not to."""
    x = np.concatenate([np.linspace(-160, -120, 1000), [-126, -126.5, -149, -150, -np.inf, 0]]).astype(np.float32)
    x = np.resize(x, 1024)
    want = np.exp2(x.astype(np.float64))
    for flushes in (True, False):
        on = OnDevice(device)
        out = on(np.full(1024, 7, np.float32))
        powers[(1,)](on(x), out, BLOCK=1024, enable_reflect_ftz=flushes)
        got = on.back(out).astype(np.float64)
        tiny = want < 2.0**-126
        np.testing.assert_allclose(got[~tiny], want[~tiny], rtol=2.0**-21)
        if flushes and device != "cpu":
            assert not got[tiny].any()
        else:
            # NVIDIA's squares the power of half the exponent, which doubles the error.
            assert (np.abs(got[tiny] - want[tiny]) <= want[tiny] * 2.0**-21 + 2.0**-149).all() and got[tiny].any()


@pytest.mark.parametrize("flushes, instruction", [(True, "ex2.approx.ftz.f32"), (False, "ex2.approx.f32")])
def test_exp2_is_one_instruction_where_it_flushes(flushes, instruction):
    kernel = powers.warmup("*fp32", "*fp32", BLOCK=128, grid=(1,), target="sm_90a", enable_reflect_ftz=flushes)
    assert instruction in kernel.asm["ptx"] and kernel.fallbacks == []


def test_programs_that_wait_for_each_other():
    assert launched(launch_cooperative_grid=True).fallbacks == []
    assert compiled("sm_80", launch_cooperative_grid=True).fallbacks == []
    if "cuda" not in DEVICES:
        return
    on, block = OnDevice("cuda"), 128
    for programs in (1, 2 * testing._properties("cuda:0")["multiprocessor_count"]):
        x, out = (on(np.full((programs, block), -1, np.int32)) for _ in range(2))
        all_meet[(programs,)](x, out, on(np.zeros(1, np.int32)), programs, block, num_warps=4, launch_cooperative_grid=True)
        want = (np.arange(programs)[:, None] + 1) % programs + np.arange(block)
        np.testing.assert_array_equal(on.back(out), want)
    with pytest.raises(libtile.DeviceError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        all_meet[(1 << 16,)](x, out, on(np.zeros(1, np.int32)), 1, block, num_warps=4, launch_cooperative_grid=True)


def test_num_warps_on_a_gpu():
    assert [compiled("sm_80", num_warps=n).metadata["threads"] for n in (1, 2, 4)] == [32, 64, 128]


def test_more_warps_than_a_program_may_have():
    assert launched(num_warps=128) is launched()
    for warps, target in ((64, "sm_80"), (1024, "sm_90a")):
        with pytest.raises(libtile.OutOfResources, match=f"^the kernel needs {32 * warps} threads; {target} has 1024 a program") as told:
            compiled(target, num_warps=warps)
        assert (told.value.required, told.value.limit, told.value.name) == (32 * warps, 1024, "threads")


def test_more_shared_memory_than_a_program_may_have():
    with pytest.raises(libtile.OutOfResources) as told:
        product.warmup(*[tl.float32] * 3, SIZE=512, target="sm_80")
    error = told.value
    assert error.name == "shared memory" and error.required > error.limit == 166912
    assert f"the kernel needs {error.required} bytes of shared memory; sm_80 has 166912" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is libtile.OutOfResources and str(again) == str(error) and again.__dict__ == error.__dict__
    assert str(libtile.OutOfResources(2, 1, "threads")) == "out of resource: threads, required: 2, limit: 1"


def test_fp_fusion_on_a_gpu():
    fused, apart = compiled("sm_80").asm["ptx"], compiled("sm_80", enable_fp_fusion=False).asm["ptx"]
    assert "fma.rn.f32" in fused
    assert "fma" not in apart and "mul.rn.f32" in apart and "add.rn.f32" in apart


def test_registers_on_a_gpu():
    assert ".maxnreg" not in compiled("sm_80").asm["ptx"]
    assert re.search(r"\.maxnreg\s+48\b", compiled("sm_80", maxnreg=48).asm["ptx"])


@pytest.mark.parametrize("options, error", [
    ({"num_stages": 2**80}, f"'num_stages' is {2**80}; it takes 0 .. 64"),
    ({"num_stages": 65}, "'num_stages' is 65; it takes 0 .. 64"), ({"num_ctas": 0}, "it takes 1 .. 16"),
    ({"num_warp": 4}, "no parameter or option 'num_warp'"), ({"stream": 0}, "no parameter or option 'stream'"),
    *[({"num_warps": value}, re.escape(f"multiply_add(): 'num_warps' is {value!r}; it takes 0 or a power of two "
                                       "up to 1024")) for value in (-1, 3, 12, 33, 2048, 2.0, 1.5, "3", 2**63, -2**63)],
    *[({"check": value}, re.escape(f"multiply_add(): 'check' is {value!r}; it takes 0 or 1"))
      for value in ("yes", "", 2, -1, [], (), 0.5)],
    ({"debug": np.ones(2)}, "it takes 0 or 1")])
def test_refused(options, error):
    for run in (launched, lambda **options: compiled("sm_80", **options)):
        with pytest.raises((TypeError, ValueError), match=error):
            run(**options)


@pytest.mark.parametrize("error, value", [(ValueError, 3), (ValueError, 2**80), (TypeError, "4"), (TypeError, 4.0)])
def test_classes_of_refusals(error, value):
    with pytest.raises(error):
        launched(num_warps=value)


def test_flags_of_other_types():
    for on in (True, 1, np.bool_(True), np.int8(1), tl.constexpr(True), tl.constexpr(1)):
        assert launched(debug=on) is launched(debug=True)
    for off in (False, 0, np.bool_(False), tl.constexpr(False), None):
        assert launched(debug=off) is launched()


def test_warps_that_there_are():
    assert [compiled("sm_80", num_warps=n).metadata["num_warps"] for n in (1, 8, 16, 32)] == [1, 8, 16, 32]
    assert compiled("sm_80", num_warps=0).metadata["num_warps"] == compiled("sm_80").metadata["num_warps"]


def test_targets_that_there_are_not():
    for target, hint in (("sm_70", "; did you mean `sm_"), ("", "."), ("abcdefgh", ".")):
        with pytest.raises(ValueError, match=re.escape(f"multiply_add(): there is no target '{target}'{hint}")) as told:
            compiled(target)
        assert str(told.value).endswith(" There are cpu, " + ", ".join(libtile.targets()))
    for target in (90, b"sm_80", ["cpu"]):
        with pytest.raises(TypeError, match="a target is one of the texts of libtile.targets()"):
            compiled(target)


def test_a_constexpr_parameter_and_the_option():
    out = np.zeros(2, np.int32)
    told[(1,)](out, num_warps=2)
    assert out.tolist() == [2, 0]
    told[(1,)](out, num_warps=8, debug=True)
    assert out.tolist() == [8, 1]
    assert told.warmup(tl.int32, num_warps=2, target="sm_80").metadata["num_warps"] == 2
    assert told.warmup(tl.int32, num_warps=8, target="sm_80").metadata["num_warps"] == 8
    assert told.warmup(tl.int32, 8, target="sm_80").metadata["num_warps"] != 8, "a parameter alone"
    with pytest.raises(ValueError, match="'num_warps' is 100; it takes 0 or a power of two up to 1024"):
        told[(1,)](out, num_warps=100)


def test_a_run_time_parameter_is_no_option():
    out = np.zeros(1, np.int32)
    named[(1,)](out, num_warps=100)
    assert out[0] == 100


def test_names_made_at_run_time():
    name = "".join(["num_", "warps"])
    assert launched(**{name: 4}) is launched()
    with pytest.raises(TypeError, match="several values"):
        told[(1,)](np.zeros(2, np.int32), 3, **{name: 4})


def test_threads_intern_one_set():
    kernels, errors = set(), []
    launched(debug=True), launched(extern_libs=1)

    def run():
        try:
            for n in range(40):
                kernels.add(launched(extern_libs=n + 1) if n % 2 else launched(debug=True))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(kernels) == 2


def test_every_option_is_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "options.md").read_text()
    assert set(re.findall(r"^\| `(\w+)`", page, re.M)) == set(ROWS)
    for name, (_, _, doc) in ROWS.items():
        assert doc in page, name
