# SPDX-License-Identifier: Apache-2.0
"""The cache on disk: what a later process takes from it is what compiling gives, and nothing that befalls it shows but in
`metadata["cache"]`. The files themselves are tests/runtime/test_disk_cache.cpp's affair."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl
from libtile import knobs

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    """A cache of this test's own."""
    knobs.cache.enabled, knobs.cache.dir = True, tmp_path / "cache"
    yield tmp_path / "cache"
    del knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes


def files(folder):
    return sorted(path for path in (folder / "kernels").rglob("*") if path.is_file())


@libtile.jit
def affine(x, out, n, A: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * A + 1, i < n)


@libtile.jit
def asserts(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + i, i < n) >= 0, "negative")


@libtile.jit
def prints(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_print("x", tl.load(x + i, i < n))


@libtile.jit
def matmul(a, b, c, K, N: tl.constexpr, DTYPE: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((N, N), DTYPE)
    for k in range(0, K, N):
        acc += tl.dot(tl.load(a + i * K + k + j), tl.load(b + (k + i) * N + j), out_dtype=DTYPE)
    tl.store(c + i * N + j, acc)


@libtile.jit
def row(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=-float("inf"))
    tl.store(out + i, tl.cumsum(tl.softmax(v), 0) + tl.erf(v), i < n)


# (kernel, arguments of warmup, options): messages, checks, guards, fallbacks, scratch, shared memory, asserts.
COMPILED = {
    "affine": (affine, ("*fp32", "*fp32", "i32", 2, 128), {}),
    "affine_unheeded": (affine, ("*fp32", "*fp32", "i32", 2, 128), {"num_ctas": 2}),
    "checked": (affine, ("*fp32", "*fp32", "i32", 2, 128), {"check": True}),
    "asserts": (asserts, ("*fp32", "i32", 64), {"debug": True}),
    "overflow": (affine, ("*i32", "*i32", "i32", 3, 64), {"debug": True}),
    "prints": (prints, ("*fp16", "i32", 64), {}),
    "matmul": (matmul, ("*fp16", "*fp16", "*fp32", "i32:16", 64, tl.float32), {}),
    "matmul_fp64": (matmul, ("*fp64", "*fp64", "*fp64", "i32:16", 32, tl.float64), {}),
    "matmul_int8": (matmul, ("*i8", "*i8", "*i32", "i32:16", 32, tl.int32), {}),
    "row": (row, ("*fp32", "*fp32", "i32", 1000), {}),
    "warps": (row, ("*fp32", "*fp32", "i32", 1024), {"num_warps": 8}),
}
TARGETS = ["x86-64-v3", "avx512", "avx512bf16", "aarch64", "sm_80", "sm_90a"]


def compiled(name, target):
    kernel, arguments, options = COMPILED[name]
    kernel.clear()
    return kernel.warmup(*arguments, target=target, **options)


def facts(kernel):
    """All that a kernel answers, but how long it took and what the cache did."""
    told = {name: value for name, value in kernel.metadata.items() if name not in ("compile_ms", "cache")}
    return told, dict(kernel.asm), kernel.fallbacks, kernel.guards, kernel.signature, repr(kernel)


@pytest.mark.parametrize("target", TARGETS)
def test_found_is_what_was_compiled(folder, target):
    for name in COMPILED:
        knobs.cache.enabled = False
        without = compiled(name, target)
        knobs.cache.enabled = True
        stored, found = compiled(name, target), compiled(name, target)
        # Options that mean nothing on the target do not make another kernel.
        assert stored.metadata["cache"] == ("hit" if name == "affine_unheeded" and target[:2] != "sm" else "stored")
        assert (without.metadata["cache"], found.metadata["cache"]) == ("off", "hit")
        assert facts(without) == facts(stored) == facts(found), name


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_what_is_found_runs(folder):
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    for cache in ("stored", "hit"):
        affine.clear()
        out = np.full(1000, np.nan, np.float32)
        assert affine[(8,)](x, out, 1000, 3, 128).metadata["cache"] == cache
        np.testing.assert_array_equal(out, x * 3 + 1)
        # The other variant, where the arrays overlap, has an entry of its own.
        both = np.concatenate([x, x])
        affine[(8,)](both, both[500:], 500, 3, 128)
    assert len(files(folder)) == 2


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
@pytest.mark.parametrize("device", DEVICES)
def test_machine_code_is_kept(folder, device):
    """On an NVIDIA GPU its text is: what the driver makes of it alone, the driver keeps."""
    x = np.arange(1000, dtype=np.float32)  # exact with fused multiply-adds, too
    on, kept = OnDevice(device), []
    for cache in ("stored", "hit"):
        affine.clear()
        there = [on(x), on(np.full(1000, np.nan, np.float32))]
        assert affine[(8,)](*there, 1000, 3, 128).metadata["cache"] == cache
        np.testing.assert_array_equal(on.back(there[1]), x * 3 + 1)
        kept.append(files(folder))
    assert kept[0] == kept[1] and len(kept[0]) == 1


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_messages_are_found_too(folder, capfd):
    x = np.arange(-3, 61, dtype=np.float32)
    told = []
    for cache in ("stored", "hit"):
        asserts.clear(), prints.clear()
        with pytest.raises(libtile.KernelAssertionError, match="negative") as failure:
            asserts[(1,)](x, 64, 64, debug=True)
        kernel = prints[(1,)](x, 64, 64)
        assert kernel.metadata["cache"] == cache
        told.append((str(failure.value), capfd.readouterr().out))
        affine.clear()
        with pytest.raises(libtile.OutOfBoundsError) as failure:
            affine[(1,)](x, np.zeros(10, np.float32), 64, 2, 64, check=True)
        told[-1] += (str(failure.value),)
    assert told[0] == told[1] and "test_disk_cache.py" in told[0][0] and "-3.0" in told[0][1]


MODULE = """{before}
import libtile, libtile.language as tl
@libtile.jit
def kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    {line}
    tl.store(x + i, tl.load(x + i, i < n) {what}, i < n)
@libtile.jit
def slow(a, b, c, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j), out_dtype=tl.float64))
"""


def load(path, **parts):
    import importlib.util
    path.write_text(MODULE.format(**{"before": "", "line": "pass", "what": "+ 1", **parts}))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_places_count_where_they_show(folder, tmp_path):
    def cache(name="a", target="avx512", **parts):
        made = load(tmp_path / f"{name}.py", **parts).kernel.warmup("*fp32", "i32", BLOCK=64, target=target)
        return made.metadata["cache"]

    assert cache() == "stored"
    assert cache(before="# one more line\n\n") == "hit"
    assert cache(name="b", line="# a comment") == "hit"
    assert cache(what="+ 2") == "stored" and cache(target="sm_80") == "stored"
    prints = {"line": "tl.device_print('i', i)"}
    assert cache(**prints) == "stored" and cache(**prints) == "hit"
    assert cache(before="# one more line\n", **prints) == "stored"
    # So it is with a fallback, which names its line.
    places = []
    for before, expected in (("", "stored"), ("", "hit"), ("# one more line\n", "stored")):
        module = load(tmp_path / "c.py", before=before)
        made = module.slow.warmup("*fp64", "*fp64", "*fp64", N=16, target="sm_80")
        if not made.fallbacks:
            break
        assert made.metadata["cache"] == expected
        places.append(made.fallbacks)
    assert not places or (places[0] == places[1] != places[2])


def test_keys_hold_all_that_counts(folder):
    """Each of these is another kernel; none may be taken for another."""
    seen = set()
    variants = [dict(), dict(num_warps=8), dict(num_stages=2), dict(num_warps=8, num_stages=2), dict(maxnreg=64),
                dict(enable_fp_fusion=False), dict(debug=True), dict(default_dot_input_precision="tf32")]
    for target in ("sm_80", "sm_89", "sm_90a"):
        for options in variants:
            matmul.clear()
            made = matmul.warmup("*fp16", "*fp16", "*fp32", "i32:16", 64, tl.float32, target=target, **options)
            assert made.metadata["cache"] == "stored", (target, options)
            seen.add(made.asm["ptx"])
    for arguments in (("*fp32:16", "*fp32:16", "i32", 2, 128), ("*fp32:4", "*fp32:16", "i32", 2, 128),
                      ("*fp32:16", "*fp32:16", "i32:16", 2, 128), ("*fp32:16", "*fp32:16", "i64", 2, 128),
                      ("*fp32:16", "*fp32:16", "i32", 2.0, 128), ("*fp32:16", "*fp32:16", "i32", 2, 256),
                      ("*fp16:16", "*fp32:16", "i32", 2, 128), ("*bf16:16", "*fp32:16", "i32", 2, 128),
                      ("*i32:16", "*fp32:16", "i32", 2, 128), ("*u32:16", "*fp32:16", "i32", 2, 128)):
        for target in ("avx512", "x86-64-v3"):
            affine.clear()
            made = affine.warmup(*arguments, target=target)
            assert made.metadata["cache"] in ("stored", "hit"), arguments
            if made.metadata["cache"] == "hit":  # a kernel of the same IR
                assert made.asm["tile"] in seen
            seen.add(made.asm["tile"])


def run(program, *arguments, check=True, **variables):
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(HERE)]
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=check,
                          env={**os.environ, "LIBTILE_CACHE": "1", "PYTHONPATH": os.pathsep.join(paths), **variables})


