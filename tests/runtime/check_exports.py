#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libtile.so exports libtile_c.h and bindings.h, and needs only what every system has."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
library = sys.argv[1]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


declared = {name for header, api in (("bindings/bindings.h", "LT_API"), ("bindings/cache.h", "LT_API"), ("bindings/counting.h", "LT_API"),
                                              ("libtile_c.h", "LIBTILE_API"))
            for name in re.findall(rf"^{api} [^;]*?\b(\w+)\(", (ROOT / "runtime" / header).read_text(), re.M)}
exported = {line.split(" ", 2)[2] for line in output("nm", "-D", "--defined-only", library).splitlines()}
strange = exported - declared
missing = declared - exported
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
foreign = {name for name in needed if not re.match(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libz|libzstd|"
                                                   r"ld-linux.*)\.so", name)}
for what, names in (("exported and not part of an interface", strange), ("not exported", missing),
                    ("needed and not on every system", foreign)):
    if names:
        print(f"{what}: {', '.join(sorted(names))}")
sys.exit(1 if strange or missing or foreign else 0)
