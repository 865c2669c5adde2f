# SPDX-License-Identifier: Apache-2.0
"""Each lesson as its reader runs it: a script that compares its kernels with NumPy, and measures them beside a peer."""
import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spine import DEVICES

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "python" / "tutorials").glob("[0-9][0-9]_*.py"))


def run(lesson, *options):
    environment = {name: value for name, value in os.environ.items() if name != "LIBTILE_LESSON_POINTS"}
    return subprocess.run([sys.executable, lesson, *options], capture_output=True, text=True, timeout=300,
                          env=environment)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_right_and_measures(lesson, device, tmp_path):
    result = run(lesson, "--device", device, "--plot", tmp_path, "--points", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    assert ": right\n" in result.stdout
    table, = tmp_path.glob("*.csv")
    names, values = csv.reader(table.open())
    assert names[1].startswith("libtile") and len(names) > 2, "beside a peer"
    assert all(float(value) > 0 for value in values[1:])


def test_a_wrong_kernel_fails_loudly(tmp_path):
    folder = LESSONS[0].parent
    text = LESSONS[0].read_text()
    wrong = text.replace("a + b, mask", "a - b, mask")
    assert wrong != text
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "lesson.py").write_text((folder / "lesson.py").read_text())
    result = run(tmp_path / "wrong.py", "--device", "cpu")
    assert result.returncode != 0 and "AssertionError" in result.stderr and ": right" not in result.stdout


def test_the_readme_leads_to_each_lesson():
    readme = (ROOT / "README.md").read_text()
    numbers = [lesson.stem[:2] for lesson in LESSONS]
    assert numbers == [f"{i:02}" for i in range(1, len(LESSONS) + 1)]
    assert [lesson.name for lesson in LESSONS if f"python/tutorials/{lesson.name}" not in readme] == []
