# SPDX-License-Identifier: Apache-2.0
"""./dev bench: one JSON line a row, ours beside the peer in one run.

    bench.py [--device cpu|cuda|amd|compiler] [--only REGEX] [--json FILE]

Rows: device/kernel/dtype/size with ours_s, peer_s, ratio (peer/ours: above 1 we are faster), spread
and path (target, fallbacks); */launch, */compile/*, time/* with ours_s; cuda/launch_pdl/* with
gain, the time without launch_pdl over ours; */compile/long_* and longest_* with
growth as well, the ratio to code of a quarter of the length; size/* with bytes; compiler/step/... with ours_s
and ns_per_op; amd/... is modelled (amd_rows.py), and ends with a table. A wrong number, or a row on a fallback, makes the
exit status 1.
"""
import argparse
import importlib
import json
import os
import re
import sys

ROWS = {"cpu": "peer_rows", "cuda": "peer_rows", "amd": "amd_rows", "compiler": "compiler_rows"}


os.environ["LIBTILE_CACHE"] = "0"  # what is measured is compiled


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--device", choices=ROWS, default="cpu")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--json", metavar="FILE", help="append the rows to this file")
    options = parser.parse_args()
    module, found = importlib.import_module(ROWS[options.device]), []
    for row in module.rows(options.device, re.compile(options.only)):
        line = json.dumps(row, ensure_ascii=False)
        print(line, flush=True)
        if options.json:
            with open(options.json, "a") as out:
                out.write(line + "\n")
        found.append(row)
    if hasattr(module, "summary"):
        print(module.summary(found))
    return 1 if any("error" in row for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
