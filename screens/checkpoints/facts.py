"""What is said of the line under the cursor: what is promised, why it failed, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.screens.checkpoints.columns import ROLES
from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.watch import (
    CheckpointLine,
    CheckpointPartitionLine,
    Line,
    StoreLine,
)
from breakglass.services.checkpoint.wording import promise, reasons, why_failed
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

NEXT = {
    Status.COMPLETED: "`breakglass checkpoint restore {id} --store {url}`",
    Status.ONGOING: "a worker copies it; if the worker died: `breakglass checkpoint finish {id}`",
    Status.INCOMPLETE: "`breakglass checkpoint finish {id}` resumes it",
    Status.FAILED: "take a checkpoint with a new id; `breakglass checkpoint delete {id}`",
    Status.DOES_NOT_EXIST: "`breakglass checkpoint delete {id}`",
}

DAMAGED = "bring the files back from another copy of the store, or take a checkpoint with a new id"


def line_facts(line: Line | None) -> Iterator[Fact]:
    """Everything in words that the columns have no room for."""
    match line:
        case None:
            return
        case StoreLine():
            yield from _store(line)
        case CheckpointLine():
            yield from _checkpoint(line.url, line.found)
        case CheckpointPartitionLine():
            yield from _partition(line)


def _store(line: StoreLine) -> Iterator[Fact]:
    held = line.seen.held
    if isinstance(held, Unknown):
        yield Fact("Unread", (LinePart(held.reason, Role.UNKNOWN),))
        return
    whole = next((checkpoint for checkpoint in held if checkpoint.status is Status.COMPLETED), None)
    if whole is None:
        yield Fact("Restorable", (LinePart("none", Role.FAILED),))
    else:
        yield Fact("Restorable", (LinePart(f"{whole.id}, of {time_text(whole.created_at_ms)}"),))


def _checkpoint(url: str, found: StoredCheckpoint) -> Iterator[Fact]:
    yield Fact("Promise", (LinePart(promise(found)),))
    for reason in reasons(found):
        yield Fact("Failed", (LinePart(reason, Role.FAILED),))
    yield Fact("Taken", tuple(_moments(found)))
    if found.cut is not None and found.cut.groups:
        groups = (f"{name} {group.policy}" for name, group in sorted(found.cut.groups.items()))
        yield Fact("Groups", (LinePart(", ".join(groups)),))
    yield from _explained(found)
    if found.status is Status.COMPLETED:
        yield Fact("Verified", (verified_part(found),))
    told = _next(found).format(id=found.id, url=url)
    yield Fact("Next", (LinePart(told, Role.MUTED),))


def _explained(found: StoredCheckpoint) -> Iterator[Fact]:
    """Who wrote the topics when it was taken, and what is missing for a better promise."""
    from breakglass.services.checkpoint.explaining import (
        explained,
        group_words,
        level_words,
        topic_words,
    )

    why = explained(found)
    if why is None or found.take is None:
        return
    topics = (topic_words(topic, why.declared) for topic in why.evidence.topics)
    yield Fact("Written by", (LinePart("; ".join(topics)),))
    groups = "; ".join(map(group_words, why.evidence.groups))
    if groups:
        yield Fact("Commits", (LinePart(groups),))
    for missing in level_words(why, found.take.level):
        yield Fact("For more", (LinePart(missing, Role.MUTED),))


def _next(found: StoredCheckpoint) -> str:
    damaged = found.verified is not None and found.verified.damage
    return DAMAGED if damaged else NEXT[found.status]


def verified_part(found: StoredCheckpoint) -> LinePart:
    """When every byte of it was read last, and what came of that."""
    last = found.verified
    if last is None:
        told = f"never: `breakglass checkpoint verify {found.id}` reads every byte"
        return LinePart(told, Role.MUTED)
    when = time_text(last.at_ms)
    if last.damage:
        return LinePart(f"{when}  {'; '.join(last.damage.values())}", Role.FAILED)
    read = f"{last.files:,} files, {size_text(last.size)}"
    return LinePart(f"{when}  {read}, unchanged since they were committed", Role.VERIFIED)


def _moments(found: StoredCheckpoint) -> Iterator[LinePart]:
    yield LinePart(f"requested {time_text(found.created_at_ms)}")
    if found.started is None:
        yield LinePart("  never acknowledged", Role.FAILED)
    else:
        yield LinePart(f"  acknowledged {time_text(found.started.at_ms)}")


def _holds(line: CheckpointPartitionLine) -> str:
    """What there is of it, of how much while it is copied, and where it ends."""
    cut, number, copy = line.found.cut, line.part.number, line.part.counting
    position = None if cut is None else cut.positions.get(number)
    ends = "?" if position is None else count(position)
    transit = "?" if cut is None else count(len(cut.in_transit.get(number, ())))
    records = "?" if copy is None or copy.manifest is None else count(copy.manifest.records)
    if line.far is not None:
        most = "?" if line.far.offsets is None else f"<= {line.far.offsets:,}"
        about = line.far.bytes_expected
        size = f"{size_text(line.far.bytes)} of {'?' if about is None else f'~{size_text(about)}'}"
        records = f"{line.far.records:,} of {most}"
        return f"{records} records so far, {size}; cut at {ends}, {transit} in transit"
    return f"{records} records; cut at {ends}, {transit} in transit"


def _partition(line: CheckpointPartitionLine) -> Iterator[Fact]:
    reason = why_failed(line.part, line.found)
    if reason is not None:
        yield Fact("Failed", (LinePart(reason, Role.FAILED),))
    yield Fact("Holds", (LinePart(_holds(line)),))
    for copy in line.part.copies:
        status = copy.copy.status
        at = f"  begun {time_text(copy.created_at_ms)}  {time_text(copy.updated_at_ms)}"
        yield Fact(f"Node {copy.id.node}", (LinePart(status, ROLES[status]), LinePart(at)))
    last = line.found.verified
    if last is not None and line.part.number in last.damage:
        yield Fact("Damaged", (LinePart(last.damage[line.part.number], Role.FAILED),))
    cut = line.found.cut
    for name, group in sorted(cut.groups.items()) if cut is not None else ():
        offset = group.offsets.get(line.part.number)
        if offset is not None:
            yield Fact("Group", (LinePart(f"{name} resumes at {count(offset)}"),))
