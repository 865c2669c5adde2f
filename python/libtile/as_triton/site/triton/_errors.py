# SPDX-License-Identifier: Apache-2.0
"""Triton's names of what can go wrong. What libtile raises are its own classes, so those stand for Triton's where there is
one; what they say has Triton's words behind libtile's own, since programs look for them.
"""
import linecache
import re

import libtile
from libtile import errors

TritonError = libtile.Error
CompilationError = libtile.CompilationError
CompileTimeAssertionFailure = errors.StaticAssertionError
UnsupportedLanguageConstruct = libtile.UnsupportedError


class InterpreterError(TritonError):
    """Of a kernel that the interpreter runs."""


class PTXASError(TritonError):
    """NVIDIA's assembler, or another of its tools, is not there or fails."""


AutotunerError = errors.AutotunerError
OutOfResources = libtile.OutOfResources

# libtile's message -> the words by which programs know the error in Triton.
_WORDS = [(re.compile(ours), theirs) for ours, theirs in (
    (r"operator \S+ does not take (.*) and (.*)", r"invalid operands of type \1 and \2"),
    (r"/, // and % do not take (\w+) and (\w+), one signed.*",
     r"Cannot use /, // or % with \1 and \2 because they have different signedness"),
    (r"store cannot write through a pointer that is const", "Cannot store to a constant pointer"),
    (r"a conditional expression would be (.*) on one side of the condition and (.*) on the other",
     r"Ternary expression with dynamic condition has inconsistent types \1 and \2"),
    (r"`(\w+)` would be (.*) on one side of the condition and (.*) on the other",
     r"Mismatched type for \1 between then block (\2) and else block (\3)"),
    (r"a function must return one type: (.*) on one path, (.*) on another", r"Return type mismatch: \1 and \2"),
    (r"the result of ([\w.]+) is not used(?:: (.*))?", r"The result of \1 is not being used. \2"),
    (r"too many indices for shape .*", "unsupported tensor index"),
    (r"axis (-?\d+) is outside of a tile with (\d+) ax[ei]s.*", r"invalid axis \1 of \2"),
    (r"expand_dims got axis (\d+) twice", r"duplicate axes, normalized axes = [\1, \1]"),
    (r"the axis of program_id must be 0, 1 or 2, got (-?\d+)", r"program_id axis must be 0, 1, or 2 but got \1"),
    (r"`(\w+)` is constexpr and listed in do_not_specialize", r"\1 marked as constexpr and listed in do_not_specialize"),
    (r"max_num_imprecise_acc must be 0 to (\d+), .* got (\d+)", r"max_num_imprecise_acc (\2) must be <= K (\1)"),
    (r"static assertion failed: the scales of dot_scaled are for runs of one length, got runs of (\d+) in lhs and of (\d+) in rhs",
     r"Operands must have the same scale factor; (lhs: \1 vs rhs: \2)"),
    (r"\w+\(\): early_config_prune leaves no configuration",
     "Autotuner error: No valid autotuner configs after pruning. `early_config_prune` should return at least one config."),
    (r"`(\w+)` is a plain global variable.*", r"Cannot access global variable \1 from within a jit function"),
)]
_PLACE = re.compile(r"(?:\A| *called from )(.+):(\d+):(\d+)(?:: error: .*)?$", re.MULTILINE)


def _in_words(message):
    """Triton's; None: libtile's do."""
    for ours, theirs in _WORDS:
        found = ours.fullmatch(message)
        if found:
            return found.expand(theirs)
    return None


def _place(file, line, column):
    """As Triton says it: lines count from the function's `def`, columns from 0 (the source has no indentation)."""
    lines = linecache.getlines(file)
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip()) if line <= len(lines) else 0
    first = line
    while first > 1 and not (re.match(r"\s*def\b", lines[first - 1]) and (
            first == line or len(lines[first - 1]) - len(lines[first - 1].lstrip()) < indent)):
        first -= 1
    return f"at {line - first + 1}:{column - 1}:"


def _translate(error):
    """Adds the place and the message as Triton writes them. Of an error in a function that a kernel calls, the exception is
    that of the call, and its cause that of the function."""
    words = _in_words(error.message)
    if isinstance(error, OutOfResources):
        error.args = (f"out of resource: {error.name}, Required: {error.required}, Hardware limit: {error.limit}. {error}",)
    elif isinstance(error, AutotunerError) and words:
        error.args = (words,)
    if not isinstance(error, CompilationError):
        return
    text = str(error)
    said = words or error.message
    places = [(file, int(line), int(column)) for file, line, column in _PLACE.findall(text)]
    cause = ValueError(words) if words else None
    for place in places[:-1]:
        inner = type(error)(f"{_place(*place)}\n{said}", said, *place)
        inner.__cause__, cause = cause, inner
    error.__cause__, error.message = cause, said
    where = _place(*places[-1]) + "\n" if places else ""
    error.args = (f"{text}\n\n{where}{said}",)


errors.translate = _translate
