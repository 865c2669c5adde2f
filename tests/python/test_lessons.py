# SPDX-License-Identifier: Apache-2.0
"""Each lesson as its reader runs it: a script that compares its kernels with NumPy, and measures them beside a peer."""
import csv
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from spine import DEVICES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import demo  # noqa: E402
import gallery  # noqa: E402

SHOWS_CODE = pytest.mark.not_interpreted("it shows the code of a kernel that has none there")
LESSONS = sorted((ROOT / "python" / "tutorials").glob("[0-9][0-9]_*.py"))


def run(lesson, *options):
    environment = {name: value for name, value in os.environ.items() if name != "LIBTILE_REPORT_POINTS"}
    return subprocess.run([sys.executable, lesson, *options], capture_output=True, text=True, timeout=300,
                          env=environment)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lesson", [pytest.param(path, marks=SHOWS_CODE if path.stem.startswith("12") else ()) for path in LESSONS],
                         ids=lambda path: path.stem)
def test_a_lesson_is_right_and_measures(lesson, device, tmp_path):
    result = run(lesson, "--device", device, "--plot", tmp_path, "--points", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    assert ": right\n" in result.stdout
    table, = tmp_path.glob("*.csv")
    names, values = csv.reader(table.open())
    assert names[1].startswith("libtile") and len(names) > 2, "beside a peer"
    assert all(float(value) > 0 for value in values[1:])


@pytest.fixture
def wrong_lesson(tmp_path):
    folder = LESSONS[0].parent
    text = LESSONS[0].read_text()
    wrong = text.replace("a + b, mask", "a - b, mask")
    assert wrong != text
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "lesson.py").write_text((folder / "lesson.py").read_text())
    return tmp_path / "wrong.py"


def test_a_wrong_kernel_fails_loudly(wrong_lesson):
    result = run(wrong_lesson, "--device", "cpu")
    assert result.returncode != 0 and "AssertionError" in result.stderr and ": right" not in result.stdout


def test_the_gallery_says_what_is_wrong(wrong_lesson, capsys):
    text, is_right = demo.card(wrong_lesson, ["cpu"], 1)
    assert not is_right and "AssertionError" in text and "<svg" not in text
    assert "WRONG" in capsys.readouterr().out
    _, is_right = demo.card(LESSONS[0], ["cpu"], 1)
    assert is_right and "right" in capsys.readouterr().out


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_card_has_the_kernels_of_its_lesson(lesson):
    title, sentence, source = gallery.lesson_text(lesson)
    assert title and sentence.endswith(".") and len(sentence) < 200
    kernels = re.findall(r"^@libtile\.jit\ndef (\w+)", lesson.read_text(), re.M)
    assert kernels and re.findall(r"^def (\w+)", source, re.M) == kernels
    card = gallery.card("1", title, sentence, [], source)
    shown = xml.fromstring(card.replace("&nbsp;", " ")).find(".//pre")
    assert "".join(shown.itertext()) == source


@pytest.mark.parametrize("rows", [[[1, 2.0, 3.0]], [[1, 2.0, 0.1], [3, 5.0, 7.0]], [[16, 1e-3, 1e5], [4096, 1e5, 99999.0]]])
def test_a_plot_stays_within_its_picture(rows):
    for names in (["libtile", "NumPy"], ["libtile, for a CPU", "libtile, to <PTX>"]):
        picture = xml.fromstring(gallery.plot(names, "GB/s", rows))
        width, height = map(int, picture.get("viewBox").split()[2:])
        assert len({mark.get("class") for mark in picture.iter("path")}) == 2
        assert len(list(picture.iter("circle"))) == 2 * len(rows)
        for mark in picture.iter("circle"):
            assert 0 < float(mark.get("cx")) < width and 0 < float(mark.get("cy")) < height
        labels = [mark for mark in picture.iter("text") if "name" in mark.get("class", "")]
        places = [float(label.get("y")) for label in labels]
        assert abs(places[0] - places[1]) >= 15 and 0 < min(places) and max(places) < height


def test_the_readme_leads_to_each_lesson():
    readme = (ROOT / "README.md").read_text()
    numbers = [lesson.stem[:2] for lesson in LESSONS]
    assert numbers == [f"{i:02}" for i in range(1, len(LESSONS) + 1)]
    assert [lesson.name for lesson in LESSONS if f"python/tutorials/{lesson.name}" not in readme] == []
