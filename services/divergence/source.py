"""The seam to whatever is compared: a stream of entries, ordered by their address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from breakglass.services.divergence.byte_source import Tape
from breakglass.services.divergence.content import ROWS, Keep
from breakglass.services.divergence.entry import Item

CHUNK_BYTES = 256 * 1024


class Abandoned(Exception):
    """Nobody waits for this reading any more."""


def _go_on() -> None:
    """Nobody objects."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one piece of a source is read, and who may end it."""

    keep: Keep = ROWS
    chunk_bytes: int = CHUNK_BYTES
    """What is asked for at once."""
    plain: bool = False
    """Of a log's bytes only what belongs to no transaction: the other side has nothing else."""
    go_on: Callable[[], None] = _go_on
    """Called before every request and every batch; raises `Abandoned` to end the reading."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The addresses ``[start, end)``."""

    start: int
    end: int

    def within(self, start: int, end: int) -> Extent:
        """The part of ``[start, end)`` that this covers; empty where it covers none."""
        low = max(self.start, start)
        return Extent(low, max(low, min(self.end, end)))


class Source(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str:
        """As tables have it: ``b1``."""

    @property
    def extent(self) -> Extent:
        """Where its entries begin and end."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """Everything it has in ``[start, end)``, by address; nothing is read ahead of the caller.

        Never raises for what cannot be read: that is an `UnreadableRange` in its place, and the
        rest follows where the source goes on.
        """

    def tape(self, start: int, end: int, reading: Reading) -> Tape | None:
        """The bytes of its entries in ``[start, end)``; None where it has none to compare."""
