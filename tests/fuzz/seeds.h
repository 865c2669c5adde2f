// SPDX-License-Identifier: Apache-2.0
// What the fuzz of sources mutates: kernels, and the pieces of the language that it puts into them.
#pragma once

namespace libtile::test {

constexpr const char *kKernels = R"(
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)
def softmax(x, y, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + r * n + i, e / tl.sum(e, axis=0), mask=i < n)
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    m = tl.program_id(0) // 3 * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 32)
    a += m[:, None] * n + k[None, :]
    b += k[:, None] * n + m[None, :] % n
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for j in tl.range(0, tl.cdiv(n, 32), num_stages=2):
        acc = tl.dot(tl.load(a, mask=k[None, :] < n - j * 32), tl.load(b), acc)
        a += 32
        b += 32 * n
    tl.store(c + m[:, None] * n + m[None, :], acc.to(tl.float16), mask=(m[:, None] < n) & (m[None, :] < n))
def pick(x, n, D: tl.constexpr):
    if D == 0: return x
    for i in range(n):
        if i > 3 and x < n: return x + i
        elif i == 2: continue
    return pick(x + 1, n, D - 1)
def loops(x, y, o, n, BLOCK: tl.constexpr):
    t = (n, (1, 2.0))
    while t[0] < n or True:
        t = (t[0] + 1, (t[1][0] * 2, t[1][1]))
        for j in tl.static_range(3):
            if t[0] == j: break
        if n > 5: return
        n += 1 if t[0] > 2 else pick(n, j, 3)
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, larger))
def larger(a, b): return max(a, b)
)";
constexpr const char *kNames[] = {"add", "softmax", "matmul", "loops"};


constexpr const char *kPieces[] = {
    "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "+=", "**", "//", "->", ":=", "\n", "\n    ",
    "\n        ", "\t", "\\", "'", "\"", "\"\"\"", "f'{", "#", "0", "1", "-1", "1e400", "0x",
    "99999999999999999999", "1 << 70", "None", "True", "n", "x", "BLOCK", "i", "acc", "tl.",
    "tl.load(", "tl.arange(0, ", "tl.static_range(", "range(", "if ", "else:", "elif n:", "for ",
    "while ", "return ", "break", "continue", "pass", "lambda ", "not ", "and ", " or ", " is ",
    " in ", "del ", "def f():", "class ", "try:", "with ", "import ", "yield ", "await ", "async ",
    "*", "@", "~", "...", ";", "\xC3\xA9", "\xFF", "(n,)", ".to(tl.int8)", "[:, None]", "[None, :]",
    ".T", ".shape[0]", " * 1000000", " ** 99", "16777216", "tl.constexpr", "float('nan')",
    "t = (t, t)", "n = n + n",
};

} // namespace libtile::test
