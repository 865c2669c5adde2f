#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_install.py BUILD: installs a build into an empty tree and builds users' programs against it alone, as
pkg-config and CMake tell: plain C by gcc, C++17 by g++ and by clang with libc++. Says what is not tried, and why.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(host LANGUAGES C CXX)
find_package(libtile {version} REQUIRED)
add_executable(host_c {here}/test_c.c)
add_executable(host_cpp {here}/host.cpp)
target_compile_features(host_cpp PRIVATE cxx_std_17)
target_link_libraries(host_c PRIVATE libtile::libtile)
target_link_libraries(host_cpp PRIVATE libtile::libtile)
"""


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def flags_of(pc):
    """The flags that pkg-config gives; where there is none, as it would read the file."""
    if shutil.which("pkg-config"):
        return shlex.split(run("pkg-config", "--cflags", "--libs", "libtile",
                               env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}))
    print("no pkg-config here: its file is read by this test")
    text = pc.read_text().replace("${pcfiledir}", str(pc.parent))
    for name, value in reversed(re.findall(r"^(\w+)=(.*)$", text, re.M)):  # the later are made of the earlier
        text = text.replace("${" + name + "}", value)
    return shlex.split(" ".join(re.findall(r"^(?:Libs|Cflags): (.*)$", text, re.M)))


def newest_clang():
    """clang++ and whether it has libc++; names with a version are those of Debian's packages."""
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    for name in filter(shutil.which, names):
        if subprocess.run([name, "-stdlib=libc++", "-fsyntax-only", "-x", "c++", "-"], input="#include <string>\n",
                          capture_output=True, text=True).returncode == 0:
            return name
    return None


def hosts():
    """(what, the command without flags and output)"""
    yield "C", ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "test_c.c"]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", HERE / "host.cpp", "-pthread"]
    yield "C++17", ["g++", "-std=c++17", *warnings]
    clang = newest_clang()
    if clang:
        yield f"{clang} with libc++", [clang, "-std=c++17", "-stdlib=libc++", *warnings]
    else:
        print("NOT TRIED: no clang with libc++ is installed")


def check_cmake(root, folder, version, environment):
    """Both programs by CMake."""
    works = shutil.which("cmake") and subprocess.run(["cmake", "--version"], capture_output=True).returncode == 0
    if not works:
        print("NOT TRIED: CMake's package, since there is no cmake")
        return
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(CMAKE.format(here=HERE, version=version))
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={root}")
    run("cmake", "--build", folder / "build")
    for name in ("host_c", "host_cpp"):
        run(folder / "build" / name, env=environment)
    print("built by CMake, and right")


def main():
    build = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "stage"
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", stage)
        pc = next(stage.rglob("libtile.pc"))
        root = next(stage.rglob("include")).parent
        library = next(stage.rglob("libtile.so"))
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
        flags = flags_of(pc)
        for number, (what, command) in enumerate(hosts()):
            program = Path(folder) / f"host{number}"
            run(*command, *flags, "-o", program)
            run(program, env=environment)
            print(f"{what}: built with {' '.join(flags)}, and right")
        version = re.search(r"^Version: (.*)$", pc.read_text(), re.M)[1]
        check_cmake(root, Path(folder) / "cmake", version, environment)


if __name__ == "__main__":
    main()
