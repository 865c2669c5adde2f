# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton triton_names.py: prints the rows of triton_names.tsv that libtile does not answer.

A row is a module or class of Triton 3.9, and a name in it. What only objects have is looked for in one of the class. A member
is answered if it says which of NVIDIA's tools it needs.
"""
import importlib
import inspect
from pathlib import Path

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

ROWS = [line.split("\t") for line in Path(__file__).with_suffix(".tsv").read_text().splitlines()]


@triton.jit
def kernel(x, n: tl.constexpr):
    tl.store(x, n)


def made():
    """An object of each class that has members which the class itself lacks."""
    from triton.compiler import ASTSource, LazyDict
    from triton.runtime.jit import MockTensor
    target = GPUTarget("cuda", 90, 32)
    source = ASTSource(kernel, {"x": "*fp32", "n": "constexpr"}, {"n": 1})
    tuned = triton.autotune([triton.Config({"n": 1}), triton.Config({"n": 2})], key=[], warmup=1, rep=1)(kernel)
    tuned[(1,)](np.zeros(1, np.int32))
    objects = {
        "triton.runtime.autotuner.Autotuner": tuned, "triton.runtime.autotuner.Config": tuned.configs[0],
        "triton.runtime.autotuner.Heuristics": triton.heuristics({"n": lambda args: 1})(kernel),
        "triton.compiler.ASTSource": source, "triton.compiler.CompiledKernel": triton.compile(source, target),
        "triton.compiler.LazyDict": LazyDict({}),
        "triton.runtime.jit.JITFunction": kernel, "triton.runtime.jit.JITCallable": kernel,
        "triton.runtime.jit.KernelParam": kernel.params[0], "triton.runtime.MockTensor": MockTensor("float32"),
        "triton.runtime.driver": triton.runtime.driver,
        "triton.backends.driver.DriverBase": triton.runtime.driver.active,
        "triton.language.dtype": tl.float32, "triton.language.pointer_type": tl.pointer_type(tl.int8),
        "triton.language.block_type": tl.block_type(tl.int8, [4]), "triton.language.constexpr": tl.constexpr(1),
        "triton.language.tuple_type": tl.tuple_type([tl.int8]), "triton.language.range": tl.range(1),
        "triton.language.tuple": tl.tuple([1]),
    }
    for group in ("amd", "autotuning", "build", "cache", "compilation", "language", "nvidia", "proton", "redis", "runtime"):
        objects[f"triton.knobs.{group}"] = getattr(triton.knobs, group)
    return objects


def owner(path, objects):
    if path in objects:
        return objects[path]
    try:
        return importlib.import_module(path)
    except ImportError:
        above, _, name = path.rpartition(".")
        return getattr(owner(above, objects), name)


def main():
    objects = made()
    integer = tl.int8
    for module, name in ROWS:
        try:
            found = owner(module, objects)
            for each in name.split(".") if name != "*" else ():
                found = inspect.getattr_static(found, each) if inspect.isclass(found) else getattr(found, each)
        except triton.runtime.errors.PTXASError:
            continue
        except Exception as error:
            if module == "triton.language.dtype" and hasattr(integer, name):
                continue
            print(f"{module}\t{name}\t{type(error).__name__}: {error}".replace("\n", " "))


if __name__ == "__main__":
    main()
