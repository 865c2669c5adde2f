# SPDX-License-Identifier: Apache-2.0
"""Writes docs/python.md from the docstrings in python/libtile. `--check` only says whether it is up to date.

A name or a public member without a docstring is an error.
"""
import ast
import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "libtile"
PAGE = ROOT / "docs" / "python.md"
# (section, module, names), in the page's order.
SECTIONS = [
    ("Kernels", "jit", ["jit", "JITFunction", "constexpr_function", "must_use_result"]),
    ("Objects", "aggregates", ["aggregate"]),
    ("Compiled kernels", "jit", ["CompiledKernel"]),
    ("Targets, devices and memory", "__init__", ["targets"]),
    ("", "device", ["available_devices", "to_device", "DeviceArray", "num_threads", "set_num_threads"]),
    ("Tuning", "tuning", ["autotune", "heuristics", "Config", "Autotuner", "Heuristics"]),
    ("", "knobs", ["Autotuning", "Cache", "Reports", "Interpreter"]),
    ("Helpers", "math", ["cdiv", "next_power_of_2"]),
    ("Hooks", "hooks", ["LaunchInfo", "HookChain"]),
    ("Measuring", "testing", ["do_bench", "do_bench_cudagraph", "assert_close", "get_dram_gbps",
                              "get_max_simd_tflops", "get_max_tensorcore_tflops"]),
    ("", "testing_reports", ["perf_report", "Benchmark", "Mark"]),
    ("", "profiling", ["profile", "Profile", "roofline", "Roofline"]),
    ("Errors", "errors", ["Error", "CompilationError", "OutOfBoundsError", "KernelAssertionError", "KernelFaultError", "UnsupportedError", "OutOfResources", "InternalError",
                          "DeviceError", "AutotunerError"]),
]

# Modules whose own docstring stands at the head of their section.
TOLD = {"hooks", "math"}


def doc_of(node, name):
    text = ast.get_docstring(node)
    if not text:
        raise SystemExit(f"python/libtile: {name} has no docstring")
    return inspect.cleandoc(text)


def signature(function, is_method):
    """The parameters as text, without annotations and without self."""
    arguments = function.args
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        each.annotation = None
    text = ast.unparse(arguments)
    return text.removeprefix("self").removeprefix(", ") if is_method else text


def indented(text):
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def members(tree, name):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            called = "" if any(ast.unparse(d) in ("property", "functools.cached_property") for d in node.decorator_list) else \
                f"({signature(node, True)})"
            yield f"- `.{node.name}{called}`: {indented(doc_of(node, f'{name}.{node.name}'))}"


def entry(node, module):
    full = f"libtile.{'' if module in ('__init__', 'jit', 'device', 'math', 'errors', 'aggregates', 'tuning', 'profiling') else module.partition('_')[0] + '.'}{node.name}"
    if isinstance(node, ast.FunctionDef):
        return [f"### `{full}({signature(node, False)})`", "", doc_of(node, full), ""]
    lines = [f"### `{full}`", "", doc_of(node, full), ""]
    return lines + [*members(node, full), ""] if any(members(node, full)) else lines


def page():
    parsed = {module: ast.parse((PACKAGE / f"{module}.py").read_text()) for _, module, _ in SECTIONS}
    lines = ["# The Python interface", "", "Made from the docstrings of `python/libtile` by `docs/generate_python.py`; edit those, "
             "not this page.", "[language.md](language.md) has the names that kernels use.", "",
             doc_of(parsed["__init__"], "libtile").split("\n\n", 1)[1], ""]
    for section, module, names in SECTIONS:
        found = {node.name: node for node in parsed[module].body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        lines += [f"## {section}", ""] if section else []
        if module in TOLD:
            lines += [doc_of(parsed[module], f"libtile.{module}"), ""]
        for name in names:
            lines += entry(found[name], module)
    return "\n".join(lines).rstrip() + "\n"


def main():
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print("docs/python.md is out of date: run python docs/generate_python.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
