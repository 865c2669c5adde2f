# SPDX-License-Identifier: Apache-2.0
"""The page of ./dev demo: a card for each lesson, with its plots and the source of its kernels. One file, no scripts,
nothing from elsewhere; light or dark as the reader's system is."""
import ast
import html
import io
import keyword
import math
import re
import tokenize

# Of each line of a plot its class; others take those that are left.
CLASSES = {"libtile": "ours", "NumPy": "first", "torch": "second", "Triton": "third"}

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf7; --card: #ffffff; --text: #1d2229; --soft: #5d6673; --line: #e3e1da;
  --ours: #1f5fd0; --first: #8b8578; --second: #d0661f; --third: #2b8a57; --wrong: #c0262d; --code: #f6f5f0;
  --keyword: #8a3aa8; --string: #2b7a4b; --comment: #75797f; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1b1f26; --text: #e4e7eb; --soft: #98a2b0;
  --line: #2d333d; --ours: #7fb0ff; --first: #a39d90; --second: #f0a05e; --third: #6fcf97; --wrong: #ff7b7b;
  --code: #15191f; --keyword: #d3a4ea; --string: #8fd3a8; --comment: #848d99; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", Roboto,
  "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 3.2rem 1.6rem 4rem }
h1 { font-size: 2.3rem; letter-spacing: -.02em; margin: 0 0 .4rem; line-height: 1.15 }
header p { max-width: 46rem; margin: .3rem 0; color: var(--soft) }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 500px), 1fr)); gap: 1.4rem;
  margin-top: 2.2rem; align-items: start }
article { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.3rem 1.4rem 1.1rem;
  min-width: 0 }
h2 { font-size: 1.12rem; line-height: 1.3; margin: 0 0 .35rem; display: flex; gap: .6rem }
h2 span { color: var(--soft); font-weight: 400; font-variant-numeric: tabular-nums }
article > p { margin: 0 0 .9rem; color: var(--soft); font-size: .95rem; line-height: 1.5 }
figure { margin: 0 0 .8rem }
figcaption { font-size: .86rem; color: var(--soft); display: flex; flex-wrap: wrap; justify-content: space-between;
  gap: .1rem 1rem; margin-bottom: .2rem }
figcaption b { color: var(--text); font-weight: 600 }
article:has(details[open]) { grid-column: 1 / -1 }
article:has(details[open]) figure { max-width: 560px }
svg { display: block; width: 100%; height: auto }
svg text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums }
svg .grid { stroke: var(--line) } svg .axis { stroke: var(--soft) }
svg path { fill: none; stroke-width: 2; stroke-linejoin: round }
.ours { stroke: var(--ours) } .first { stroke: var(--first) } .second { stroke: var(--second) }
.third { stroke: var(--third) }
svg circle { fill: var(--card); stroke-width: 2 }
svg text.name { font-size: 13px; font-weight: 600; stroke: none }
text.ours { fill: var(--ours) } text.first { fill: var(--first) } text.second { fill: var(--second) }
text.third { fill: var(--third) }
details { border-top: 1px solid var(--line); padding-top: .7rem; font-size: .9rem }
summary { cursor: pointer; color: var(--soft) }
pre { background: var(--code); border-radius: 8px; padding: .9rem 1rem; overflow-x: auto; margin: .7rem 0 0;
  font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; tab-size: 4 }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace }
pre .k { color: var(--keyword) } pre .s { color: var(--string) } pre .c { color: var(--comment) }
.wrong { color: var(--wrong) }
"""


def page(title, paragraphs, cards):
    """The page as a text; what is given is HTML already."""
    head = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return ("<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
            f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main><header><h1>{title}</h1>{head}</header>"
            f"<div class='cards'>\n{''.join(cards)}</div></main></body></html>\n")


def card(number, title, sentence, figures, source):
    """A lesson. figures: HTML; source: the kernels' text."""
    return (f"<article><h2><span>{number}</span>{prose(title)}</h2><p>{prose(sentence)}</p>{''.join(figures)}"
            f"<details><summary>The kernels</summary><pre>{highlighted(source)}</pre></details></article>\n")


def figure(device, note, x_name, names, unit, rows):
    """A plot of rows [x, a number for each name]; note: HTML on its right."""
    return (f"<figure><figcaption><span><b>{html.escape(device)}</b>: {html.escape(unit)} by {html.escape(x_name)}</span>"
            f"<span>{note}</span></figcaption>{plot(names, unit, rows)}</figure>")


def failure(device, output):
    """In place of a figure: what the lesson printed at last."""
    return (f"<p class='wrong'>{html.escape(device)}: failed</p>"
            f"<pre>{html.escape(output[-2000:], quote=False)}</pre>")


