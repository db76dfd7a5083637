"""Counts what a function has Python do: a measure of its work that no other program disturbs."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(act: Callable[[], object]) -> int:
    """How many functions of Python are called while *act* runs, comparisons of values included."""
    called = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return called
