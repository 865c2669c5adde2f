# SPDX-License-Identifier: Apache-2.0
"""The file of tuning results: what is written, what other processes read of it, and files that are not as they were."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import Config, knobs, tuning_results

FACTOR = tl.constexpr(2)


@libtile.jit
def times(x):
    return x * FACTOR


@libtile.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, times(tl.load(x + i, mask=i < n)), mask=i < n)


def fails(out, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 32, "not\twith 32\n")
    tl.store(out + tl.arange(0, BLOCK), BLOCK)


@pytest.fixture
def file(tmp_path, monkeypatch):
    for variable in ("LIBTILE_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "folder" / "results.tsv"
    monkeypatch.setenv("LIBTILE_TUNING_FILE", str(path))
    return path


def tuned(blocks=(16, 32, 64), fn=scale, **options):
    """(the kernel, the blocks that are measured): the time of a block is 100 - block."""
    measured = []
    hook = options.pop("hook", None)

    def bench(call, quantiles):
        call()
        return [100.0 - measured[-1]] * 3

    kernel = libtile.autotune([Config({"BLOCK": block}, pre_hook=hook) for block in blocks], ["n"] if fn is scale else [],
                              do_bench=bench, post_hook=lambda args, exception: measured.append(args["BLOCK"]),
                              **{"cache_results": True, **options})(fn)
    return kernel, measured


def launch(kernel, n=100, dtype="f4"):
    x, out = np.arange(n).astype(dtype), np.zeros(n, dtype)
    kernel[lambda meta: (libtile.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert (out == 2 * x).all()
    return kernel.best_config.kwargs["BLOCK"]


def rows(file):
    return [line.split("\t") for line in file.read_text(errors="replace").splitlines() if not line.startswith("#")]


def test_a_line_for_each_configuration(file):
    kernel, measured = tuned()
    assert launch(kernel) == 64 and measured == [16, 32, 64]
    written = rows(file)
    assert [row[0] for row in written] == ["scale"] * 3 and len({tuple(row[:4]) for row in written}) == 1
    assert json.loads(written[0][3]) == [100, "fp32", "fp32"]
    assert [json.loads(row[4])["BLOCK"] for row in written] == [16, 32, 64]
    assert [json.loads(row[5]) for row in written] == [[84.0] * 3, [68.0] * 3, [36.0] * 3]
    assert file.read_text().startswith("# ") and os.stat(file).st_mode & 0o077 == 0
    assert os.stat(file.parent).st_mode & 0o077 == 0


def test_another_tuner_reads_them(file):
    launch(tuned()[0])
    heard = []
    knobs.autotuning.listener = lambda **said: heard.append((said["cache_hit"], said["duration"]))
    try:
        kernel, measured = tuned()
        assert launch(kernel) == 64 and measured == [] and heard == [(True, None)]
        assert kernel.configs_timings == {config: [100.0 - config.kwargs["BLOCK"]] * 3 for config in kernel.configs}
        assert kernel.bench_time == 0
    finally:
        del knobs.autotuning.listener
    assert launch(kernel, n=50) == 64 and measured == [16, 32, 64]
    assert launch(kernel, dtype="f8") == 64 and len(measured) == 6
    assert len(rows(file)) == 9


def test_another_process_reads_them(file):
    program = """
import libtile, numpy as np
import libtile.language as tl

def bench(call, quantiles):
    call()
    print("measured")
    return [1.0] * 3

@libtile.autotune([libtile.Config({"BLOCK": b}) for b in (16, 32)], ["n"], do_bench=bench)
@libtile.jit
def fill(out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), n)

