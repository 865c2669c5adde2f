# SPDX-License-Identifier: Apache-2.0
"""The kernels of lesson 13 one by one against NumPy in float64, and its whole model with small random weights."""
import importlib
import math
import xml.etree.ElementTree as xml
from types import SimpleNamespace

import numpy as np
import pytest
from spine import DEVICES, F16, F32, ROUNDING

import libtile

lesson, minilm, search = (importlib.import_module(name) for name in ("lesson", "minilm", "13_semantic_search"))
on_each_device = pytest.mark.parametrize("device", DEVICES)
in_each_float = pytest.mark.parametrize("dtype", [F32, F16], ids=["f32", "f16"])
LENGTHS = [1, 15, 16, 17, 40]
WIDTH = 64


def exact(array):
    return array.astype(np.float64)


@pytest.fixture
def normal():
    rng = np.random.default_rng(0)
    return lambda dtype, *shape: rng.standard_normal(shape).astype(dtype)


def assert_near(out, want, dtype, size=1.0):
    """size: of what is added up on the way."""
    np.testing.assert_allclose(exact(lesson.host(out)), want, rtol=2 * ROUNDING[dtype], atol=size * 64 * ROUNDING[F32])


def norm_of(normal, dtype):
    return SimpleNamespace(weight=normal(dtype, WIDTH), bias=normal(dtype, WIDTH))


def exact_norm(x, norm):
    return minilm.numpy_norm(x, SimpleNamespace(weight=exact(norm.weight), bias=exact(norm.bias)))


@on_each_device
@in_each_float
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_embed_looks_up_and_normalises(device, dtype, rows, normal):
    words, places, norm = normal(dtype, 50, WIDTH), normal(dtype, 20, WIDTH), norm_of(normal, dtype)
    tokens, positions = (np.arange(1, rows + 1) * 17 % 50).astype(np.int32), (np.arange(rows) * 7 % 20).astype(np.int32)
    *inputs, out = lesson.place(device, tokens, positions, words, places, norm.weight, norm.bias,
                                lesson.unwritten((rows, WIDTH), dtype))
    search.embed[(libtile.cdiv(rows, 4),)](*inputs, out, rows, minilm.EPS, WIDTH=WIDTH, ROWS=4)
    assert_near(out, exact_norm(exact(words[tokens]) + exact(places[positions]), norm), dtype)


@on_each_device
@in_each_float
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_layer_norm(device, dtype, rows, normal):
    x, norm = normal(dtype, rows, WIDTH), norm_of(normal, dtype)
    *inputs, out = lesson.place(device, x, norm.weight, norm.bias, lesson.unwritten((rows, WIDTH), dtype))
    search.layer_norm[(libtile.cdiv(rows, 4),)](*inputs, out, rows, minilm.EPS, WIDTH=WIDTH, ROWS=4)
    assert_near(out, exact_norm(exact(x), norm), dtype)


