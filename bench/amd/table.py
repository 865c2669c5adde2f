# SPDX-License-Identifier: Apache-2.0
"""The rows of AMD's targets as a table: a line a kernel, libtile's figure in front of Triton's."""

COLUMNS = ("matrix", "valu", "lds", "global", "scratch", "scalar", "wait")


def number(value):
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def conflicts(side):
    """Cycles of LDS for bank conflicts, where they are known."""
    return number(side["lds"]["conflicts"]) if "conflicts" in (side.get("lds") or {}) else "-"


def line(row):
    ours, theirs = row["ours"], row["theirs"]
    pairs = [(ours["instructions"][name], theirs["instructions"][name]) for name in COLUMNS]
    pairs += [(ours[name], theirs[name]) for name in ("vgprs", "lds_bytes", "occupancy")]
    cells = [f"{number(a)} / {number(b)}" for a, b in pairs] + [f"{conflicts(ours)} / {conflicts(theirs)}"]
    _, kernel, target = row["name"].split("/")
    cycles = f"{ours['cycles']:,.0f} {ours['bound']} / {theirs['cycles']:,.0f} {theirs['bound']}"
    compiled = f"{row['ours_s'] * 1e3:,.0f} / {row['peer_s'] * 1e3:,.0f}"
    return [kernel, target, cycles, f"{row['cycles_ratio']:.2f}", *cells, compiled, f"{row['compile_ratio']:.1f}"]


def table(rows):
    head = ["kernel", "target", "modelled cycles", "ratio", "matrix", "VALU", "LDS", "global", "scratch", "scalar", "waits", "VGPRs",
            "LDS bytes", "waves a SIMD", "LDS conflicts", "compile ms", "ratio"]
    lines = [head, ["---"] * len(head), *map(line, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def summed(rows):
    """One sentence of how many rows are where they shall be."""
    ratios = [row["cycles_ratio"] for row in rows]
    compiled = [row["compile_ratio"] for row in rows]
    within = sum(not row["over"] for row in rows)
    return (f"Of {len(rows)} rows {sum(r > 1 for r in ratios)} have fewer modelled cycles than Triton's and {sum(r == 1 for r in ratios)} as many; "
            f"in {within} no class of instructions is above 1.1 of Triton's; in {sum(r >= 8 for r in compiled)} compiling takes an eighth of "
            "its time or less.")
