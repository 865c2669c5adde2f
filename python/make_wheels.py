#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wheels for every Python whose headers are there: make_wheels.py --build FOLDER --llvm N --dist FOLDER [PYTHON...]

libtile.so does not depend on the version of Python. It is built once; for each interpreter the build is
configured again with it, which compiles the thin extension module alone. Interpreters: those named, or
python3.10 and later on PATH and where pyenv, the system and the manylinux images keep them.

The platform in a wheel's name is what its libraries ask for: manylinux_2_34_x86_64 if they use a symbol
of glibc 2.34 and none that is newer. tests/check_wheel.py checks it, and tries the wheel.
"""
import argparse
import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from pyproject_metadata import StandardMetadata

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
OLDEST = 10  # minor version of Python 3
PLACES = ["~/.pyenv/versions/*/bin/python3", "/usr/bin/python3.*", "/usr/local/bin/python3.*",
          "/opt/python/*/bin/python3"]
# Of an interpreter: what its wheels are tagged with, and whether an extension can be built for it.
ASK = """
import json, os, sys, sysconfig
print(json.dumps([sys.implementation.name, list(sys.version_info[:2]), bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                  os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))]))
"""


def tag_of(interpreter):
    """`cp312`, or why no wheel can be made."""
    result = subprocess.run([interpreter, "-c", ASK], capture_output=True, text=True)
    if result.returncode != 0:
        return None, "it does not run"
    name, (major, minor), free_threaded, headers = json.loads(result.stdout)
    if name != "cpython" or free_threaded or (major, minor) < (3, OLDEST):
        return None, f"not a CPython from 3.{OLDEST} on with its lock"
    return (f"cp{major}{minor}", None) if headers else (None, "its headers are not there")


def candidates():
    """Interpreters on PATH and in the usual places; PATH's python3 comes first."""
    yield from filter(None, (shutil.which(name) for name in ["python3", *(f"python3.{n}" for n in range(OLDEST, 30))]))
    for place in PLACES:
        pattern = Path(place).expanduser()
        for path in sorted(Path("/").glob(str(pattern).lstrip("/"))):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                yield str(path)


def interpreters(named):
    """{tag: interpreter}; what is named must do, what is only found may not."""
    found = {}
    for each in named or candidates():
        interpreter = shutil.which(each)
        tag, reason = tag_of(interpreter) if interpreter else (None, "there is none")
        if tag:
            found.setdefault(tag, interpreter)
        elif named:
            raise SystemExit(f"make_wheels: {each}: {reason}")
    if not found:
        raise SystemExit("make_wheels: no Python with headers was found")
    return dict(sorted(found.items(), key=lambda item: int(item[0][2:])))


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, **options)


def build(folder, llvm, interpreter, stage):
    """Builds for the interpreter, and installs below `stage`."""
    if (folder / "build.ninja").exists():
        run("meson", "configure", folder, f"-Dinterpreter={interpreter}")
    else:
        run("meson", "setup", folder, ROOT, f"-Dllvm={llvm}", "-Dtests=false", "-Dcpp_link_args=-s",
            f"-Dinterpreter={interpreter}")
    run("ninja", "-C", folder)
    shutil.rmtree(stage, ignore_errors=True)
    run("meson", "install", "-C", folder, "--no-rebuild", "--quiet", "--destdir", stage)


def platform_tag(libraries):
    versions = [(2, 17)]  # older ones have no tag of this form
    for library in libraries:
        symbols = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True,
                                 check=True).stdout
        versions += [tuple(map(int, found)) for found in re.findall(r"@GLIBC_(\d+)\.(\d+)", symbols)]
    return "manylinux_{}_{}_{}".format(*max(versions), platform.machine())


def contents(stage, metadata, tags):
    """{name in the wheel: bytes}."""
    package = next(stage.rglob("libtile/__init__.py")).parent
    files = {f"libtile/{path.relative_to(package)}": path.read_bytes()
             for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    headers = f"libtile-{metadata.version}.data/headers"
    for path in stage.rglob("include/*.h"):
        files[f"{headers}/{path.name}"] = path.read_bytes()
    info = f"libtile-{metadata.version}.dist-info"
    files[f"{info}/METADATA"] = bytes(metadata.as_rfc822())
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: libtile\nRoot-Is-Purelib: false\nTag: {tags}\n").encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return files


def write(path, files):
    """The same files give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--llvm", required=True)
    parser.add_argument("--dist", type=Path, required=True)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    options = parser.parse_args()
    options.dist.mkdir(exist_ok=True)
    for path in options.dist.glob("libtile-*.whl"):
        path.unlink()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    metadata = StandardMetadata.from_pyproject(project, ROOT)
    for tag, interpreter in interpreters(options.pythons).items():
        print(f"[wheel] {tag}: {interpreter}", flush=True)
        stage = options.build.resolve() / "stage"
        build(options.build, options.llvm, interpreter, stage)
        tags = f"{tag}-{tag}-{platform_tag(stage.rglob('*.so'))}"
        wheel = options.dist / f"libtile-{metadata.version}-{tags}.whl"
        write(wheel, contents(stage, metadata, tags))
        run(interpreter, ROOT / "tests" / "check_wheel.py", wheel, env={**os.environ, "PYTHONPATH": ""})


if __name__ == "__main__":
    sys.exit(main())
