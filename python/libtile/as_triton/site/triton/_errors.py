# SPDX-License-Identifier: Apache-2.0
"""Triton's names of what can go wrong. What libtile raises are its own classes, so those stand for Triton's where there is
one."""
import libtile
from libtile import errors

TritonError = libtile.Error
CompilationError = libtile.CompilationError
CompileTimeAssertionFailure = errors.StaticAssertionError
UnsupportedLanguageConstruct = libtile.UnsupportedError


class InterpreterError(TritonError):
    """Of a kernel that the interpreter runs."""


class PTXASError(TritonError):
    """The assembler refuses what the compiler made."""


class AutotunerError(TritonError):
    """No configuration is left."""


class _OutOfResources(TritonError):
    """A kernel needs more than the device has: `required` of `name`, where `limit` is there."""

    def __init__(self, required, limit, name):
        super().__init__(f"out of resource: {name}, required: {required}, limit: {limit}. Smaller blocks or fewer stages "
                         "(num_stages) may help.")
        self.required, self.limit, self.name = required, limit, name

    def __reduce__(self):
        return type(self), (self.required, self.limit, self.name)


OutOfResources = getattr(errors, "OutOfResources", None) or _OutOfResources
