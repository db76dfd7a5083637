"""What is found in the bytes of one segment: records with their proof, and what is no record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from breakglass.services.topic_backup.segment_reader import Placed


class Proof(StrEnum):
    """Why the bytes of a record are believed to be a record that was written."""

    COMMITTED = "the segment has the bytes that were committed"
    INDEX = "the index names each record at its place"
    BEHIND_STRAY = "the index names where each record ends, behind stray bytes"
    SHIFTED = "the index names each record, all of them at another place than it says"
    BETWEEN = "records fill the bytes between two that the index names"
    WALKED = "each record ends where the next begins"


class FoundRecord(NamedTuple):
    """A record, and why it is believed."""

    placed: Placed
    proof: Proof


class UnreadCause(StrEnum):
    """What bytes without a record are."""

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
    """The first offset that they may have held."""
    end_offset: int | None
    """One past the last; None: nobody knows."""
    whole_record: bool = False
    """Of a tail: a whole record lies there, which no index entry names."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.position

    @property
    def loses(self) -> bool:
        """Whether a record may be missing for it."""
        return self.cause in (UnreadCause.DAMAGE, UnreadCause.CUT)


Piece: TypeAlias = FoundRecord | UnreadBytes


@dataclass(slots=True)
class ProvenStretch:
    """Records that follow each other with the same proof."""

    proof: Proof
    first: int
    """Offset."""
    last: int
    records: int = 1

    def __str__(self) -> str:
        return f"offsets {self.first}..{self.last}, {self.records:,} records: {self.proof}"
