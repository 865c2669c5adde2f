# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton liger_functions.py [-j JOBS] [NAME ...]: the functions of liger-kernel, forward and backward, beside torch.

Prints a line for each, as beside_torch says.
"""
import torch
import torch.nn.functional as F
from beside_torch import DEVICE, case, main, tensor
from liger_kernel import ops
from liger_kernel.ops.experimental import mm_int8int2

ON_GPUS = ("dyt", "mlp")  # they ask torch for a GPU
WITHOUT_TRITON = ("fused_linear_scaled_cross_entropy",)  # on a GPU it is written in CuTe DSL


def labels(*shape, below):
    return torch.randint(below, shape, device=DEVICE)


# ---- rows

def normed(x, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@case
def softmax():
    return ops.LigerSoftmaxFunction, [tensor(5, 300)], (), lambda x: x.softmax(-1)


@case
def softmax_of_long_rows():
    return ops.LigerSoftmaxFunction, [tensor(3, 40001)], (), lambda x: x.softmax(-1)


@case
def sparsemax():
    def reference(x):
        ordered = x.sort(-1, descending=True).values
        sums, counts = ordered.cumsum(-1) - 1, torch.arange(1, x.shape[-1] + 1, device=x.device)
        support = (counts * ordered > sums).sum(-1, keepdim=True)
        return (x - sums.gather(-1, support - 1) / support).clamp_min(0)
    return ops.LigerSparsemaxFunction, [tensor(5, 100)], (-1,), reference


@case
def rms_norm():
    return (ops.LigerRMSNormFunction, [tensor(2, 7, 300), tensor(300)], (1e-6, 0.0, "llama", False),
            lambda x, w: normed(x) * w)


@case
def rms_norm_of_gemma():
    return (ops.LigerRMSNormFunction, [tensor(9, 257), tensor(257)], (1e-6, 1.0, "gemma", False),
            lambda x, w: normed(x) * (w + 1))


@case
def layer_norm():
    return (ops.LigerLayerNormFunction, [tensor(7, 300), tensor(300), tensor(300)], (1e-5,),
            lambda x, w, b: F.layer_norm(x, (300,), w, b, 1e-5))


@case
def group_norm():
    return (ops.LigerGroupNormFunction, [tensor(3, 8, 33), tensor(8), tensor(8)], (8, 4, 1e-5),
            lambda x, w, b: F.group_norm(x, 4, w, b, 1e-5))


@case
def fused_add_rms_norm():
    return (ops.LigerFusedAddRMSNormFunction, [tensor(2, 5, 200), tensor(2, 5, 200), tensor(200)],
            (1e-6, 0.0, "llama", False), lambda x, r, w: (normed(x + r) * w, x + r))


@case
def modulated_rms_norm():
    return (ops.LigerModulatedRMSNormFunction, [tensor(2, 5, 200), tensor(200), tensor(2, 200), tensor(2, 200)],
            (1e-6, 0.0, "llama", False),
            lambda x, w, scale, shift: normed(x) * w * (1 + scale[:, None]) + shift[:, None])


@case
def poly_norm():
    return (ops.LigerPolyNormFunction, [tensor(7, 200), tensor(3), tensor()], (1e-6, False),
            lambda x, w, b: w[0] * normed(x**3) + w[1] * normed(x**2) + w[2] * normed(x) + b)


@case
def dyt():
    return (ops.LigerDyTFunction, [tensor(7, 200), tensor(1), tensor(200), tensor(200)], (),
            lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta)


@case
def attn_res():
    def reference(v, query, norm):
        alpha = torch.einsum("d,nbtd->nbt", query, normed(v) * norm).softmax(0)
        return torch.einsum("nbt,nbtd->btd", alpha, v)
    return ops.LigerAttnResFunction, [tensor(4, 2, 5, 96), tensor(96), tensor(96)], (1e-6,), reference


# ---- elements

@case
def geglu():
    return (ops.LigerGELUMulFunction, [tensor(7, 300), tensor(7, 300)], (),
            lambda a, b: F.gelu(a, approximate="tanh") * b)


@case
def swiglu():
    return ops.LigerSiLUMulFunction, [tensor(7, 300), tensor(7, 300)], (), lambda a, b: F.silu(a) * b


@case
def fused_gate_up():
    return (ops.LigerFusedGateUpSiLUMulFunction, [tensor(7, 300)], (),
            lambda y: F.silu(y[..., :150]) * y[..., 150:])


@case
def relu_squared():
    return ops.LigerReLUSquaredFunction, [tensor(7, 300)], (), lambda x: F.relu(x).square()


@case
def embedding():
    indices = labels(3, 9, below=50)
    return ops.LigerEmbeddingFunction, [tensor(50, 40)], (indices,), lambda table: F.embedding(indices, table)


# ---- losses

@case
def cross_entropy():
    target = labels(9, below=333)
    target[4] = -100
    return (ops.LigerCrossEntropyFunction, [tensor(9, 333)], (target, None, -100, 0.0, 0.1, "mean", None, False),
            lambda x: F.cross_entropy(x, target, label_smoothing=0.1))


@case
def cross_entropy_with_weights():
    target, weight = labels(9, below=40), torch.rand(40, device=DEVICE)
    return (ops.LigerCrossEntropyFunction, [tensor(9, 40)], (target, weight, -100, 0.0, 0.0, "sum", 30.0, False),
            lambda x: F.cross_entropy(30 * torch.tanh(x / 30), target, weight.to(x.dtype), reduction="sum"))


@case
def fused_linear_cross_entropy():
    target = labels(21, below=97)
    return (ops.LigerFusedLinearCrossEntropyFunction, [tensor(21, 32), tensor(97, 32)], (target,),
            lambda x, w: F.cross_entropy(x @ w.T, target))


@case
def fused_linear_scaled_cross_entropy():
    target = labels(21, below=97)
    return (ops.LigerFusedLinearScaledCrossEntropyFunction, [tensor(21, 32), tensor(97, 32)],
            (target, 0.5), lambda x, w: F.cross_entropy(x @ w.T / 0.5, target, reduction="none"))


@case
def vocab_parallel_cross_entropy():
    target = labels(5, 3, below=97)
    return (ops.LigerVocabParallelCEFunction, [tensor(5, 3, 97)], (target, None, -100, 0.1, "pytorch", "global"),
            lambda x: F.cross_entropy(x.flatten(0, 1), target.flatten(), label_smoothing=0.1, reduction="none").view(5, 3))


@case
def kl_div():
    target = torch.rand(7, 300, device=DEVICE).softmax(-1)
    return (ops.LigerKLDivLossFunction, [tensor(7, 300)], (target, "batchmean", False),
            lambda x: F.kl_div(x, target, reduction="batchmean"))


def jensen_shannon(log_q, log_p, beta=0.5):
    log_m = torch.logsumexp(torch.stack([log_p + torch.tensor(beta).log(), log_q + torch.tensor(1 - beta).log()]), 0)
    both = beta * F.kl_div(log_m, log_p, reduction="none", log_target=True)
    both = both + (1 - beta) * F.kl_div(log_m, log_q, reduction="none", log_target=True)
    return both.sum() / log_q.shape[0]


@case
def jsd():
    log_q, log_p = tensor(7, 300).log_softmax(-1).detach(), tensor(7, 300).log_softmax(-1).detach()
    return (ops.LigerJSDFunction, [log_q.requires_grad_()], (log_p, None, 0.5, -100),
            lambda x: jensen_shannon(x, log_p.to(x.dtype)))


@case
def fused_linear_jsd():
    hidden, weight = tensor(9, 48).detach(), tensor(50, 48).detach()
    return (ops.LigerFusedLinearJSDFunction, [tensor(9, 24), tensor(50, 24)], (hidden, weight, None, 0.5, -100, 1.0),
            lambda x, w: jensen_shannon((x @ w.T).log_softmax(-1), (hidden @ weight.T).log_softmax(-1).to(x.dtype)))


@case
def tvd():
    q = torch.rand(7, 300, device=DEVICE).softmax(-1)
    return (ops.LigerTVDLossFunction, [torch.rand(7, 300, device=DEVICE).softmax(-1).requires_grad_()], (q,),
            lambda p: 0.5 * (p - q).abs().sum() / 7)


@case
def grpo_loss():
    logits, ids = tensor(2, 6, 50), labels(2, 5, below=50)
    advantages = torch.randn(2, device=DEVICE)

    def reference(x):
        logps = (x[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = torch.exp(logps - logps.detach())
        clipped = ratio.clamp(0.8, 1.4)
        return -torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None]).mean()
    return (ops.GrpoLossFunction, [logits], (None, None, ids, advantages, None, 0.9, 0.0, 0.2, 0.4, False), reference)


# ---- products

@case
def tiled_mlp():
    gate, up, down = (torch.randn(48, 48, device=DEVICE) * 0.1 for _ in range(3))

    def mlp_of(_, x):
        return ops.LigerSiLUMulFunction.apply(x @ gate, x @ up) @ down

    class Function:
        @staticmethod
        def apply(x):
            return ops.LigerTiledMLPFunction.apply(mlp_of, None, x, 3, None)
    return (Function, [tensor(50, 48)], (),
            lambda x: (F.silu(x @ gate.to(x.dtype)) * (x @ up.to(x.dtype))) @ down.to(x.dtype))


@case
def product_of_int8_and_int2():
    a, b = torch.randint(-128, 128, (50, 512), device=DEVICE), torch.randint(-1, 2, (512, 40), device=DEVICE)
    packed = mm_int8int2.pack_weights(b.clone())
    return (lambda: mm_int8int2.matmul(a.to(torch.int8), packed).double(), [], (), lambda: a.double() @ b.double())


# ---- positions and attention

def halves_turned(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


@case
def rope():
    angles = torch.randn(1, 9, 16, device=DEVICE).repeat(1, 1, 2)
    cos, sin = angles.cos(), angles.sin()
    return (ops.LigerRopeFunction, [tensor(2, 4, 9, 32), tensor(2, 2, 9, 32)], (cos, sin),
            lambda q, k: tuple(x * cos[:, None] + halves_turned(x) * sin[:, None] for x in (q, k)))


@case
def llama4_rope():
    turns = torch.polar(torch.ones(9, 16, device=DEVICE), torch.randn(9, 16, device=DEVICE))

    def turned(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[None, :, None]).flatten(-2)
    return (ops.LigerLlama4RopeFunction, [tensor(2, 9, 4, 32), tensor(2, 9, 2, 32)], (turns,),
            lambda q, k: (turned(q), turned(k)))


@case
def qwen2vl_mrope():
    section = [4, 6, 6]
    angles = torch.randn(3, 2, 9, 16, device=DEVICE).repeat(1, 1, 1, 2)
    parts = [each[i % 3] for i, each in enumerate(angles.split(section * 2, -1))]
    chosen = torch.cat(parts, -1)[:, None]
    return (ops.LigerQwen2VLMRopeFunction, [tensor(2, 4, 9, 32), tensor(2, 2, 9, 32)],
            (angles.cos(), angles.sin(), section),
            lambda q, k: tuple(x * chosen.cos() + halves_turned(x) * chosen.sin() for x in (q, k)))


@case
def multi_token_attention():
    seen = torch.ones(8, 8, dtype=torch.bool, device=DEVICE).tril()

    def reference(scores, weight, bias):
        chances = scores.masked_fill(~seen, -1e9).softmax(-1)
        return F.conv2d(chances, weight, bias, padding=1).masked_fill(~seen, 0.0)
    return (ops.LigerMultiTokenAttentionFunction, [tensor(2, 4, 8, 8), tensor(4, 4, 3, 3), tensor(4)], (1, 1),
            reference)


@case
def fused_neighborhood_attention():
    at = torch.arange(40, device=DEVICE)
    near = (at[:, None] - at[None, :]).abs() <= 3

    def reference(q, k, v):
        scores = (q @ k.transpose(-2, -1) * 32**-0.5).masked_fill(~near, float("-inf"))
        return scores.softmax(-1) @ v
    return (ops.LigerFusedNeighborhoodAttentionFunction, [tensor(1, 2, 40, 32) for _ in range(3)], (7, 1), reference)


# ---- experts and streams

@case
def mlp():
    return (ops.LigerMLPFunction, [tensor(2, 40, 64), tensor(96, 64, scale=0.1), tensor(96, 64, scale=0.1), tensor(64, 96, scale=0.1)],
            (), lambda x, gate, up, down: (F.silu(x @ gate.T) * (x @ up.T)) @ down.T)


@case
def fused_moe():
    chosen = torch.stack([torch.randperm(4, device=DEVICE)[:2] for _ in range(19)])

    def reference(x, gate_up, down, weights):
        result = torch.zeros_like(x)
        for slot in range(2):
            gate, up = torch.einsum("th,tih->ti", x, gate_up[chosen[:, slot]]).chunk(2, -1)
            result = result + weights[:, slot, None] * torch.einsum("ti,thi->th", F.silu(gate) * up, down[chosen[:, slot]])
        return result

    class Function:
        @staticmethod
        def apply(x, gate_up, down, weights):
            return ops.LigerFusedMoEFunction.apply(x, gate_up, down, chosen.to(torch.int32), weights)
    return (Function, [tensor(19, 64), tensor(4, 96, 64, scale=0.1), tensor(4, 64, 48, scale=0.1),
                       torch.rand(19, 2, device=DEVICE).requires_grad_()], (), reference)


@case
def mhc_coeffs():
    streams, width, eps = 4, 24, 1e-4

    def reference(x, phi, b, pre, post, res):
        rows = x.flatten(-2).reshape(-1, streams * width)
        mix = normed(rows) @ phi
        first, second, rest = mix.split([streams, streams, streams * streams], -1)
        b_first, b_second, b_rest = b.split([streams, streams, streams * streams])
        matrix = (res * rest + b_rest).view(-1, streams, streams).softmax(-1) + 1e-6
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
        for _ in range(3):
            matrix = matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
            matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
        return (torch.sigmoid(pre * first + b_first).view(2, 5, -1) + eps,
                2 * torch.sigmoid(post * second + b_second).view(2, 5, -1), matrix.view(2, 5, streams, streams))
    count = streams * streams + 2 * streams
    return (ops.LigerMHCCoeffsFunction,
            [tensor(2, 5, streams, width), tensor(streams * width, count, scale=0.1), tensor(count), tensor(), tensor(), tensor()],
            (True, 4, 1e-6, eps, 1e-6, 2.0), reference)


@case
def mhc_pre():
    return (ops.LigerMHCPreFunction, [tensor(2, 5, 4, 24), tensor(2, 5, 4)], (),
            lambda x, pre: (x * pre[..., None]).sum(-2))


@case
def mhc_post_res():
    return (ops.LigerMHCPostResFunction, [tensor(2, 5, 4, 24), tensor(2, 5, 24), tensor(2, 5, 4), tensor(2, 5, 4, 4)], (),
            lambda x, f, post, res: torch.einsum("btoi,btic->btoc", res, x) + post[..., None] * f[..., None, :])


if __name__ == "__main__":
    main(elsewhere=WITHOUT_TRITON if DEVICE == "cuda" else ON_GPUS)
