"""Asks which brokers are gone: their disks are lost, or came back empty."""

from __future__ import annotations

from collections.abc import Collection

from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.words.broker_ids import brokers_in

ABOUT = (
    "Broker ids, separated by blanks or commas. Breakglass stops waiting for these brokers and "
    "does not propose to start them. This changes the verdicts, not the cluster; an empty line "
    "undoes it."
)


def gone_prompt(gone: Collection[int]) -> Prompt:
    """Begins with those declared *gone* so far; a broker that is not registered may be named."""
    return Prompt(
        "Which brokers will never come back with their data?",
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
