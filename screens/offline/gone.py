"""Asks which brokers are gone: their disks are lost, or came back empty."""

from __future__ import annotations

import re
from collections.abc import Collection

from screens.widgets.prompt import Prompt

ABOUT = (
    "Their ids, with blanks between. They are not waited for, and starting them is not proposed. "
    "This changes what is concluded, not the cluster; an empty line takes it back."
)


def gone_prompt(gone: Collection[int]) -> Prompt:
    """Begins with those declared *gone* so far; a broker that is not registered may be named."""
    return Prompt(
        "Which brokers never come back with what they held?",
        about=ABOUT,
        value=" ".join(map(str, gone)),
        fault=fault_in,
    )


def brokers_in(text: str) -> tuple[int, ...]:
    """The ids in *text*, as ``4 7``, ``b4, b7``. Raises ValueError where something is none."""
    words = [one for one in re.split(r"[\s,]+", text) if one]
    return tuple([int(one.removeprefix("b")) for one in words])


def fault_in(text: str) -> str:
    """Why *text* names no brokers; empty if it does, or is empty."""
    try:
        negative = any(one < 0 for one in brokers_in(text))
    except ValueError:
        negative = True
    return "Name brokers by their ids: 4 7." if negative else ""
