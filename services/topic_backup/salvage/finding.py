"""Types for what a segment's bytes contain: records with their proof, and unreadable bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from breakglass.services.topic_backup.segment_reader import Placed


class Proof(StrEnum):
    """Why bytes are accepted as a record that was written."""

    COMMITTED = "the segment has the bytes that were committed"
    INDEX = "the index names each record at its place"
    BEHIND_STRAY = "the index names where each record ends, behind stray bytes"
    LAST = "the index names it, and the bytes behind it begin no record"
    SHIFTED = "the index names each record, all of them at another place than it says"
    BETWEEN = "records fill the bytes between two that the index names"
    WALKED = "each record ends where the next begins"


class FoundRecord(NamedTuple):
    """A record with its proof."""

    placed: Placed
    proof: Proof


class UnreadCause(StrEnum):
    """Why bytes contain no record."""

    DOUBLE = "the record before it once more"
    STRAY = "the beginning of the record behind it, as a killed writer leaves it"
    TAIL = "behind the last indexed record"
    DAMAGE = "no record that can be proved"
    CUT = "named by the index and not there"


@dataclass(frozen=True, slots=True)
class UnreadBytes:
    """Bytes of a segment that are not read as a record."""

    position: int
    end: int
    cause: UnreadCause
    start_offset: int
    """The first offset that they may have contained."""
    end_offset: int | None
    """The offset after the last; None: unknown."""
    whole_record: bool = False
    """For a tail: whether it is a complete record that no index entry names."""

    @property
    def size(self) -> int:
        return self.end - self.position

    @property
    def loses(self) -> bool:
        """Whether a record may be missing as a result."""
        return self.cause in (UnreadCause.DAMAGE, UnreadCause.CUT)


Piece: TypeAlias = FoundRecord | UnreadBytes


@dataclass(slots=True)
class ProvenStretch:
    """Consecutive records with the same proof."""

    proof: Proof
    first: int
    """The first record's offset."""
    last: int
    records: int = 1

    def __str__(self) -> str:
        return f"offsets {self.first}..{self.last}, {self.records:,} records: {self.proof}"
