# SPDX-License-Identifier: Apache-2.0
"""What a run of Triton's own test suite left out and what failed, each with its cause.

As a plugin of pytest (`-p suite_report`) it notes where in the suite each item skips itself, in skips.jsonl of the run's folder
(PEER_OUT). Then `python tests/peers/suite_report.py FOLDER` writes report.txt there, from these and from results.jsonl, which
has a line {"id", "outcome", "msg"} an item:

- each line of the suite that skips items, with what stands there and how many;
- the failures that suite_reasons.tsv lists, by reason, with whose they are;
- those that it does not list, one by one.

suite_reasons.tsv has a row a reason: a pattern of items' ids, whose it is, and why. Whose:
more       libtile does what Triton refuses, and the suite wants the refusal
otherwise  both do it, with another error, place or text than the suite wants
harness    the suite is told something of the device that does not hold
text       the suite wants a piece of Triton's IR or of its machine code
lacks      libtile has it not
"""
import collections
import json
import os
import re
import sys
from pathlib import Path

REASONS = Path(__file__).with_name("suite_reasons.tsv")
WHOSE = ("more", "otherwise", "harness", "text", "lacks")
FAILED = ("failed", "crashed", "timeout", "error")


# ---- in pytest

def pytest_runtest_logreport(report):
    place = report.longrepr
    if "PYTEST_XDIST_WORKER" in os.environ or not report.skipped or not isinstance(place, (tuple, list)):
        return
    with open(Path(os.environ["PEER_OUT"]) / "skips.jsonl", "a") as file:
        file.write(json.dumps({"id": report.nodeid, "file": place[0], "line": place[1]}) + "\n")


# ---- afterwards

def reasons():
    """[(pattern, whose, why)]. ValueError: a row of another form."""
    rows = [line.split("\t") for line in REASONS.read_text().splitlines()]
    for row in rows:
        if len(row) != 3 or row[1] not in WHOSE:
            raise ValueError(f"{REASONS.name} has a row that is no pattern, {' or '.join(WHOSE)}, and reason: {row}")
    return [(re.compile(pattern), whose, why) for pattern, whose, why in rows]


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def indent_of(line):
    return len(line) - len(line.lstrip())


def condition_of(file, line):
    """What stands at a place of a skip: the branches that a call of pytest.skip is in, or the marks above a function."""
    lines = lines_of(file)
    at = min(line, len(lines)) - 1
    if "pytest.skip(" not in lines[at]:
        marks = [each.strip() for each in lines[max(at - 20, 0):at + 1] if "mark.skipif" in each or "mark.xfail" in each]
        return " ".join(marks) or lines[at].strip()
    branches, inner = [], indent_of(lines[at])
    for each in reversed(lines[:at]):
        if each.strip() and indent_of(each) < inner:
            inner = indent_of(each)
            if each.lstrip().startswith("def "):
                break
            branches.insert(0, each.strip())
    return " ".join(branches) or lines[at].strip()


def read(folder, name):
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Report:
    """Of the run in a folder."""

    def __init__(self, folder):
        results = read(folder, "results.jsonl")
        self.passed = sum(each["outcome"] in ("passed", "xpassed") for each in results)
        self.failed = [each for each in results if each["outcome"] in FAILED]
        self.skipped = [each for each in results if each["outcome"] in ("skipped", "xfailed")]
        self.rows = reasons()
        self.places = {each["id"]: (each["file"], each["line"]) for each in read(folder, "skips.jsonl")}
        self.unlisted = [each for each in self.failed if self.reason(each) is None]

    def reason(self, item):
        return next((i for i, (pattern, _, _) in enumerate(self.rows) if pattern.search(item["id"])), None)

    def skips(self):
        """Lines, the commonest first."""
        found = collections.Counter()
        for each in self.skipped:
            file, line = self.places.get(each["id"], ("", 0))
            found[each["id"].split("::")[0], file, line, each["msg"].removeprefix("Skipped: ")] += 1
        for (name, file, line, message), count in found.most_common():
            where = f"{name}:{line}" if file else name
            yield f"{count:6}  {where}  {message or 'Skipped'}" + (f"\n        {condition_of(file, line)}" if file else "")

    def listed(self):
        found = collections.Counter(self.reason(each) for each in self.failed)
        for i, (pattern, whose, why) in enumerate(self.rows):
            if found[i]:
                yield f"{found[i]:6}  {whose:9}  {why}  ({pattern.pattern})"

    def summary(self):
        total = self.passed + len(self.failed)
        return (f"{self.passed} of {total} pass ({100 * self.passed / max(total, 1):.2f}%), "
                f"{len(self.failed) - len(self.unlisted)} fail for reasons that are listed, {len(self.unlisted)} for others, "
                f"{len(self.skipped)} skip themselves")

    def text(self):
        others = [f"        {each['outcome']} {each['id']}: {each['msg']}" for each in self.unlisted]
        return "\n".join([self.summary(), "", "skipped by the suite, and where:", *self.skips(), "",
                          "failed, and why:", *self.listed(), "", "failed, and not listed:", *others]) + "\n"


def main(folder):
    report = Report(Path(folder))
    (Path(folder) / "report.txt").write_text(report.text())
    sys.stdout.write(report.text())


if __name__ == "__main__":
    main(*sys.argv[1:])
