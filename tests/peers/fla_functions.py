# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton fla_functions.py [-j JOBS] [NAME ...]: functions of flash-linear-attention, forward and backward, beside torch.

Prints a line for each, as beside_torch says. The references are the recurrences that the functions compute in chunks:
S[t] = exp(g[t]) S[t-1] + k[t] v[t]', o[t] = scale S[t]' q[t].
"""
import torch
import torch.nn.functional as F
from beside_torch import DEVICE, case, main, tensor
from fla.modules import activations
from fla.ops.delta_rule import fused_recurrent_delta_rule
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.hgrn import fused_recurrent_hgrn
from fla.ops.linear_attn import chunk_linear_attn
from fla.ops.retention import chunk_retention, fused_recurrent_retention
from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla

B, T, H, K, V = 2, 70, 2, 32, 16


def attention_inputs():
    return [tensor(B, T, H, K), tensor(B, T, H, K), tensor(B, T, H, V)]


def logs(*shape):
    """Logarithms of numbers in (0, 1)."""
    return F.logsigmoid(torch.randn(shape, device=DEVICE)).requires_grad_()


def first(function):
    """Of a function of several results the first, which has gradients."""
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


def recurrence(q, k, v, g=None, beta=None):
    """g: [B, T, H] or [B, T, H, K]; beta [B, T, H]: the delta rule, which takes k' S from v first."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    state, rows = q.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[2]):
        if g is not None:
            decay = g[:, t].exp()
            state = state * (decay[..., None] if decay.dim() == 3 else decay[..., None, None])
        value = v[:, :, t]
        if beta is not None:
            value = (value - torch.einsum("bhk,bhkv->bhv", k[:, :, t], state)) * beta[:, t, :, None]
        state = state + k[:, :, t, :, None] * value[:, :, None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, :, t], state) * q.shape[-1]**-0.5)
    return torch.stack(rows, 1)


# ---- rows

@case
def sigmoid():
    return activations.sigmoid, [tensor(7, 100)], (), torch.sigmoid


@case
def logsigmoid():
    return activations.logsigmoid, [tensor(7, 100)], (), F.logsigmoid


@case
def swish():
    return activations.swish, [tensor(7, 100)], (), F.silu


@case
def swiglu():
    return activations.swiglu, [tensor(7, 100), tensor(7, 100)], (), lambda a, b: F.silu(a) * b


# ---- linear attention

@case
def linear_attention():
    return first(chunk_linear_attn), attention_inputs(), (None, None, False, False), recurrence


@case
def retention():
    def reference(q, k, v):
        decay = torch.log1p(-torch.exp2(-5 - torch.arange(H, device=q.device, dtype=q.dtype)))
        return recurrence(q, k, v, decay.expand(B, T, H))
    return first(chunk_retention), attention_inputs(), (), reference


@case
def recurrent_retention():
    function, tensors, rest, reference = retention()
    return first(fused_recurrent_retention), tensors, rest, reference


@case
def simple_gla():
    return first(chunk_simple_gla), [*attention_inputs(), logs(B, T, H)], (), recurrence


@case
def recurrent_simple_gla():
    return first(fused_recurrent_simple_gla), [*attention_inputs(), logs(B, T, H)], (), recurrence


@case
def gla():
    return first(chunk_gla), [*attention_inputs(), logs(B, T, H, K)], (), recurrence


@case
def recurrent_gla():
    return first(fused_recurrent_gla), [*attention_inputs(), logs(B, T, H, K)], (), recurrence


@case
def hgrn():
    def reference(x, g):
        rows = [x[:, 0]]
        for t in range(1, T):
            rows.append(g[:, t].exp() * rows[-1] + x[:, t])
        return torch.stack(rows, 1)
    return first(fused_recurrent_hgrn), [tensor(B, T, K), logs(B, T, K)], (), reference


# ---- the delta rule

def delta_inputs():
    q, k, v = attention_inputs()
    return [q, F.normalize(k.detach(), dim=-1).requires_grad_(), v], torch.rand(B, T, H, device=DEVICE).requires_grad_()


@case
def recurrent_delta_rule():
    tensors, beta = delta_inputs()
    return first(fused_recurrent_delta_rule), [*tensors, beta], (), lambda q, k, v, beta: recurrence(q, k, v, beta=beta)


@case
def gated_delta_rule():
    tensors, beta = delta_inputs()
    return first(chunk_gated_delta_rule), [*tensors, logs(B, T, H), beta], (), recurrence


if __name__ == "__main__":
    main()
