"""What is said of the branch under the cursor."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.screens.browse.branches import Branch
from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.browse.tree import Figure, PartitionNode, SegmentNode, TopicContents
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role


def branch_facts(branch: Branch | None) -> Iterator[Fact]:
    """The sentences about *branch*."""
    if branch is None:
        return
    match branch.node:
        case str():
            yield Fact("Place", (LinePart(branch.node), *_why(branch)))
        case SegmentNode():
            yield Fact("Segment", tuple(_segment(branch.node)))
            yield Fact("File", (LinePart(f"{branch.node.prefix}_records"),))
        case PartitionNode():
            yield Fact("Partition", tuple(_partition(branch.node)))
            yield Fact("Address", (LinePart(branch.node.address),))
        case _:
            yield Fact("Topic", (LinePart(branch.node.folder), *_why(branch)))
            if branch.held is not None:
                yield Fact("Verified", (_verified(branch.held),))


def _why(branch: Branch) -> Iterator[LinePart]:
    if branch.note == "reading":
        yield LinePart("  reading", Role.RUNNING)
    elif branch.note:
        yield LinePart(f"  ? {branch.note}", Role.UNKNOWN)


def _segment(one: SegmentNode) -> Iterator[LinePart]:
    yield LinePart(
        f"offsets {count(one.first_offset)} to {count(one.last_offset)}, {count(one.records)} "
        f"records, {size_text(one.bytes)}"
    )
    if isinstance(one.first_ms, int):
        yield LinePart(f", {time_text(one.first_ms)} to {time_text(one.last_ms)}")
    if isinstance(one.lost, int) and one.lost:
        yield LinePart(f", {one.lost:,} offsets lost", Role.LOST)
    if one.note:
        yield LinePart(f"; {one.note}", Role.UNKNOWN)
    yield from _unknown(one.records)


def _partition(one: PartitionNode) -> Iterator[LinePart]:
    number = len(one.segments)
    yield LinePart(
        f"offsets {count(one.first_offset)} to {count(one.last_offset)}, {count(one.records)} "
        f"records, {size_text(one.bytes)} in {number:,} segment{'s' * (number != 1)}"
    )
    if one.gone:
        yield LinePart(f"; {one.gone:,} of them gone", Role.FAILED)
    yield from _unknown(one.records)


def _unknown(value: Figure) -> Iterator[LinePart]:
    if isinstance(value, Unknown):
        yield LinePart(f"; ? {value.reason}", Role.UNKNOWN)


def _verified(held: TopicContents) -> LinePart:
    last = held.verified
    if held.commit is None:
        return LinePart("made by Kafka Backup: it has no manifest to be verified by", Role.UNKNOWN)
    if last is None:
        return LinePart("never", Role.WAITING)
    words = "whole" if last.whole else "DAMAGED or different"
    role = Role.VERIFIED if last.whole else Role.FAILED
    older = "" if last.commit == held.commit else f"; commit {last.commit} of {held.commit}"
    return LinePart(f"{words} at {time_text(last.at_ms)}, by {last.how}{older}", role)