FORTY = """
import json, sys
import numpy as np
import test_disk_cache as t
x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
did = []
for a in range(40):
    out = np.full(1000, np.nan, np.float32)
    did.append(t.affine[(8,)](x, out, 1000, a, 128).metadata["cache"])
    np.testing.assert_array_equal(out, x * np.float32(a) + 1)
print(json.dumps(did))
"""


def last(done):
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_second_process_compiles_nothing(tmp_path):
    assert set(last(run(FORTY, LIBTILE_CACHE_DIR=str(tmp_path)))) == {"stored"}
    assert set(last(run(FORTY, LIBTILE_CACHE_DIR=str(tmp_path)))) == {"hit"}
    assert set(last(run(FORTY, LIBTILE_CACHE_DIR=str(tmp_path), LIBTILE_CACHE="0"))) == {"off"}
    assert set(last(run(FORTY, LIBTILE_CACHE_DIR=str(tmp_path), LIBTILE_DISABLE_PASSES="hoist_loop_invariants"))) == \
        {"stored"}


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_eight_processes_at_once(tmp_path):
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(HERE)]
    environment = {**os.environ, "LIBTILE_CACHE": "1", "LIBTILE_CACHE_DIR": str(tmp_path),
                   "PYTHONPATH": os.pathsep.join(paths)}
    children = [subprocess.Popen([sys.executable, "-c", FORTY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=environment) for _ in range(8)]
    for child in children:
        out, error = child.communicate()
        assert child.returncode == 0, error
        assert set(json.loads(out.strip().splitlines()[-1])) <= {"stored", "hit"}
    assert len(files(tmp_path)) == 40
    assert set(last(run(FORTY, LIBTILE_CACHE_DIR=str(tmp_path)))) == {"hit"}


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_spoilt_files_are_compiled_anew(folder):
    x = np.arange(1000, dtype=np.float32)

    def launched():
        affine.clear()
        out = np.full(1000, np.nan, np.float32)
        kernel = affine[(8,)](x, out, 1000, 7, 128)
        np.testing.assert_array_equal(out, x * 7 + 1)
        return kernel.metadata["cache"]

    assert launched() == "stored"
    (file,) = files(folder)
    good = file.read_bytes()
    random = np.random.default_rng(2)
    for at in (0, 9, 17, 30, *random.integers(56, len(good), 8), len(good) - 1):
        spoilt = bytearray(good)
        spoilt[at] ^= random.integers(1, 256)
        file.write_bytes(spoilt)
        assert launched() == "stored" and file.read_bytes() == good, at
    for size in (0, 63, len(good) // 2, len(good) - 1):
        file.write_bytes(good[:size])
        assert launched() == "stored" and file.read_bytes() == good, size
    assert launched() == "hit"


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_folders_that_cannot_be_used_say_so(folder):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)

    def cache():
        affine.clear()
        out[:] = np.nan
        made = affine[(1,)](x, out, 64, 2, 64).metadata["cache"]
        np.testing.assert_array_equal(out, x * 2 + 1)
        return made

    assert cache() == "stored" and cache() == "hit"
    os.chmod(folder / "kernels", 0o755)
    assert cache() == f"not stored: {folder}/kernels is open to other users: its mode is not 0700"
    os.chmod(folder / "kernels", 0o700)
    assert cache() == "hit"
    shutil.rmtree(folder)
    assert cache() == "stored" and cache() == "hit"
    knobs.cache.max_bytes = 1000
    assert cache().startswith("not stored: its ")
    del knobs.cache.max_bytes
    knobs.cache.dir = ""
    assert cache() == "not stored: there is no folder for caches"
    knobs.cache.dir = "/proc/nowhere"
    assert cache().startswith("not stored: /proc/nowhere/kernels: ")


def test_errors_are_not_kept(folder):
    @libtile.jit
    def wrong(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))

    for _ in range(2):
        with pytest.raises(libtile.CompilationError):
            wrong.warmup("*fp32", 64, target="avx512")
    assert not folder.exists()


