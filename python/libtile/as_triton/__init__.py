# SPDX-License-Identifier: Apache-2.0
"""`import triton` answered by libtile: `import libtile.as_triton` before the first `import triton`, or
`python -m libtile.as_triton script.py ...` for a script that knows nothing of it.

From then on `triton` and the modules below it are a package of their own (the folder `site`), in this process and in the
interpreters that it starts, which find it through PYTHONPATH. A triton that is installed is not touched. One that is
imported already stays what it is, so that is an ImportError.

`LIBTILE_TRITON_VERSION` is the version that `triton.__version__` says, 3.7 to 3.9; "3.9.0" where it is not set.
"""
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

from . import names
from ..language import _dtypes

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
_PACKAGE = os.path.join(SITE, "triton")
_VERSIONS = ("3.7", "3.8", "3.9")


def version() -> str:
    """What `triton.__version__` is. ValueError: LIBTILE_TRITON_VERSION is none of 3.7 to 3.9."""
    given = os.environ.get("LIBTILE_TRITON_VERSION") or "3.9.0"
    if not given.startswith(_VERSIONS) or not given.replace(".", "").isdigit():
        raise ValueError(f"LIBTILE_TRITON_VERSION is {given!r}; libtile answers for {', '.join(_VERSIONS)}")
    return given if given.count(".") == 2 else given + ".0"


def set_package(name: str) -> None:
    """The package that the reprs of the language's types name: "libtile" or "triton"."""
    _dtypes.package = name


class _Loader:
    """Of a module that the table names (names.py) and that has no file."""

    @staticmethod
    def create_module(spec):
        why = names.refusal(spec.name)
        if why:
            raise ImportError(f"{spec.name} is not there: {why}", name=spec.name)
        return None

    @staticmethod
    def exec_module(module):
        names.fill(module)


class _Finder:
    """Finds `triton`, and below it what has no file."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "triton":
            return spec_from_file_location(name, os.path.join(_PACKAGE, "__init__.py"),
                                           submodule_search_locations=[_PACKAGE])
        # Who imports what is not there is told why; who only asks whether it is there (importlib.util) gets a no.
        if names.refusal(name) and sys._getframe(2).f_globals.get("__name__") == "importlib.util":
            return None
        if name in names.MODULES or names.refusal(name):
            spec = ModuleSpec(name, _Loader, origin=names.__file__, is_package=names.is_package(name))
            spec.has_location = True  # so that the module has a __file__
            return spec
        return None

    @staticmethod
    def invalidate_caches():
        """Nothing is kept."""


def install() -> None:
    """Makes `import triton` ours here and in child interpreters; does nothing the second time.

    ImportError: another triton is imported already.
    """
    there = sys.modules.get("triton")
    if there is not None and _PACKAGE not in getattr(there, "__path__", ()):
        raise ImportError("another triton is imported already, from "
                          f"{getattr(there, '__file__', None)}: import libtile.as_triton before it", name="triton")
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    # A child that multiprocessing spawns takes over sys.path.
    if SITE not in sys.path:
        sys.path.insert(1, SITE)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if SITE not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([SITE, *filter(None, paths)])


install()
