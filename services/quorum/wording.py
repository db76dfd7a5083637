"""What the command and the screen say about copies, about a plan and about its steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from breakglass.services.model import Unknown, kafka_id
from breakglass.services.quorum.machine_steps import (
    STOP,
    MachineStep,
    ServiceManager,
    rebuild_indexes,
)
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.quorum.change_words import SaidChange
    from breakglass.services.quorum.comparison import ComparedCopy
    from breakglass.services.quorum.data_folders import DataFindings
    from breakglass.services.quorum.inspection import CopyLack, QuorumInspection
    from breakglass.services.quorum.metadata_copy import Batch
    from breakglass.services.quorum.plan import QuorumPlan

SHOWN = 10
"""Lines of one kind that a command shows; its document has all of them."""
UNCLOSED = (
    "Logs with an index that ends in zeros: retention deletes their records, unless you remove "
    ".kafka_cleanshutdown before the broker starts"
)
BACK = "The cluster is back as the plan has it: leader, brokers, ISRs, log starts and ends."
NOT_LOOKED = (
    "No -stray folder was looked for on {}, whose log directories are not on this machine, so this "
    "ends with 1. Look there: find LOG_DIR -maxdepth 1 -name '*-stray'"
)
CAVEATS = (
    "Kafka does not store the metadata log's high watermark: the last records of a copy may not "
    "have been committed.",
    "A machine whose folders were not named may have a newer copy: each controller and each broker "
    "has one.",
)


def inspection_lines(found: QuorumInspection, most: int = SHOWN) -> Iterator[str]:
    """What was found, in sentences; *most* lines of one kind."""
    from breakglass.services.quorum.strays import stray_words

    for one in found.copies:
        yield from copy_lines(found, one, most)
    for offset, name in found.unknown[:most]:
        yield f"Offset {offset:,} has a {name}, which this release cannot decode."
    if len(found.unknown) > most:
        yield f"and {len(found.unknown) - most:,} more that this release cannot decode."
    match found.data:
        case Unknown(reason):
            yield f"The data folders were not compared: {reason}"
        case None:
            yield "No data folder was named, so nothing is known of strays, ISRs and producer ids."
        case data:
            yield from _data(data, str(found.chosen.copy.path), most)
    if found.renamed:
        yield f"{stray_words(found.renamed)}. Run breakglass quorum strays first."


def copy_lines(found: QuorumInspection, one: ComparedCopy, most: int = SHOWN) -> Iterator[str]:
    """What a copy is to the best one, what is wrong with it, and what it lacks."""
    path, end = one.copy.path, one.copy.end
    if one is found.copies[0]:
        yield (
            f"The best copy is {path}: epoch {end.epoch}, log end {end.offset:,}. "
            "Raft ranks copies by the epoch of the last record, then by the log end."
        )
        if found.formatted:
            yield found.formatted
    else:
        yield _compared(one)
    for damage in one.copy.damage:
        yield f"{path} is damaged: {damage}."
    if one.copy.running:
        yield f"{path} may have grown since: its node runs."
    for lack in found.lacks:
        if lack.compared is one:
            yield from _lack(lack, most)
    for compared, snapshots in found.surviving:
        if compared is one:
            names = ", ".join(snapshot.path.name for snapshot in snapshots)
            yield (
                f"{path} has snapshots past what {found.chosen.copy.path} has: {names}. Kafka "
                "keeps them when it truncates the log, and the node then shows what they have. "
                "Before you start this node under the other copy, replace its folder as quorum "
                "prepare prints it."
            )


def _compared(one: ComparedCopy) -> str:
    path, start, end = one.copy.path, one.start, one.end
    if one.fork is not None:
        best, own = map(_side, (one.fork.best, one.fork.copy))
        return (
            f"{path} forks from the best copy at offset {one.fork.offset:,}: the best copy has "
            f"{best}, this one {own}."
            + (" One of the two is damaged: no CRC covers an epoch." * one.fork.same_records)
        )
    if not one.proved:
        return (
            f"{path} was not compared: its log ends before that of the best copy begins, and no "
            "snapshot of the best copy names the epoch there."
        )
    if one.by_id:
        return (
            f"{path} has the epoch of the best copy before offset {one.shared:,}, where it ends; "
            "no batch is in both, so none was compared."
        )
    equal = f"{path} equals the best copy in offset, epoch and CRC of each batch from {start:,} to"
    if one.shared > end:
        return f"{equal} {end:,}, and in the epoch before offset {one.shared:,}, where it ends."
    earlier = " Earlier batches are not in both, and were not compared." if start else ""
    return f"{equal} {end:,}, where it ends.{earlier}"


def _side(batch: Batch | None) -> str:
    if batch is None:
        return "no batch there"
    offsets = f"{batch.offset:,}-{batch.next_offset - 1:,}"
    return f"offsets {offsets} of epoch {batch.epoch} with CRC {batch.crc:08x}"


def _lack(lack: CopyLack, most: int) -> Iterator[str]:
    path = lack.compared.copy.path
    if isinstance(lack.records, Unknown):
        yield f"What {path} lacks is not known: {lack.records.reason}."
        return
    if lack.records:
        noun = "record" if lack.records == 1 else "records"
        yield (
            f"{path} lacks {lack.records:,} {noun} of the best copy, from offset "
            f"{lack.compared.shared:,} on. Their changes:"
        )
        yield from _changes(lack.changes, most)
    if isinstance(lack.own, Unknown) or lack.own:
        yield f"{path} alone has, from offset {lack.compared.shared:,} on:"
        yield from _changes(lack.own, most)


def _changes(changes: Sequence[SaidChange] | Unknown, most: int) -> Iterator[str]:
    if isinstance(changes, Unknown):
        yield f"  not known: {changes.reason}"
        return
    kinds: dict[str, list[SaidChange]] = defaultdict(list)
    for change in changes:
        kinds[change.kind].append(change)
    if not kinds:
        yield "  none that changes the cluster"
    for kind, those in kinds.items():
        yield f"  {kind}:"
        for change in those[:most]:
            yield f"    {time_text(change.at_ms)}  {change.what}"
        if len(those) > most:
            yield f"    and {len(those) - most:,} more (--json has them)"


def _data(data: DataFindings, copy: str, most: int) -> Iterator[str]:
    yield f"Replicas in the data folders, compared with {copy}: {data.replicas:,}."
    if data.strays:
        yield f"Strays: {len(data.strays):,}. Brokers rename these folders when they start."
        yield from _first([f"{one.path}: {one.why}" for one in data.strays], most)
    if data.old_epochs:
        yield f"Partitions with later leader epochs than the copy: {len(data.old_epochs):,}."
        yield from _first(
            [
                f"{one.partition}: epoch {one.log} in the log, {one.copy} in the copy"
                for one in data.old_epochs
            ],
            most,
        )
    for proved, title, consequence in (
        (
            True,
            "ISR members of the copy that end before a high watermark that a broker noted",
            "They had left the ISR, or lost the end of their logs: electing one loses acknowledged "
            "records.",
        ),
        (
            False,
            "ISR members of the copy that end before another replica",
            "Electing one loses the records in between. Whether these were acknowledged is not "
            "known.",
        ),
    ):
        members_of = [one for one in data.short_members if one.proved is proved]
        if members_of:
            yield f"{title}: {len(members_of):,}. {consequence}"
            yield from _first(
                [
                    f"{one.partition}: b{one.broker} ends at {one.end.offset:,} (epoch "
                    f"{one.end.epoch}), b{one.longest} at {one.longest_end.offset:,} (epoch "
                    f"{one.longest_end.epoch}); ISR {','.join(map(str, one.isr))}"
                    for one in members_of
                ],
                most,
            )
    if data.reused_producer_ids:
        yield (
            f"Producer id {data.largest_producer_id:,} is in {data.producer_id_in}, and the "
            f"copy gives out ids from {data.next_producer_id or 0:,} on: a new producer would get "
            "an id that is in the logs, and its records could be dropped as duplicates."
        )
    if data.unclosed:
        yield f"{UNCLOSED}: {len(data.unclosed):,}."
        yield from _first([*map(str, data.unclosed)], most)
        for folder in sorted({one.parent for one in data.unclosed}):
            yield f"    {rebuild_indexes(folder)}"
    if data.unread:
        yield f"Files and folders that could not be read: {len(data.unread):,}."
        yield from _first(data.unread, most)


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    for line in lines[:most]:
        yield f"  {line}"
    if len(lines) > most:
        yield f"  and {len(lines) - most:,} more (--json has them)"


def plan_lines(plan: QuorumPlan, most: int = SHOWN) -> Iterator[str]:
    """What the plan brings back, what is lost, and what cannot be known."""
    copy, voter, replaced = plan.copy, plan.request.voter, plan.mending.replaced
    kind = "dynamic" if plan.dynamic else "static"
    yield (
        f"Controller {voter} leads alone ({kind} quorum), from {copy.path}: log end "
        f"{copy.end.offset:,}, last epoch {copy.end.epoch}, newest record "
        f"{time_text(copy.newest_ms)}."
    )
    yield (
        f"Appended at epoch {plan.epoch:,}, above every epoch that was read: "
        f"{'a VotersRecord of this voter, ' if plan.dynamic else ''}"
        f"next producer id {plan.next_producer_id:,}, new topics {len(plan.mending.topics):,}, "
        f"partitions {len(plan.mending.partitions):,}."
    )
    if isinstance(plan.lost, Unknown):
        yield f"What the chosen copy lacks is unknown: {plan.lost.reason}."
    else:
        yield f"Records of the best copy that the chosen one lacks: {plan.lost:,}."
    for title, lines in (
        ("Lost changes", plan.lost_changes),
        (
            "Mended by the data folders",
            [f"{one.partition}: {one.why}" for one in plan.mending.partitions],
        ),
        (
            "Topics of the copy that newer topics with the same name replace",
            [f"{name}: the copy has id {kafka_id(id_)}" for name, id_ in replaced.items()],
        ),
        ("Folders that brokers will rename to -stray", [*map(str, plan.strays)]),
        ("Copies that are given up, from the offset where they part", plan.forks),
        ("Logs that brokers truncate to that of the ISR", plan.cuts),
        (
            "Logs that are damaged: what follows is given up",
            [f"{copy}: {damage}" for copy, damage in plan.damaged],
        ),
        (f"{UNCLOSED}; the steps have the command", [*map(str, plan.unclosed)]),
        (
            "Something listens at these addresses, or connecting timed out: make sure that the "
            "nodes are off",
            plan.listening,
        ),
        ("Not named, so it may have more than any folder here", plan.missing),
        ("Unknown", plan.unknown),
    ):
        if lines:
            yield f"{title}: {len(lines):,}."
            yield from _first(lines, most)


def first_lines(manager: ServiceManager) -> tuple[str, ...]:
    """What comes before the first step."""
    return (
        "Stop what formats or restarts nodes by itself: operators, --ignore-formatted.",
        "Paths are as they were named. If one is a copy, write the node's own in its place.",
        "Stop every node that these steps start, before the first of them:",
        f"    {STOP[manager]}",
    )


def step_lines(step: MachineStep, number: int, manager: ServiceManager) -> Iterator[str]:
    """One step: its commands, and what they have to show before the next step."""
    yield f"{number}. {step.title}: {step.node.reason}."
    if step.commands and manager is ServiceManager.POD:
        yield f"   In a pod that mounts the volume of {step.node.name}, which is stopped:"
    yield from (f"    {line}" for line in step.commands)
    if step.settings:
        unless = ", unless its list has this voter already" if step.node.broker else ""
        yield f"   In its configuration{unless}:"
        yield from (f"    {line}" for line in step.settings)
    if step.start:
        yield "   Start it, then look:"
        yield from (f"    {line}" for line in (step.start, *step.check))
    yield f"   {step.then}"


def back_line(digest: str) -> str:
    """How to undo the steps."""
    return (
        "To go back: stop every node, delete __cluster_metadata-0 where it was put, and move back "
        f"what is in the folders that end in .aside-{digest[:8]}. If brokers ran, plan again then."
    )
