# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of measurements in README.md and docs/performance.md from bench/results/*.json: of each row the latest.

`--check` only says whether they are up to date.
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))
from amd.table import summed, table as modelled_table  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "docs" / "performance.md"]
KERNELS = {"add": "vector addition", "softmax": "softmax", "layer_norm": "layer norm", "matmul": "matmul", "cumsum": "cumsum",
           "sort": "sort", "topk": "topk of 32", "argmax": "argmax", "gather": "gather", "histogram": "histogram of 256",
           "dropout": "dropout", "cast": "cast", "count": "atomic add, one place", "scatter_add": "atomic add, 4,096 places",
           "tune": "autotuning a matmul, measuring not counted", "attention": "attention", "attention_backward": "attention backward",
           "layer_norm_backward": "layer norm backward", "grouped": "matmuls of many sizes",
           "batched": "matmuls", "split_k": "matmul in parts of k", "rms_norm": "RMS norm", "cross_entropy": "cross entropy",
           "rope": "rotary embedding", "transpose_trans": "transpose by `tl.trans`",
           "launch_pdl": "layer norm and addition in turn, by launches that overlap,", "swiglu": "SwiGLU", "gelu": "GELU",
           "matmul_bias_gelu": "matmul, bias and GELU", "launch_numpy": "launch of one program, NumPy's arrays,",
           "launch_torch": "launch of one program, torch's arrays,", "first_launch_add": "first launch of vector addition",
           "first_launch_softmax": "first launch of softmax", "first_launch_matmul": "first launch of matmul"}
WORDS = {"bt": "b transposed", "causal": "causal", "descriptors": "by descriptors", "shared": "eight share one of keys"}
ROWS = ("softmax", "layer_norm", "layer_norm_backward", "cumsum", "sort", "topk", "argmax", "gather", "histogram", "dropout", "rms_norm", "cross_entropy", "swiglu",
        "embedding")
SIZES = {name: " columns" for name in ROWS} | {name: " elements" for name in ("add", "gelu", "cast", "count", "scatter_add")} \
    | {"tune": " configurations", "attention": " keys", "attention_backward": " keys", "rope": " pairs a head"}
PEERS = {"copy": "a copy of the same bytes", "copy kernel": "a kernel that copies them, a row a program", "triton": "Triton", "cublas": "cuBLAS", "torch": "torch", "numba": "numba", "tile": "our tile"}
PLACES = re.compile(r"(<!-- (results|details|modelled) (\w+) -->\n).*?(<!-- end -->)", re.S)


def rows(device):
    found, date = {}, ""
    for path in sorted((ROOT / "bench" / "results").glob(f"{device}-*.json")):
        for row in map(json.loads, path.read_text().splitlines()):
            date = row.get("date", date)
            found[row["name"]] = row | {"date": date}
    return found


def described(name):
    """"cuda/attention/f16/d128/4096/causal/triton": what was measured ("attention f16, heads of 128, causal"), and its size."""
    _, kernel, dtype, *rest = name.split("/")
    heads = [f"heads of {part[1:]}" for part in rest if re.fullmatch(r"d\d+", part)]
    size = next(part for part in rest if part[0].isdigit())
    if kernel.startswith("tiles_of_"):  # beside the best of our own
        KERNELS.setdefault(kernel, f"matmul in tiles of {kernel.removeprefix('tiles_of_')},")
    words = heads + [WORDS[part] for part in rest if part in WORDS]
    return ", ".join([f"{KERNELS.get(kernel, kernel)} {dtype.replace('_', ' to ')}", *words]), kernel, f"{int(size):,}" if size.isdigit() else size


