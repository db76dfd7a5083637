"""Asks which brokers are gone: their disks are lost, or came back empty."""

from __future__ import annotations

from collections.abc import Collection

from breakglass.screens.widgets.prompt import Prompt
from breakglass.services.words.broker_ids import brokers_in

ABOUT = (
    "Their ids, with blanks or commas between. They are not waited for, and starting them is not "
    "proposed. This changes what is concluded, not the cluster; an empty line takes it back."
)


def gone_prompt(gone: Collection[int]) -> Prompt:
    """Begins with those declared *gone* so far; a broker that is not registered may be named."""
    return Prompt(
        "Which brokers never come back with what they held?",
        about=ABOUT,
        value=" ".join(map(str, gone)),
        fault=fault_in,
    )


def fault_in(text: str) -> str:
    """Why *text* names no brokers; empty if it does, or is empty."""
    try:
        brokers_in(text)
    except ValueError:
        return "Name brokers by their ids: 4 7."
    return ""
