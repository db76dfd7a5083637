"""What an execution writes down: the part of the journal that it needs."""

from __future__ import annotations

from typing import Any, Protocol

from services.journal_view import Items


class Record(Protocol):
    """The journal, as far as an execution needs it: each line is on disk when this returns."""

    def request(self, step: str, items: Items, **details: Any) -> int: ...
    def outcome(self, request: int, items: Items, **details: Any) -> int: ...
    def note(self, text: str, **details: Any) -> int: ...
