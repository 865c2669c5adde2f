#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A relocatable copy of a build for machines without LLVM: OUT/python is all that PYTHONPATH needs.

    pack.py --build FOLDER --out FOLDER [--python-headers DIR --python-tag cp312]

The extension module and the example find libtile.so by run paths that hold in the build tree and here.
libtile.so does not depend on the version of Python. With headers of another Python (a folder that holds
usr/include/python3.N, as Debian's packages do, or the include folder itself) the thin extension module
is compiled once more for it.
"""
import argparse
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LIMIT = 90 << 20  # LLVM with three targets and the assembler of AMD takes 72 of them


def run(*command):
    subprocess.run([str(part) for part in command], check=True)


def strip(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", target, source)


def version():
    """What both sides of the bindings are built with."""
    text = (ROOT.parent / "meson.build").read_text()
    return text.split("version: '")[1].split("'")[0]


def check_package(package):
    """A build of single targets leaves the package's Python files out, or as they were. Fails then."""
    sources = [path for path in (ROOT / "libtile").rglob("*") if path.suffix in (".py", ".pyi", ".typed")]
    for source in sources:
        copy = package / source.relative_to(ROOT / "libtile")
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            raise SystemExit(f"pack: {copy} is {'not as its source' if copy.exists() else 'missing'}; "
                             "build the target 'package' first")
    if not list(package.glob("_libtile.*.so")):
        raise SystemExit(f"pack: {package} has no extension module; build the target 'package' first")


def is_python(path):
    """A folder of the package, or a file that is as in the sources."""
    return path.suffix in (".py", ".pyi", ".typed") or (path.is_dir() and path.suffix == "" and path.name != "__pycache__")


def include_folders(headers, tag):
    minor = tag.removeprefix("cp3")
    inside = Path(headers) / "usr" / "include"
    if (inside / f"python3.{minor}").exists():
        return [inside / f"python3.{minor}", inside]
    return [Path(headers)]


def compile_extension(package, headers, tag):
    suffix = f"cpython-{tag.removeprefix('cp')}-x86_64-linux-gnu.so"
    import pybind11
    folders = [*include_folders(headers, tag), pybind11.get_include()]
    flags = [f"-I{folder}" for folder in folders]
    run(*os.environ.get("CXX", "g++").split(), "-std=c++20", "-O2", "-shared", "-fPIC",
        "-fvisibility=hidden", "-s", f'-DLIBTILE_VERSION="{version()}"', f"-I{ROOT.parent}", *flags,
        *sorted((ROOT / "bindings").glob("*.cpp")), "-o", package / f"_libtile.{suffix}",
        package / "libtile.so", "-Wl,-rpath,$ORIGIN")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python-headers")
    parser.add_argument("--python-tag", default="cp312")
    options = parser.parse_args()

    check_package(options.build / "python" / "libtile")
    shutil.rmtree(options.out, ignore_errors=True)
    package = options.out / "python" / "libtile"
    shutil.copytree(options.build / "python" / "libtile", package,
                    ignore=lambda folder, names: [name for name in names if not is_python(Path(folder) / name)])
    strip(options.build / "runtime" / "libtile.so", package / "libtile.so")
    for extension in (options.build / "python" / "libtile").glob("_libtile.*.so"):
        strip(extension, package / extension.name)
    if options.python_headers:
        compile_extension(package, options.python_headers, options.python_tag)
    for program in (options.build / "tests" / "runtime" / "launch_kernels", options.build / "bench" / "launch" / "bare_launch"):
        if program.exists():
            strip(program, options.out / "bin" / program.name)

    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{options.out}: {size / 2**20:.1f} MiB")
    if size > LIMIT:
        raise SystemExit(f"the pack is larger than {LIMIT >> 20} MiB")


if __name__ == "__main__":
    main()
