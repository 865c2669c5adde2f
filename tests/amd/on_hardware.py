#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the whole proof on an AMD GPU and packs what came of it into one file, amd-proof-TARGET.tar.gz: what the card is, the tests,
random kernels beside the CPU, the lessons with their times. `./dev test --amd-hardware` builds, and runs it.

    python tests/amd/on_hardware.py --seconds 600            # for random kernels; on the card that ROCm's driver finds
    python tests/amd/on_hardware.py --emulate gfx942 --quick # an emulator in place of a card, a few tests: whether this script works
"""
import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "python"
QUICK = ["test_amd_instructions.py", "test_kernels_reductions.py"]
# Prints the target of the first GPU.
TARGET = """import sys
sys.path.insert(0, "python/tutorials")
import importlib
import numpy as np
import libtile
x = libtile.to_device(np.ones(4, np.float32), "hip")
print(importlib.import_module("01_vector_add").add[(1,)](x, x, x, 4, BLOCK=4).target)
"""


class Proof:
    def __init__(self, folder, environment):
        self.folder, self.environment, self.lines, self.holds = folder, environment, [], True

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def run(self, name, command, necessary=True):
        """The command's whole output, which is also in NAME.txt; a failure of what is necessary ends the proof as one that does not hold."""
        start = time.time()
        result = subprocess.run(list(map(str, command)), cwd=ROOT, env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, check=False)
        (self.folder / f"{name}.txt").write_text(f"$ {' '.join(map(str, command))}\n{result.stdout}")
        last = (result.stdout.strip().splitlines() or [""])[-1]
        self.say(f"{name}: {'ok' if result.returncode == 0 else f'ended with {result.returncode}'}, {time.time() - start:.0f} s: {last}")
        self.holds &= result.returncode == 0 or not necessary
        return result.stdout


def describe(proof):
    """The machine, as far as its tools are there."""
    proof.say(f"{platform.platform()}, Python {platform.python_version()}")
    for name, command in {"git": ["git", "log", "-1", "--format=%H %cI"], "rocminfo": ["rocminfo"], "rocm-smi": ["rocm-smi", "-a"],
                          "amd-smi": ["amd-smi", "version"], "hipconfig": ["hipconfig", "--full"]}.items():
        if shutil.which(command[0]):
            proof.run(name, command, necessary=False)
    for version in Path("/opt").glob("rocm*/.info/version"):
        proof.say(f"{version.parts[2]}: {version.read_text().strip()}")


def target_of(proof):
    """The first GPU's target; ends where HIP has none."""
    text = proof.run("devices", [sys.executable, "-c", "import libtile; print(libtile.__version__, *libtile.available_devices())"])
    if "hip:0" not in text:
        sys.exit("libtile finds no GPU of AMD's: is libamdhip64.so where the loader looks, or named by LIBTILE_HIP?")
    return proof.run("target", [sys.executable, "-c", TARGET]).split()[-1]


def tests(proof, files):
    report = proof.folder / "tests.xml"
    proof.run("tests", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "hip", f"--junitxml={report}", *files])
    if not report.exists():
        return
    for case in xml.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            proof.say(f"failed: {case.get('classname')}::{case.get('name')}")


def lessons(proof, pattern, *options):
    """Each is right, and how fast it is beside its peers, in tables."""
    for path in sorted((ROOT / "python" / "tutorials").glob(pattern)):
        proof.run(path.stem, [sys.executable, path, "--device", "hip", "--plot", proof.folder / "times", *options])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="for random kernels")
    parser.add_argument("--emulate", metavar="TARGET", help="an emulator is the card")
    parser.add_argument("--quick", action="store_true", help="a few tests and lessons")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(options.build / "python")}
    if options.emulate:
        environment |= {"LIBTILE_HIP": str(options.build / "tests" / "amd" / "libamdhip64_emulated.so"), "LIBTILE_EMULATED_GPU": options.emulate}
    with tempfile.TemporaryDirectory() as folder:
        proof = Proof(Path(folder), environment)
        describe(proof)
        target = target_of(proof)
        proof.say(f"the card is a {target}" + (", emulated" if options.emulate else ""))
        tests(proof, [TESTS / name for name in QUICK] if options.quick else [TESTS])
        proof.run("random_kernels", [sys.executable, TESTS / "random_kernels.py", "--device", "cpu,hip", "--count", "100000", "--steps", "8",
                                     "--seconds", 10 if options.quick else options.seconds])
        lessons(proof, *(["0[12]_*.py", "--points", "1"] if options.quick else ["[0-9][0-9]_*.py"]))
        proof.say("the proof holds" if proof.holds else "the proof does not hold: see what did not end with ok")
        (proof.folder / "summary.txt").write_text("\n".join(proof.lines) + "\n")
        packed = ROOT / f"amd-proof-{target}.tar.gz"
        with tarfile.open(packed, "w:gz") as tar:
            tar.add(folder, arcname=f"amd-proof-{target}")
    print(f"please send {packed}")
    sys.exit(0 if proof.holds else 1)


if __name__ == "__main__":
    main()