def table(device):
    found = rows(device)
    lines = {}  # (what, kernel, peer) -> sizes and ratios
    for name, row in found.items():
        if "peer" in row:
            what, kernel, size = described(name)
            ratio = f"{row['ratio']:.2f}" if row["ratio"] < 10 else f"{row['ratio']:.0f}"
            lines.setdefault((what, kernel, row["peer"]), []).append((size, ratio))
    machine = found["machine"]
    where = machine.get("gpu") or machine["cpu"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("torch", "triton") if name in machine)
    out = [f"{where}; {versions}; until {machine['date']}:", "", "| kernel | sizes | speed | of |", "|---|---|---|---|"]
    for (what, kernel, peer), measured in lines.items():
        sizes, ratios = zip(*sorted(measured, key=lambda pair: [int(n) for n in re.findall(r"\d+", pair[0].replace(",", ""))]))
        out.append(f"| {what} | {', '.join(sizes)}{SIZES.get(kernel, '')} | {', '.join(ratios)} | {PEERS[peer]} |")
    return "\n".join(out) + "\n"


def seconds(value):
    return f"{value * 1e3:,.2f} ms" if value >= 1e-3 else f"{value * 1e6:,.1f} us"


def details(device):
    """Each row by itself, with times, spread and the revision that was measured."""
    found, paths = {}, sorted((ROOT / "bench" / "results").glob(f"{device}-*.json"))
    for path in paths:
        commit = ""
        for row in map(json.loads, path.read_text().splitlines()):
            commit = row.get("commit", commit)
            if "peer" in row:
                found[row["name"]] = row | {"commit": commit}
    lines = ["| row | libtile | peer | | ratio | spread | revision |", "|---|---|---|---|---|---|---|"]
    for name, row in found.items():
        lines.append(f"| `{name}` | {seconds(row['ours_s'])} | {seconds(row['peer_s'])} | {PEERS[row['peer']]} | {row['ratio']:.3f} "
                     f"| {row['spread']:.3f} | {row['commit']} |")
    return "\n".join(lines) + "\n"


def costs():
    cpu, gpu = rows("zen4"), rows("cuda")
    def ms(found, name):
        return f"{found[name]['ours_s'] * 1e3:.1f} ms"
    first = "{}/compile/add"
    lines = [f"{cpu['machine']['cpu']}, {cpu[first.format('cpu')]['date']}, and the host of an {gpu['machine']['gpu']}, "
             f"{gpu[first.format('cuda')]['date']}:", "", "| | CPU | GPU |", "|---|---|---|"]
    for what, name in (("vector addition", "add"), ("softmax", "softmax"), ("matmul", "matmul")):
        lines.append(f"| compiling {what} (GPU: to PTX) | {ms(cpu, f'cpu/compile/{name}')} | {ms(gpu, f'cuda/compile/{name}')} |")
    lines += [f"| a launch from Python | {cpu['cpu/launch']['ours_s'] * 1e6:.1f} us | "
              f"{gpu['cuda/launch']['ours_s'] * 1e6:.1f} us |",
              f"| `import libtile` | {ms(cpu, 'time/import')} | |",
              f"| the wheel | {cpu['size/wheel']['bytes'] / 1e6:.0f} MB | |",
              f"| building from source, {cpu['machine']['threads']} cores | {cpu['time/build']['ours_s']:.0f} s | |"]
    return "\n".join(lines) + "\n"


def modelled(device):
    """Rows of targets that nothing runs on."""
    found = rows(device)
    machine, measured = found.pop("machine"), list(found.values())
    return f"Triton {machine['triton']}, {machine['date']}, revision {machine['commit']}. {summed(measured)}\n\n{modelled_table(measured)}"


def part(what, device):
    if what == "modelled":
        return modelled(device)
    return details(device) if what == "details" else costs() if device == "costs" else table(device)


def made(text):
    return PLACES.sub(lambda found: found[1] + part(found[2], found[3]) + found[4], text)


def main():
    old = []
    for page in PAGES:
        text = page.read_text()
        if "--check" not in sys.argv:
            page.write_text(made(text))
        elif made(text) != text:
            old.append(str(page.relative_to(ROOT)))
    if old:
        print(f"{', '.join(old)}: out of date, run python docs/generate_results.py")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
