# SPDX-License-Identifier: Apache-2.0
"""Functions of a package beside their references in torch, forward and backward; for liger_functions.py and fla_functions.py.

A case is a function of no arguments. It gives the function, an autograd Function or one of torch's tensors; its tensors (all
require gradients); its other arguments; and the same in torch.
"""
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def tensor(*shape, scale=1.0):
    return (torch.randn(shape, device=DEVICE) * scale).requires_grad_()


def outputs_of(result):
    return [each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, torch.Tensor)]


def check(make):
    """Outputs and gradients against those of fp64, to what fp32 can hold. AssertionError: they differ."""
    torch.manual_seed(7)
    function, tensors, rest, reference = make()
    exact = [each.detach().double().requires_grad_() for each in tensors]
    wanted = outputs_of(reference(*exact))
    called = getattr(function, "apply", function)
    got = outputs_of(called(*[each.clone() for each in tensors], *rest))[:len(wanted)]
    assert len(got) == len(wanted)
    for i, (a, b) in enumerate(zip(got, wanted)):
        torch.testing.assert_close(a.detach().double(), b.detach(), rtol=1e-4, atol=1e-4, msg=lambda text: f"output {i}: {text}")
    weights = [torch.randn_like(each) for each in got]
    grads = torch.autograd.grad(got, tensors, [each.clone() for each in weights])  # some write to what they are given
    for i, (a, b) in enumerate(zip(grads, torch.autograd.grad(wanted, exact, [each.double() for each in weights]))):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=2e-4, msg=lambda text: f"gradient {i}: {text}")


def main(names):
    """Prints a line for each case of these names: its name, and "ok" or what is wrong."""
    for name in names:
        try:
            check(CASES[name])
            print(name, "ok", flush=True)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            print(name, f"{type(error).__name__}:", " | ".join(lines[:12]), flush=True)
