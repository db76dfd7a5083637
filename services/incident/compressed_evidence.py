"""Evidence kept cold: compressed by the chunk, thawed when one of its partitions is looked at.

The evidence of 100,000 partitions takes hundreds of megabytes as objects and about ten when
frozen. It never leaves the process, so it is pickled.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from breakglass.services import model
from breakglass.services.model import PartitionEvidence

CHUNK = 64
"""Partitions that are frozen together: what is thawed to look at one of them."""
THAWED_CHUNKS = 8
"""How many stay at hand: a cursor moves among neighbours."""
FAST = 1
"""zlib's level: the higher ones save little and take several times as long."""


class EvidenceChunk:
    """The evidence of some partitions, frozen. Equal to itself alone."""

    __slots__ = ("_frozen", "read_at_ms", "turn")

    def __init__(
        self, evidence: Sequence[PartitionEvidence], read_at_ms: int, turn: int = 0
    ) -> None:
        self._frozen = zlib.compress(_pickled(tuple(evidence)), FAST)
        self.read_at_ms = read_at_ms
        """When the replicas were read, in milliseconds of the epoch."""
        self.turn = turn
        """Which reading of everything it is of: clocks may be set back."""

    def __len__(self) -> int:
        """Bytes held."""
        return len(self._frozen)

    def evidence(self, place: int) -> PartitionEvidence:
        """The evidence of the partition at *place*."""
        return _thawed(self)[place]

    def thaw(self) -> tuple[PartitionEvidence, ...]:
        """All of it, as it was given."""
        held: tuple[PartitionEvidence, ...] = pickle.loads(  # noqa: S301 -- our own bytes
            zlib.decompress(self._frozen)
        )
        return held


@lru_cache(THAWED_CHUNKS)
def _thawed(chunk: EvidenceChunk) -> tuple[PartitionEvidence, ...]:
    return chunk.thaw()


def chunks_of(
    evidence: Sequence[PartitionEvidence], read_at_ms: int, turn: int = 0
) -> Iterator[tuple[EvidenceChunk, Sequence[PartitionEvidence]]]:
    """Freeze *evidence*, a chunk at a time; each with what went into it."""
    for start in range(0, len(evidence), CHUNK):
        together = evidence[start : start + CHUNK]
        yield EvidenceChunk(together, read_at_ms, turn), together


def _pickled(evidence: tuple[PartitionEvidence, ...]) -> bytes:
    frozen = io.BytesIO()
    pickler = pickle.Pickler(frozen, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCTIONS
    pickler.dump(evidence)
    return frozen.getvalue()


def _by_fields(value_class: type[Any]) -> Callable[[Any], tuple[type[Any], tuple[Any, ...]]]:
    """How a value is taken apart: its fields are its constructor's arguments."""
    names = [one.name for one in fields(value_class)]
    if len(names) == 1:
        (only,) = names
        return lambda value: (value_class, (getattr(value, only),))
    values = attrgetter(*names)
    return lambda value: (value_class, values(value))


_REDUCTIONS: dict[type[Any], Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    **{
        one: _by_fields(one)
        for one in vars(model).values()
        if isinstance(one, type) and is_dataclass(one)
    },
}
"""For all shared values: what dataclasses do by themselves to be pickled takes several times as
long."""
