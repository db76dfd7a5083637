"""What of a rescue fits into a budget of bytes: of each log the newest records first. Pure.

A power cut takes the records that were written last. So where not all can be saved, what a log
begins with is left out, and named (R26).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.rescue.results import needed_bytes
from breakglass.services.recovery.rescue.spans import Share, Span

Shares = Mapping[TopicPartition, tuple[Share, ...]]


@dataclass(frozen=True, slots=True)
class UnsavedOffsets:
    """Offsets of one replica that a budget has no room for."""

    broker: int
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        offsets = ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in self.spans)
        return f"offsets {offsets} of b{self.broker}"


def newest_within(
    shares: Shares, budget: int
) -> tuple[
    dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, tuple[UnsavedOffsets, ...]]
]:
    """What of *shares* takes about *budget* bytes, and what is left out of each partition.

    No partition is left out for the sake of a larger one: each gets as many bytes as any other,
    or all that it needs.
    """
    sizes = {partition: needed_bytes(held) for partition, held in shares.items()}
    most = _each(list(sizes.values()), max(0, budget))
    kept: dict[TopicPartition, tuple[Share, ...]] = {}
    left: dict[TopicPartition, tuple[UnsavedOffsets, ...]] = {}
    for partition, held in shares.items():
        if sizes[partition] <= most:
            kept[partition] = held
            continue
        cut = [_newest(share, most / sizes[partition]) for share in held]
        taken = tuple([share for share, _ in cut if share.spans])
        left[partition] = tuple([out for _, out in cut if out.spans])
        if taken:
            kept[partition] = taken
    return kept, left


def _each(sizes: list[int], budget: int) -> float:
    """The most that each of *sizes* may take, so that all take no more than *budget*."""
    left, number = budget, len(sizes)
    for size in sorted(sizes):
        if size * number > left:
            return left / number
        left -= size
        number -= 1
    return max(sizes, default=0)


def _newest(share: Share, part: float) -> tuple[Share, UnsavedOffsets]:
    """The newest *part* of *share*, by offsets, and the rest."""
    wanted = int(share.offsets * part)
    kept: list[Span] = []
    out: list[Span] = []
    for span in reversed(share.spans):
        start = max(span.start, span.end - wanted)
        wanted -= span.end - start
        if start < span.end:
            kept.append(Span(start, span.end))
        if span.start < start:
            out.append(Span(span.start, start))
    return replace(share, spans=tuple(kept[::-1])), UnsavedOffsets(
        share.replica.broker, tuple(out[::-1])
    )
