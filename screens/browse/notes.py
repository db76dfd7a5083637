"""What is said of the branch under the cursor."""

from __future__ import annotations

from collections.abc import Iterator

from screens.browse.branches import Branch
from screens.widgets.facts import Fact
from screens.widgets.status_bar import Part
from services.browse.tree import Figure, PartitionNode, SegmentNode, TopicHeld
from services.model import Unknown
from services.words.figures import count, size_text
from services.words.moments import time_text
from themes.roles import Role


def branch_facts(branch: Branch | None) -> Iterator[Fact]:
    """The sentences about *branch*."""
    if branch is None:
        return
    match branch.node:
        case str():
            yield Fact("Place", (Part(branch.node), *_why(branch)))
        case SegmentNode():
            yield Fact("Segment", tuple(_segment(branch.node)))
            yield Fact("File", (Part(f"{branch.node.prefix}_records"),))
        case PartitionNode():
            yield Fact("Partition", tuple(_partition(branch.node)))
            yield Fact("Address", (Part(branch.node.address),))
        case _:
            yield Fact("Topic", (Part(branch.node.folder), *_why(branch)))
            if branch.held is not None:
                yield Fact("Verified", (_verified(branch.held),))


def _why(branch: Branch) -> Iterator[Part]:
    if branch.note == "reading":
        yield Part("  reading", Role.RUNNING)
    elif branch.note:
        yield Part(f"  ? {branch.note}", Role.UNKNOWN)


def _segment(one: SegmentNode) -> Iterator[Part]:
    yield Part(
        f"offsets {count(one.first_offset)} to {count(one.last_offset)}, {count(one.records)} "
        f"records, {size_text(one.bytes)}"
    )
    if isinstance(one.first_ms, int):
        yield Part(f", {time_text(one.first_ms)} to {time_text(one.last_ms)}")
    if isinstance(one.lost, int) and one.lost:
        yield Part(f", {one.lost:,} offsets lost", Role.LOST)
    if one.note:
        yield Part(f"; {one.note}", Role.UNKNOWN)
    yield from _unknown(one.records)


def _partition(one: PartitionNode) -> Iterator[Part]:
    number = len(one.segments)
    yield Part(
        f"offsets {count(one.first_offset)} to {count(one.last_offset)}, {count(one.records)} "
        f"records, {size_text(one.bytes)} in {number:,} segment{'s' * (number != 1)}"
    )
    if one.gone:
        yield Part(f"; {one.gone:,} of them gone", Role.FAILED)
    yield from _unknown(one.records)


def _unknown(value: Figure) -> Iterator[Part]:
    if isinstance(value, Unknown):
        yield Part(f"; ? {value.reason}", Role.UNKNOWN)


def _verified(held: TopicHeld) -> Part:
    last = held.verified
    if held.commit is None:
        return Part("made by Kafka Backup: it has no manifest to be verified by", Role.UNKNOWN)
    if last is None:
        return Part("never", Role.WAITING)
    words = "whole" if last.whole else "DAMAGED or different"
    role = Role.VERIFIED if last.whole else Role.FAILED
    older = "" if last.commit == held.commit else f"; commit {last.commit} of {held.commit}"
    return Part(f"{words} at {time_text(last.at_ms)}, by {last.how}{older}", role)
