# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton mamba_functions.py [-j JOBS] [NAME ...]: mamba_ssm's functions in Triton, forward and backward.

Prints a line for each, as beside_torch says. The scan's reference is the recurrence that it computes in chunks:
S[t] = exp(dt[t] A) S[t-1] + dt[t] x[t] B[t]', o[t] = S[t] C[t] + D x[t].
"""
import contextlib
import types

import torch
import torch.nn.functional as F
from beside_torch import DEVICE, case, main, plain, tensor
from mamba_ssm.ops.triton import layer_norm, layernorm_gated
from mamba_ssm.ops.triton.k_activations import swiglu as swiglu_of
from mamba_ssm.ops.triton.selective_state_update import selective_state_update
from mamba_ssm.ops.triton.ssd_chunk_scan import chunk_scan as scan_of_chunks
from mamba_ssm.ops.triton.ssd_chunk_scan import chunk_scan_ref
from mamba_ssm.ops.triton.ssd_chunk_state import chunk_state as state_of_chunks
from mamba_ssm.ops.triton.ssd_chunk_state import chunk_state_ref
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
from mamba_ssm.ops.triton.ssd_state_passing import state_passing as states_passed
from mamba_ssm.ops.triton.ssd_state_passing import state_passing_ref

if DEVICE == "cpu":
    torch.cuda.device = contextlib.nullcontext  # entered around each launch
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(multi_processor_count=4)

BATCH, T, HEADS, WIDTH, GROUPS, STATE, CHUNK = 2, 100, 4, 32, 2, 16, 32


def normed(x, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def small(*shape):
    """Steps of a scan, and what its state loses."""
    return (torch.rand(shape, device=DEVICE) * 0.4 + 0.1).requires_grad_()


# ---- rows

@case
def swiglu():
    return swiglu_of, [tensor(7, 300)], (), lambda x: F.silu(x[..., :150]) * x[..., 150:]


@case
def layer_norm_of_a_sum():
    def function(x, w, b, residual):
        return layer_norm.layer_norm_fn(x, w, b, residual=residual, eps=1e-5, prenorm=True)
    return (function, [tensor(7, 300), tensor(300), tensor(300), tensor(7, 300)], (),
            lambda x, w, b, residual: (F.layer_norm(x + residual, (300,), w, b, 1e-5), x + residual))


@case
def rms_norm():
    return layer_norm.rms_norm_fn, [tensor(7, 300), tensor(300)], (None,), lambda x, w: normed(x) * w


@case
def rms_norm_with_two_weights():
    def function(x, w, other):
        return layer_norm.rms_norm_fn(x, w, None, weight1=other)
    return (function, [tensor(7, 300), tensor(300), tensor(300)], (),
            lambda x, w, other: (normed(x) * w, normed(x) * other))


@case
def gated_rms_norm():
    def function(x, w, z):
        return layernorm_gated.rmsnorm_fn(x, w, None, z, norm_before_gate=False)
    return function, [tensor(7, 300), tensor(300), tensor(7, 300)], (), lambda x, w, z: normed(x * F.silu(z)) * w


@case
def gated_layer_norm_of_groups():
    def function(x, w, b, z):
        return layernorm_gated.layernorm_fn(x, w, b, z, group_size=64)

    def reference(x, w, b, z):
        rows = x.unflatten(-1, (-1, 64))
        rows = (rows - rows.mean(-1, keepdim=True)) * torch.rsqrt(rows.var(-1, unbiased=False, keepdim=True) + 1e-6)
        return (rows.flatten(-2) * w + b) * F.silu(z)
    return function, [tensor(7, 192), tensor(192), tensor(192), tensor(7, 192)], (), reference


# ---- the parts of the scan

@case
def chunk_state():
    steps = small(BATCH, HEADS, 3, CHUNK)
    return (state_of_chunks, [tensor(BATCH, 3 * CHUNK, GROUPS, STATE), tensor(BATCH, 3 * CHUNK, HEADS, WIDTH), steps,
                              (-steps.detach().cumsum(-1)).requires_grad_()], (), chunk_state_ref)


@case
def state_passing():
    return (states_passed, [tensor(BATCH, 5, HEADS, WIDTH * STATE), (-small(BATCH, HEADS, 5).detach()).requires_grad_()], (),
            state_passing_ref)


@case
def chunk_scan():
    steps = small(BATCH, HEADS, 3, CHUNK)
    return (scan_of_chunks, [tensor(BATCH, 3 * CHUNK, GROUPS, STATE), tensor(BATCH, 3 * CHUNK, GROUPS, STATE),
                             tensor(BATCH, 3 * CHUNK, HEADS, WIDTH), steps, (-steps.detach().cumsum(-1)).requires_grad_(),
                             tensor(BATCH, 3, HEADS, WIDTH, STATE), tensor(HEADS, WIDTH),
                             tensor(BATCH, 3 * CHUNK, HEADS, WIDTH)], (), chunk_scan_ref)


# ---- the scan

def recurrence(x, dt, a, b, c, d, z=None, dt_bias=None):
    b, c = (each.repeat_interleave(HEADS // GROUPS, 2) for each in (b, c))
    if dt_bias is not None:
        dt = F.softplus(dt + dt_bias)
    state, rows = x.new_zeros(BATCH, HEADS, WIDTH, STATE), []
    for t in range(x.shape[1]):
        state = state * (dt[:, t] * a).exp()[..., None, None]
        state = state + (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None, :]
        rows.append((state * c[:, t, :, None, :]).sum(-1) + d[:, None] * x[:, t])
    y = torch.stack(rows, 1)
    return y if z is None else y * F.silu(z)


def scan_inputs():
    return [tensor(BATCH, T, HEADS, WIDTH), small(BATCH, T, HEADS), (-small(HEADS).detach()).requires_grad_(),
            tensor(BATCH, T, GROUPS, STATE), tensor(BATCH, T, GROUPS, STATE), tensor(HEADS)]


@case
def scan():
    def function(x, dt, a, b, c, d):
        return mamba_chunk_scan_combined(x, dt, a, b, c, CHUNK, D=d)
    return function, scan_inputs(), (), recurrence


@case
def gated_scan():
    def function(x, dt, a, b, c, d, z, dt_bias):
        return mamba_chunk_scan_combined(x, dt, a, b, c, CHUNK, D=d, z=z, dt_bias=dt_bias, dt_softplus=True)
    return function, [*scan_inputs(), tensor(BATCH, T, HEADS, WIDTH), tensor(HEADS)], (), recurrence


@case
def one_step():
    def reference(state, x, dt, a, b, c, d, z, dt_bias):
        dt = F.softplus(dt + dt_bias)
        b, c = (each.repeat_interleave(HEADS // GROUPS, 1)[:, :, None] for each in (b, c))
        state = state * (dt[..., None] * a).exp() + (dt * x)[..., None] * b
        return ((state * c).sum(-1) + d * x) * F.silu(z)
    return (selective_state_update,
            [plain(BATCH, HEADS, WIDTH, STATE), plain(BATCH, HEADS, WIDTH), small(BATCH, HEADS, WIDTH).detach(),
             -small(HEADS, WIDTH, STATE).detach(), plain(BATCH, GROUPS, STATE), plain(BATCH, GROUPS, STATE),
             plain(HEADS, WIDTH), plain(BATCH, HEADS, WIDTH), plain(HEADS, WIDTH)], (True,), reference)


if __name__ == "__main__":
    main()
