"""Asks which brokers are gone: their disks are lost, or came back empty."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.binding import Binding, BindingType

from breakglass.screens.widgets.dialog import Field, Prompt
from breakglass.services.words.broker_ids import brokers_in

ABOUT = (
    "Broker ids, separated by blanks or commas. Breakglass stops waiting for these brokers and "
    "does not propose to start them. This changes the verdicts, not the cluster; an empty line "
    "undoes it."
)


class GonePrompt(Prompt):
    """Begins with those declared *gone* so far, and offers those that are *silent*.

    A broker that is not registered may be named.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *Prompt.BINDINGS,
        Binding("tab", "fill", "Those that do not answer", priority=True),
    ]

    def __init__(self, gone: Collection[int], silent: Collection[int]) -> None:
        self._silent = _written(silent)
        offered = f" Brokers that do not answer: {self._silent}." if silent else ""
        super().__init__(
            "Which brokers will never come back with their data?",
            about=f"{ABOUT}{offered}",
            value=_written(gone),
            fault=fault_in,
        )

    def action_fill(self) -> None:
        self.query_one(Field).value = self._silent


def _written(brokers: Collection[int]) -> str:
    return " ".join(map(str, brokers))


def fault_in(text: str) -> str:
    """Why *text* names no brokers; empty if it does, or is empty."""
    try:
        brokers_in(text)
    except ValueError:
        return "Name brokers by their ids: 4 7."
    return ""
