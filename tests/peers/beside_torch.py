# SPDX-License-Identifier: Apache-2.0
"""Functions of a package beside their references in torch, forward and backward; for the packages' lists, *_functions.py.

A case is a function of no arguments. It gives the function, an autograd Function or one of torch's tensors; its tensors, whose
gradients are compared if they require some; its other arguments; and the same in torch.
"""
import argparse
import subprocess
import sys
import threading

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def tensor(*shape, scale=1.0):
    return (torch.randn(shape, device=DEVICE) * scale).requires_grad_()


def plain(*shape):
    """A tensor of a function that has no gradients."""
    return torch.randn(shape, device=DEVICE)


def outputs_of(result):
    return [each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, torch.Tensor)]


def check(make):
    """Outputs and gradients against those of fp64, to what fp32 can hold. AssertionError: they differ."""
    torch.manual_seed(7)
    function, tensors, rest, reference = make()
    exact = [each.detach().double().requires_grad_(each.requires_grad) for each in tensors]
    wanted = outputs_of(reference(*exact))
    called = getattr(function, "apply", function)
    got = outputs_of(called(*[each.clone() for each in tensors], *rest))[:len(wanted)]
    assert len(got) == len(wanted)
    for i, (a, b) in enumerate(zip(got, wanted)):
        torch.testing.assert_close(a.detach().double(), b.detach(), rtol=1e-4, atol=1e-4, msg=lambda text: f"output {i}: {text}")
    tensors, exact = ([each for each in of if each.requires_grad] for of in (tensors, exact))
    if not tensors:
        return
    weights = [torch.randn_like(each) for each in got]
    grads = torch.autograd.grad(got, tensors, [each.clone() for each in weights])  # some write to what they are given
    for i, (a, b) in enumerate(zip(grads, torch.autograd.grad(wanted, exact, [each.double() for each in weights]))):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=2e-4, msg=lambda text: f"gradient {i}: {text}")


def say(name):
    """Prints a line for the case: its name, and "ok" or what is wrong."""
    try:
        check(CASES[name])
        print(name, "ok", flush=True)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        print(name, f"{type(error).__name__}:", " | ".join(lines[:12]), flush=True)


def main(elsewhere=()):
    """The program of a package's list: [-j JOBS] [--seconds LIMIT] [NAME ...], without names all cases but those `elsewhere`.

    Several jobs are so many interpreters, each with a share of the cases. What is not done within the limit is said to be
    late, and what was under way when an interpreter ended is said to have died.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1100.0)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    names = asked.names or [name for name in CASES if name not in elsewhere]
    if asked.jobs == 1:
        for name in names:
            say(name)
        return
    shares = [names[i::asked.jobs] for i in range(min(asked.jobs, len(names)))]
    children = [subprocess.Popen([sys.executable, sys.argv[0], *share], stdout=subprocess.PIPE, text=True) for share in shares]
    ending = threading.Timer(asked.seconds, lambda: [child.kill() for child in children])
    ending.start()
    for share, child in zip(shares, children):
        said = child.communicate()[0]
        sys.stdout.write(said)
        done = len(said.splitlines())
        for name in share[done:]:
            print(name, "late" if not ending.is_alive() else "died" if name == share[done] else "not begun", flush=True)
    ending.cancel()