@on_each_device
@in_each_float
@pytest.mark.parametrize("rows", [1, 16, 70])
@pytest.mark.parametrize("fused", ["bias", "gelu", "residual"])
def test_linear_with_what_is_fused(device, dtype, rows, fused, normal):
    k, n, block_n = 128, 96, 32
    x, weight, bias, residual = normal(dtype, rows, k), normal(dtype, k, n), normal(dtype, n), normal(dtype, rows, n)
    strips = np.ascontiguousarray(weight.reshape(k, n // block_n, block_n).swapaxes(0, 1))
    x_, strips, bias_, residual_, out = lesson.place(device, x, strips, bias, residual, lesson.unwritten((rows, n), dtype))
    search.linear[(n // block_n, libtile.cdiv(rows, 32))](
        x_, strips, bias_, residual_ if fused == "residual" else None, out, rows, n, k,
        ACTIVATION=search.gelu if fused == "gelu" else None, BLOCK_M=32, BLOCK_N=block_n, BLOCK_K=64)
    want = exact(x) @ exact(weight) + exact(bias)
    want = {"bias": want, "gelu": minilm.numpy_gelu(want), "residual": want + exact(residual)}[fused]
    assert_near(out, want, dtype, size=math.sqrt(k))


@on_each_device
@in_each_float
def test_attention_keeps_to_its_sentence(device, dtype, normal):
    heads, head, n = 2, WIDTH // 2, sum(LENGTHS)
    qkv, starts = normal(dtype, n, 3 * WIDTH), np.cumsum([0, *LENGTHS]).astype(np.int32)
    places = lesson.place(device, qkv, starts, lesson.unwritten((n, WIDTH), dtype))
    search.attention[(heads, len(LENGTHS))](*places, head**-0.5, WIDTH=WIDTH, HEAD=head, BLOCK=16)
    want = np.empty((n, WIDTH))
    for begin, end in zip(starts, starts[1:]):
        q, k, v = exact(qkv[begin:end]).reshape(-1, 3, heads, head).transpose(1, 2, 0, 3)
        p = np.exp(q @ k.swapaxes(1, 2) * head**-0.5)
        want[begin:end] = (p / p.sum(axis=2, keepdims=True) @ v).swapaxes(0, 1).reshape(-1, WIDTH)
    # The weights of the values are rounded too.
    assert_near(places[-1], want, dtype, size=1.0 if dtype == F32 else 2 * ROUNDING[F16] / ROUNDING[F32] / 64)


@on_each_device
@in_each_float
def test_pool_is_the_mean_of_each_sentence(device, dtype, normal):
    x, starts = normal(dtype, sum(LENGTHS), WIDTH), np.cumsum([0, *LENGTHS]).astype(np.int32)
    *inputs, out = lesson.place(device, x, starts, lesson.unwritten((len(LENGTHS), WIDTH)))
    search.pool[(len(LENGTHS),)](*inputs, out, WIDTH=WIDTH, BLOCK=16)
    means = np.array([exact(x[begin:end]).mean(axis=0) for begin, end in zip(starts, starts[1:])])
    assert_near(out, means / np.linalg.norm(means, axis=1, keepdims=True), F32)


@on_each_device
def test_similarity_of_each_line_to_each_query(device, normal):
    lines, queries = normal(F32, 37, WIDTH), normal(F32, 3, WIDTH)
    *inputs, out = lesson.place(device, lines, queries, lesson.unwritten((3, 37)))
    search.similarity[(libtile.cdiv(37, 16), 3)](*inputs, out, 37, WIDTH=WIDTH, BLOCK=16)
    assert_near(out, exact(queries) @ exact(lines).T, F32, size=math.sqrt(WIDTH))


@on_each_device
def test_a_sentence_means_the_same_in_every_batch(device):
    weights = minilm.small()
    model = search.Model(weights, device)
    tokens = [minilm.random_tokens(length) for length in LENGTHS]
    tolerance = 1e-5 if device == "cpu" else 5e-3
    want = minilm.by_numpy(weights, tokens)
    for size in (1, 2, len(tokens)):
        np.testing.assert_allclose(model.embeddings(tokens, size=size), want, rtol=0, atol=tolerance)
    alike = model.similarities(model.embeddings(tokens), model.embeddings(tokens[1:3]))
    np.testing.assert_array_equal(alike.argmax(axis=1), [1, 2])


def test_the_text_has_topics_of_ten_lines():
    lines, topics = minilm.sentences()
    assert len(lines) == len(set(lines)) >= 300 and all(topics.count(topic) == 10 for topic in topics)
    assert set(search.QUERIES.values()) <= set(topics)


def test_a_heat_map_stays_within_its_picture():
    picture = xml.fromstring(lesson.heat_map(["one", "two", "three"], [[1, 0.5, -0.1], [0.5, 1, 0], [-0.1, 0, 1]]))
    left, top, width, height = map(float, picture.get("viewBox").split())
    cells = list(picture.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(cells) == 9 and len(list(picture.iter("{http://www.w3.org/2000/svg}text"))) == 6
    for cell in cells:
        assert left <= float(cell.get("x")) and float(cell.get("x")) + float(cell.get("width")) <= left + width
        assert top <= float(cell.get("y")) and float(cell.get("y")) + float(cell.get("height")) <= top + height
        assert 0 <= float(cell.get("fill-opacity")) <= 1
