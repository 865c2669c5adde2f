# SPDX-License-Identifier: Apache-2.0
"""Triton's names, answered by libtile (libtile.as_triton)."""
import os as _os
import sys as _sys

try:
    from libtile import as_triton as _as_triton
except ImportError:  # a child interpreter that finds this folder alone
    _sys.path.append(_os.path.abspath(_os.path.join(__file__, *[_os.pardir] * 5)))
    from libtile import as_triton as _as_triton

_as_triton.set_package("triton")
__version__ = _as_triton.version()
_as_triton.names.fill(_sys.modules[__name__])
