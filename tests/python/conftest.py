# SPDX-License-Identifier: Apache-2.0
"""`pytest --device interpreter tests/python`: every launch of the tests with arrays on the CPU is interpreted, in the
processes that they start too. What libtile defines and Triton leaves open is no fault then, since tests look at it."""
import os


def pytest_addoption(parser):
    parser.addoption("--device", choices=["interpreter"], help="what runs the launches with arrays on the CPU")


def pytest_configure(config):
    if config.getoption("--device") == "interpreter":
        os.environ.update(LIBTILE_INTERPRET="1", LIBTILE_INTERPRETER_PORTABLE="0")
