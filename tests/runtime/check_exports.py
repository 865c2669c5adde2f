#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libtile.so exports libtile.h and bindings.h, and needs only what every system has."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
library = sys.argv[1]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


declared = set(re.findall(r"\b(lt_\w+)\(", (ROOT / "runtime" / "bindings" / "bindings.h").read_text()))
exported, strange = set(), []
for line in output("nm", "-D", "-C", "--defined-only", library).splitlines():
    kind, name = line.split(" ", 2)[1:]
    if name.startswith("lt_"):
        exported.add(name)
    elif not re.match(r"((typeinfo( name)?|vtable) for libtile::Error$)|libtile::(Error|Argument|Kernel|"
                      r"Program|Buffer|Device)::(?!Impl)|libtile::(interruptLaunches|setNumThreads|numThreads|version)\(",
                      name):
        strange.append(name)
missing = {name for name in declared if name not in exported}
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
foreign = {name for name in needed if not re.match(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libz|libzstd|"
                                                   r"ld-linux.*)\.so", name)}
for what, names in (("exported and not part of an interface", strange), ("not exported", missing),
                    ("needed and not on every system", foreign)):
    if names:
        print(f"{what}: {', '.join(sorted(names))}")
sys.exit(1 if strange or missing or foreign else 0)
