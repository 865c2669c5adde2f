# SPDX-License-Identifier: Apache-2.0
"""python -m libtile.as_triton [--version 3.8] SCRIPT ... | -m MODULE ... | -c CODE ...: Python, where `triton` is libtile."""
import os
import runpy
import sys

_USAGE = "usage: python -m libtile.as_triton [--version 3.7|3.8|3.9] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"


def main(arguments):
    if arguments[:1] == ["--version"] and len(arguments) > 1:
        os.environ["LIBTILE_TRITON_VERSION"] = arguments[1]
        arguments = arguments[2:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    from . import version
    version()
    what, *rest = arguments
    if what in ("-m", "-c") and not rest:
        print(_USAGE)
        return 2
    # As the interpreter itself does: the script's folder, or the working one, is the first place of imports.
    sys.path[0] = os.path.dirname(os.path.abspath(what)) if what not in ("-m", "-c") else os.getcwd()
    if what == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))  # noqa: S102
    else:
        sys.argv = arguments
        runpy.run_path(what, run_name="__main__")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        if "LIBTILE_TRITON_VERSION" not in str(error):
            raise
        sys.exit(str(error))
