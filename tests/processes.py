# SPDX-License-Identifier: Apache-2.0
"""Scripts that tests run in processes of their own."""
import os
import signal
import subprocess
import sys
import time


def start(path, text, *arguments, environment=None):
    path.write_text(text)
    return subprocess.Popen([sys.executable, str(path), *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=os.environ if environment is None else environment)


def interrupt(process, after):
    """Control-C, so many seconds after the script says that it is ready."""
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)


def finish(process, timeout=60):
    try:
        out, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, (process.returncode, out, errors)
    return out