fill[(1,)](np.zeros(32, "i4"), 7)
"""
    script = file.parent.parent / "script.py"
    script.write_text(program)

    def run(**environment):
        done = subprocess.run([sys.executable, script], env={**os.environ, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.count("measured")

    assert run() == 2 and not file.exists()
    assert run(TRITON_CACHE_AUTOTUNING="1") == 2
    assert run(LIBTILE_CACHE_AUTOTUNING="1") == 0
    script.write_text(program.replace("(out + tl", "(out + 0 + tl"))
    assert run(TRITON_CACHE_AUTOTUNING="1") == 2


def test_a_configuration_more_is_measured_alone(file):
    launch(tuned((16, 32))[0])
    kernel, measured = tuned((16, 128, 32))
    assert launch(kernel) == 128 and measured == [128] and len(rows(file)) == 3


def test_skipped_ones_are_not_tried_again(file):
    for expected in ([16, 32, 64], []):  # the hook hears of the one that fails, too
        kernel, measured = tuned(fn=libtile.jit(fails), hook=lambda args: None)
        out = np.zeros(64, "i4")
        kernel[(1,)](out)
        assert measured == expected and out[0] == 64
        assert "not\twith 32" in kernel.skipped[kernel.configs[1]]
    assert len(rows(file)) == 3 and [bool(row[6]) for row in rows(file)] == [False, True, False]


def test_files_are_merged_by_cat_and_the_last_line_counts(file):
    launch(tuned((16, 32))[0])
    one = file.read_text()
    file.unlink()
    launch(tuned((32, 64))[0])
    other = file.read_text()
    file.write_text(one + other + other.replace("[36.0", "[99.0"))
    kernel, measured = tuned()
    assert launch(kernel) == 32 and measured == []


def test_garbage_is_passed_over(file):
    kernel, _ = tuned((16, 32, 64))
    launch(kernel)
    good = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    broken = [good[1].replace("[68.0", "[68.0, {"), good[1].replace("[68.0, 68.0, 68.0]", "[]"),
              good[1].replace("68.0", '"x"'), good[1].replace("68.0", "-1"), good[1].replace("68.0", "true"),
              good[1].replace("68.0", "NaN")]
    for line in broken:
        file.write_bytes(b"\x00\xff\xfe garbage\n\n\t\t\n" + "\n".join([good[0], line, good[2], good[1][:40]]).encode())
        kernel, measured = tuned()
        assert launch(kernel) == 64 and measured == [32], line
        assert launch(tuned()[0]) == 64 and len(rows(file)) >= 5
    kernel, measured = tuned()
    launch(kernel)
    assert measured == []


def test_a_changed_source_or_constant_is_another_kernel(file, monkeypatch):
    launch(tuned()[0])
    before = tuning_results.source_hash(scale)
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    assert tuning_results.source_hash(scale) != before
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "times", libtile.jit(fails))
    assert tuning_results.source_hash(scale) != before
    monkeypatch.setattr(libtile._libtile, "version", "other")
    assert len({before, tuning_results.source_hash(scale)}) == 2


def test_a_file_that_cannot_be_written_is_a_warning(file):
    file.parent.mkdir()
    file.mkdir()
    kernel, measured = tuned()
    with pytest.warns(UserWarning, match="results of autotuning are not kept"):
        assert launch(kernel) == 64
    assert measured == [16, 32, 64]


def test_keys_that_no_process_can_name_are_not_kept(file):
    kernel, measured = tuned()
    kernel = libtile.autotune(kernel.configs, ["out", "n"], cache_results=True, do_bench=kernel.do_bench,
                              post_hook=kernel.post_hook)(scale)

    class Named(np.ndarray):
        __hash__ = object.__hash__

        def __eq__(self, other):
            return self is other

    x, out = np.arange(100).astype("f4"), np.zeros(100, "f4").view(Named)
    for _ in range(2):
        kernel[lambda meta: (libtile.cdiv(100, meta["BLOCK"]),)](x, out, 100)
    assert (np.asarray(out) == 2 * x).all() and measured == [16, 32, 64] and not file.exists()


@pytest.mark.parametrize("variables, expected", [
    ({"LIBTILE_TUNING_FILE": "/a/b", "LIBTILE_CACHE_DIR": "/c"}, "/a/b"),
    ({"LIBTILE_CACHE_DIR": "/c", "TRITON_CACHE_DIR": "/d"}, "/c/tuning.tsv"), ({"TRITON_CACHE_DIR": "/d"}, "/d/tuning.tsv"),
    ({"XDG_CACHE_HOME": "/e"}, "/e/libtile/tuning.tsv"), ({"HOME": "/f"}, "/f/.cache/libtile/tuning.tsv")])
def test_where_the_file_is(monkeypatch, variables, expected):
    for name in ("LIBTILE_TUNING_FILE", "LIBTILE_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tuning_results.path() == expected


def test_many_writers_lose_no_line(file):
    program = """
import sys
from libtile import tuning_results, tuning_trials, Config
store = tuning_results.Store(tuning_results.path(), ("k", "h", "d", sys.argv[1]))
for i in range(50):
    store.add({Config({"B": i, "text": "x" * 300}): tuning_trials.Result([1.0])})
"""
    running = [subprocess.Popen([sys.executable, "-c", program, str(i)]) for i in range(6)]
    assert [each.wait() for each in running] == [0] * 6
    written = rows(file)
    assert len({(row[3], row[4]) for row in written}) == 300 and all(len(row) == 7 for row in written)