def prose(text):
    """A docstring's words as HTML: `code` and *emphasis*."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    return re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<em>\1</em>", text)


def lesson_text(path):
    """(title, first sentence, text of its kernels) of a lesson's file."""
    text = path.read_text()
    tree = ast.parse(text)
    first, *paragraphs = ast.get_docstring(tree).split("\n\n")
    title = first.split(": ", 1)[1].rstrip(".")
    sentence = re.split(r"(?<=\.)\s", " ".join(paragraphs[0].split()))[0]
    lines = text.splitlines()
    kernels = [node for node in tree.body if isinstance(node, ast.FunctionDef)
               and any(ast.unparse(decorator).startswith("libtile.jit") for decorator in node.decorator_list)]
    sources = ["\n".join(lines[node.decorator_list[0].lineno - 1:node.end_lineno]) for node in kernels]
    return title[0].upper() + title[1:], sentence, "\n\n\n".join(sources)


def highlighted(source):
    """Python as HTML with its keywords, strings and comments marked."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    out, end = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = {tokenize.COMMENT: "c", tokenize.STRING: "s"}.get(token.type)
        if token.type == tokenize.NAME and keyword.iskeyword(token.string):
            kind = "k"
        if kind:
            begin = starts[token.start[0] - 1] + token.start[1]
            out.append(html.escape(source[end:begin], quote=False))
            end = starts[token.end[0] - 1] + token.end[1]
            out.append(f"<span class='{kind}'>{html.escape(source[begin:end], quote=False)}</span>")
    return "".join(out) + html.escape(source[end:], quote=False)


# ---- plots
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 236, 46, 12, 26


def short(number):
    """65536 as 64K, 1500 as 1,500."""
    for size, unit in ((1 << 20, "M"), (1 << 10, "K")):
        if number >= 16 * 1024 and number % size == 0:
            return f"{int(number) // size}{unit}"
    return f"{number:,.0f}"


def ticks(top):
    """Round numbers from 0 to the first one that is not below top, four to six of them."""
    step = 10.0 ** math.floor(math.log10(top))
    step *= min((f for f in (0.1, 0.2, 0.25, 0.5, 1, 2) if top / (step * f) <= 5), default=2)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def classes(names):
    """A class for each line, those that are known by their names first."""
    left = [c for c in CLASSES.values() if c not in {CLASSES.get(name) for name in names}]
    return [CLASSES[name] if name in CLASSES else left.pop(0) for name in names]


def apart(places, least):
    """The places in ascending order moved so that neighbours are at least so far apart, and none beyond the plot."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved, floor = list(places), TOP
    for i in order:
        floor = moved[i] = max(places[i], floor)
        floor += least
    ceiling = HEIGHT - BOTTOM
    for i in reversed(order):
        ceiling = moved[i] = min(moved[i], ceiling)
        ceiling -= least
    return moved


def plot(names, unit, rows):
    labels = [name.removeprefix("libtile, ") for name in names]
    right = WIDTH - 20 - 8 * max(map(len, labels))
    xs = [row[0] for row in rows]
    is_log = xs[-1] > 8 * xs[0]
    along = [math.log(x) if is_log else x for x in xs]
    marks = ticks(max(value for row in rows for value in row[1:]))

    def across(i):
        span = along[-1] - along[0]
        return LEFT + (right - LEFT) * ((along[i] - along[0]) / span if span else 0.5)

    def up(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / marks[-1]

    parts = [grid(marks, up, right), x_axis(xs, across)]
    ends = apart([up(value) for value in rows[-1][1:]], 16)
    for line, (name, kind) in enumerate(zip(names, classes(names))):
        points = [(across(i), up(row[line + 1]), row) for i, row in enumerate(rows)]
        parts.append(f"<path class='{kind}' d='M{' L'.join(f'{x:.1f} {y:.1f}' for x, y, _ in points)}'/>")
        parts += [f"<circle class='{kind}' cx='{x:.1f}' cy='{y:.1f}' r='3'><title>{html.escape(name)}, "
                  f"{row[0]:,.0f}: {row[line + 1]:.3g} {html.escape(unit)}</title></circle>" for x, y, row in points]
        parts.append(f"<text class='name {kind}' x='{right + 10:.1f}' y='{ends[line] + 4:.1f}'>"
                     f"{html.escape(labels[line])}</text>")
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>{''.join(parts)}</svg>"


def grid(marks, up, right):
    digits = next(d for d in range(10) if math.isclose(round(marks[1], d), marks[1], rel_tol=1e-9))
    out = []
    for mark in marks:
        kind = "axis" if mark == 0 else "grid"
        out.append(f"<line class='{kind}' x1='{LEFT}' x2='{right}' y1='{up(mark):.1f}' y2='{up(mark):.1f}'/>"
                   f"<text x='{LEFT - 8}' y='{up(mark) + 4:.1f}' text-anchor='end'>{mark:,.{digits}f}</text>")
    return "".join(out)


def x_axis(xs, across):
    out, free = [], 0
    for i, x in enumerate(xs):
        if across(i) >= free:
            out.append(f"<text x='{across(i):.1f}' y='{HEIGHT - 6}' text-anchor='middle'>{short(x)}</text>")
            free = across(i) + 38
    return "".join(out)
