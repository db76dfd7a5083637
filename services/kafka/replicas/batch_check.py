"""Whether the record batches that a broker sends are whole and follow each other. Pure.

The CRC-32C of a batch covers its attributes and everything after them. What stands before (base
offset, length, leader epoch, magic) is held against the batches around it and the log's epochs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from breakglass.services.model import EpochHistory, Unknown
from breakglass.services.topic_backup.batch_header import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
)

_LENGTH = struct.Struct(">qi")
"""BaseOffset, BatchLength."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the batches of one log must agree with."""

    log_end: int
    gapless: bool
    """Every offset has a record, as in a topic that is not compacted."""
    epochs: EpochHistory | Unknown

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote *offset*, if that is known."""
        return None if isinstance(self.epochs, Unknown) else self.epochs.epoch_at(offset)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far batches are whole."""

    position: int
    """One past the last whole offset."""
    epoch: int = -1
    """Of the last whole batch."""
    begun: bool = False
    """A batch was read: the next one follows it."""
    before: int = 0
    """Where the last whole batch begins."""
    corrupt_at: int | None = None
    damage: str = ""
    cut: bool = False
    """The bytes end within a batch."""


def check_batches(data: bytes, reached: Reached, bound: int, expected: Expected) -> Reached:
    """Follow on from *reached* through *data*, the answer to a Fetch from that position.

    Ends at the offset *bound*, or before the first batch that is not whole. One that is cut off
    at the end of *data* is `cut` and no damage.
    """
    at, size, now = 0, len(data), reached
    while at + MAGIC_AT < size and now.position < bound:
        _, length = _LENGTH.unpack_from(data, at)
        if data[at + MAGIC_AT] != MAGIC:
            return _corrupt(now, f"it claims message format {data[at + MAGIC_AT]}")
        if LENGTH_END + length < BATCH_HEADER.size:
            return _corrupt(now, f"it claims {LENGTH_END + length} bytes")
        end = at + LENGTH_END + length
        if end > size:
            break
        now = _batch(data, at, end, now, expected)
        if now.corrupt_at is not None:
            return now
        at = end
    return Reached(now.position, now.epoch, now.begun, now.before, cut=at < size)


def _batch(data: bytes, at: int, end: int, now: Reached, expected: Expected) -> Reached:
    """*now* with one more batch, which is ``data[at:end]``."""
    import google_crc32c

    fields = BATCH_HEADER.unpack_from(data, at)
    base, epoch, crc, last_delta, count = fields[0], fields[2], fields[4], fields[6], fields[12]
    if google_crc32c.value(data[at + ATTRIBUTES_AT : end]) != crc:
        return _corrupt(now, "its CRC differs")
    if last_delta < 0 or not 0 <= count <= last_delta + 1:
        return _corrupt(now, f"it claims {count} records over {last_delta + 1} offsets")
    following = base + last_delta + 1
    misplaced = _misplaced(base, following, now, expected)
    if misplaced is not None:
        return misplaced
    written = expected.epoch_at(max(base, now.position))
    if epoch < now.epoch or (written is not None and epoch > written):
        return _corrupt(now, f"it claims leader epoch {epoch}")
    return Reached(following, epoch, True, now.position)


def _misplaced(base: int, following: int, now: Reached, expected: Expected) -> Reached | None:
    """Where a batch of the offsets ``[base, following)`` cannot stand; None where it can."""
    claims = f"it claims the offsets {base} to {following - 1}"
    if base < now.position and now.begun and not expected.gapless:
        # Among gaps the one before may have run ahead: then that one is damaged.
        return Reached(now.position, now.epoch, now.begun, now.before, now.before, claims)
    behind = following <= now.position or (base < now.position and now.begun)
    if behind or following > expected.log_end:
        return _corrupt(now, claims)
    if base > now.position and expected.gapless:
        return _corrupt(now, f"the batch after it claims the offset {base}")
    return None


def _corrupt(now: Reached, damage: str) -> Reached:
    return Reached(now.position, now.epoch, now.begun, now.before, now.position, damage)