def test_settings(tmp_path, monkeypatch):
    for variable in ("LIBTILE_CACHE", "LIBTILE_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "LIBTILE_CACHE_MB"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/of")
    assert (knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes) == (True, "/home/of/.cache/libtile", 1 << 30)
    for variable, value, expected in (("XDG_CACHE_HOME", "/xdg", "/xdg/libtile"), ("TRITON_CACHE_DIR", "/t", "/t"),
                                      ("LIBTILE_CACHE_DIR", "/l", "/l")):
        monkeypatch.setenv(variable, value)
        assert knobs.cache.dir == expected
    monkeypatch.setenv("LIBTILE_CACHE", "0")
    monkeypatch.setenv("LIBTILE_CACHE_MB", "3")
    assert (knobs.cache.enabled, knobs.cache.max_bytes) == (False, 3 << 20)
    knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes = True, tmp_path / "\u00e9", 12345
    try:
        assert (knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes) == (True, str(tmp_path / "\u00e9"), 12345)
    finally:
        del knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes
    assert (knobs.cache.enabled, knobs.cache.dir, knobs.cache.max_bytes) == (False, "/l", 3 << 20)
    for variable in ("LIBTILE_CACHE", "LIBTILE_CACHE_MB"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "maybe")
            with pytest.raises(ValueError, match=f"{variable} is 'maybe'; it takes 0"):
                knobs.cache.enabled
            with pytest.raises(ValueError, match=f"{variable} is 'maybe'"):
                affine.clear()
                affine.warmup("*fp32", "*fp32", "i32", 9, 64, target="avx512")


@pytest.mark.not_interpreted("it compiles nothing that could be kept")
def test_forked_children_store_and_find(folder):
    x = np.arange(64, dtype=np.float32)
    pids = []
    for a in range(4):
        pid = os.fork()
        if pid == 0:
            out = np.zeros(64, np.float32)
            good = affine[(1,)](x, out, 64, a % 2, 64).metadata["cache"] in ("stored", "hit")
            os._exit(0 if good and (out == x * (a % 2) + 1).all() else 1)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    affine.clear()
    assert affine[(1,)](x, np.zeros(64, np.float32), 64, 1, 64).metadata["cache"] == "hit"
