# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton attorch_functions.py [-j JOBS] [NAME ...]: the layers of attorch, forward and backward, beside torch.

Prints a line for each, as beside_torch says. Its attention refuses to be made.
"""
import torch
import torch.nn.functional as F
from beside_torch import DEVICE, case, main, plain, tensor

# The kernels' modules ask when they are imported; of newer devices they take products in tf32, which is not what is compared here.
torch.cuda.get_device_capability = lambda *_: (7, 5)

from attorch.act_layers import ActFuncAutoGrad
from attorch.batch_norm_layer import BatchNormAutoGrad
from attorch.conv_layer import Conv2dAutoGrad
from attorch.cross_entropy_loss_layer import CrossEntropyLossAutoGrad
from attorch.dropout_layer import DropoutAutoGrad
from attorch.glu_layer import GLUAutoGrad
from attorch.layer_norm_layer import LayerNormAutoGrad
from attorch.linear_layer import LinearAutoGrad
from attorch.nll_loss_layer import NLLLossAutoGrad
from attorch.p_loss_layers import PLossAutoGrad
from attorch.rms_norm_layer import RMSNormAutoGrad
from attorch.softmax_layers import SoftmaxAutoGrad

ON_GPUS = ("batch_norm",)  # it asks torch for a GPU
ACTIVATIONS = {
    "sigmoid": torch.sigmoid, "logsigmoid": F.logsigmoid, "tanh": torch.tanh, "relu": F.relu, "gelu": F.gelu,
    "geluapprox": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu6": F.relu6, "hardsigmoid": F.hardsigmoid,
    "hardtanh_1.0": F.hardtanh, "hardswish": F.hardswish, "selu": F.selu, "mish": F.mish, "softplus": F.softplus,
    "softsign": F.softsign, "tanhshrink": F.tanhshrink, "leaky_relu_0.1": lambda x: F.leaky_relu(x, 0.1),
    "elu_0.7": lambda x: F.elu(x, 0.7), "celu_0.7": lambda x: F.celu(x, 0.7), "hardshrink_0.5": F.hardshrink,
    "softshrink_0.5": F.softshrink}


# ---- elements

def activation(name):
    def make():
        given = name.split("_")[0] if name.startswith("hardtanh") else name
        return ActFuncAutoGrad, [tensor(7, 300, scale=2.0)], (given, 0.0, False), ACTIVATIONS[name]
    make.__name__ = f"activation_{name}"
    return make


for each in ACTIVATIONS:
    case(activation(each))


@case
def dropout():
    return DropoutAutoGrad, [tensor(7, 300)], (0.3, False), lambda x: x


@case
def glu():
    return GLUAutoGrad, [tensor(7, 300)], (-1, "sigmoid"), F.glu


# ---- rows and columns

@case
def softmax():
    return SoftmaxAutoGrad, [tensor(5, 300)], (False, False), lambda x: x.softmax(-1)


@case
def log_softmax():
    return SoftmaxAutoGrad, [tensor(5, 300)], (False, True), lambda x: x.log_softmax(-1)


@case
def softmin():
    return SoftmaxAutoGrad, [tensor(5, 300)], (True, False), lambda x: (-x).softmax(-1)


@case
def layer_norm():
    return (LayerNormAutoGrad, [tensor(7, 300), tensor(300), tensor(300)], (1e-5,),
            lambda x, w, b: F.layer_norm(x, (300,), w, b, 1e-5))


@case
def rms_norm():
    return (RMSNormAutoGrad, [tensor(7, 300), tensor(300)], (1e-6,),
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w)


def batch_norm_of(x, w, b):
    centred = x - x.mean((0, 2), keepdim=True)
    return centred * torch.rsqrt(centred.square().mean((0, 2), keepdim=True) + 1e-5) * w[:, None] + b[:, None]


@case
def batch_norm():
    def function(x, w, b):
        return BatchNormAutoGrad.apply(x, True, w, b, torch.zeros(6, device=DEVICE), torch.ones(6, device=DEVICE))
    return function, [tensor(5, 6, 33), tensor(6), tensor(6)], (), batch_norm_of


@case
def batch_norm_with_an_activation():
    def function(x, w, b, added):
        return BatchNormAutoGrad.apply(x, True, w, b, torch.zeros(6, device=DEVICE), torch.ones(6, device=DEVICE), 0.1, 1e-5,
                                       True, added, "silu")
    return (function, [tensor(5, 6, 33), tensor(6), tensor(6), tensor(5, 6, 33)], (),
            lambda x, w, b, added: F.silu(batch_norm_of(x, w, b) + added))


# ---- products

@case
def linear():
    return LinearAutoGrad, [tensor(21, 48), tensor(48, 40), tensor(40)], (), lambda x, w, b: x @ w + b


@case
def linear_with_an_activation():
    return LinearAutoGrad, [tensor(21, 48), tensor(48, 40), tensor(40)], ("gelu",), lambda x, w, b: F.gelu(x @ w + b)


@case
def conv():
    return (Conv2dAutoGrad, [tensor(2, 6, 15, 13), tensor(8, 6, 3, 3), tensor(8)], (1, 1, 1, 1),
            lambda x, w, b: F.conv2d(x, w, b, padding=1))


@case
def conv_of_groups():
    return (Conv2dAutoGrad, [tensor(2, 6, 15, 13), tensor(6, 2, 3, 3)], (None, 2, 2, 1, 0, 3),
            lambda x, w: F.conv2d(x, w, None, 2, (1, 0), 1, 3))


# ---- losses

@case
def cross_entropy():
    target = torch.randint(33, (9,), device=DEVICE)
    return CrossEntropyLossAutoGrad, [tensor(9, 33)], (target,), lambda x: F.cross_entropy(x, target)


@case
def cross_entropy_with_weights():
    target, weight = torch.randint(33, (9,), device=DEVICE), torch.rand(33, device=DEVICE)
    return (CrossEntropyLossAutoGrad, [tensor(9, 33)], (target, weight),
            lambda x: F.cross_entropy(x, target, weight.to(x.dtype)))


@case
def nll_loss():
    target = torch.randint(33, (9, 7), device=DEVICE)
    return NLLLossAutoGrad, [tensor(9, 33, 7)], (target, "mean"), lambda x: F.nll_loss(x, target)


def p_loss(name, number, reference):
    def make():
        target = plain(7, 300)
        return PLossAutoGrad, [tensor(7, 300)], (target, number, "mean"), lambda x: reference(x, target.to(x.dtype))
    make.__name__ = name
    return make


for each in (("smooth_l1_loss", 0, F.smooth_l1_loss), ("l1_loss", 1, F.l1_loss), ("mse_loss", 2, F.mse_loss),
             ("huber_loss", 3, F.huber_loss)):
    case(p_loss(*each))


if __name__ == "__main__":
    main(elsewhere=() if DEVICE == "cuda" else ON_GPUS)
