"""Compares what was said and done with the records on disk. Pure.

Each check yields findings: a kind, the partition, a sentence. An incident without findings is
passed. What is judged:

- **unsafe**: SAFE was said where electing the designee loses a record.
- **price**: a loss was said that is not the loss, or is said to be known and is above or below it.
- **bound**: more unread records were said to exist at least than ever existed.

And which records are missing: held by a readable replica, and neither in the elected log nor saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from breakglass.bookkeeping.folders import DiskReading, Name, divergence
from breakglass.bookkeeping.log_files import NO_LOG, FolderLog, HeldRecord
from breakglass.bookkeeping.said import SaidPartition, SaidPrice
from breakglass.bookkeeping.saved import SavedRecord


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """Something that is wrong."""

    kind: str
    name: Name | None
    text: str

    def __str__(self) -> str:
        where = f"{self.name[0]}-{self.name[1]}: " if self.name else ""
        return f"{self.kind}: {where}{self.text}"


def missing_records(
    readable: Mapping[int, FolderLog],
    elected: FolderLog,
    saved: Collection[SavedRecord],
    *,
    compacted: bool,
) -> list[HeldRecord]:
    """Records that a replica of *readable* held, and that neither log nor rescue has.

    In a compacted topic a record whose key has a newer one may go, where the newer one is kept:
    in the elected log, or by a rescue of a log, where both are still the same log.
    """
    kept = {(record.epoch, record.offset, record.digest) for record in elected.records}
    rescued = {(record.offset, record.digest) for record in saved}
    newest = {record.key: record.offset for record in elected.records}
    found: dict[tuple[int, int], HeldRecord] = {}
    for log in readable.values():
        parting = divergence(log, elected)
        for record in log.records:
            if (record.epoch, record.offset, record.digest) in kept:
                continue
            if (record.offset, record.digest) in rescued:
                continue
            if compacted and record.offset < parting and newest.get(record.key, -1) > record.offset:
                continue
            if compacted and _replaced_by_rescued(record, log, readable.values(), rescued):
                continue
            found[record.epoch, record.offset] = record
    return [found[place] for place in sorted(found)]


def _replaced_by_rescued(
    record: HeldRecord,
    log: FolderLog,
    readable: Iterable[FolderLog],
    rescued: Collection[tuple[int, str]],
) -> bool:
    """Whether a log that shares *record* has a newer one of its key, and a rescue has that."""
    return any(
        (other.offset, other.digest) in rescued
        for longer in readable
        if longer is log or divergence(log, longer) > record.offset
        for other in longer.records
        if other.key == record.key and other.offset > record.offset
    )


def lost_places(readable: Mapping[int, FolderLog], chosen: int) -> set[tuple[int, int]]:
    """(epoch, offset) of what other readable replicas hold and *chosen* does not."""
    others = [log.places for broker, log in readable.items() if broker != chosen]
    return set().union(*others) - readable.get(chosen, NO_LOG).places


def check_said(
    said: Sequence[SaidPartition],
    disks: DiskReading,
    ever: Mapping[Name, int],
    compacted: Collection[str],
    gone: Collection[int],
) -> Iterator[JudgeFinding]:
    """The verdicts and figures of partition triage."""
    for partition in said:
        readable = disks.readable_logs(partition.name)
        if {broker: readable.get(broker, NO_LOG).end for broker in partition.log_ends} != dict(
            partition.log_ends
        ):
            yield JudgeFinding(
                "price",
                partition.name,
                f"log ends are said to be {dict(partition.log_ends)}, and are "
                f"{ {broker: log.end for broker, log in readable.items()} }",
            )
            continue
        heard = {broker: readable.get(broker, NO_LOG) for broker in partition.log_ends}
        yield from _check_safe(
            partition, heard, disks, gone, compacted=partition.name[0] in compacted
        )
        for broker, price in sorted(partition.prices.items()):
            least = most = len(lost_places(heard, broker))
            if price.approximate or partition.name[0] in compacted:
                # The chosen log may be compacted already, and another one not.
                chosen = heard.get(broker, NO_LOG)
                least = len(missing_records(heard, chosen, (), compacted=True))
            yield from _check_price(partition.name, broker, price, least, most)
        yield from _check_bound(partition, heard, ever.get(partition.name, 0), disks)


def _check_safe(
    partition: SaidPartition,
    heard: Mapping[int, FolderLog],
    disks: DiskReading,
    gone: Collection[int],
    *,
    compacted: bool,
) -> Iterator[JudgeFinding]:
    if partition.verdict != "SAFE" or partition.designee is None:
        return
    chosen = heard.get(partition.designee, NO_LOG)
    lost = missing_records(heard, chosen, (), compacted=compacted)
    if lost:
        yield JudgeFinding(
            "unsafe",
            partition.name,
            f"SAFE elect b{partition.designee}, which loses {len(lost)} records",
        )
    unheard = disks.held(partition.name).keys() - heard.keys() - set(gone)
    beyond = {
        broker for broker in unheard if disks.held(partition.name)[broker].places - chosen.places
    }
    if beyond:
        yield JudgeFinding(
            "unsafe",
            partition.name,
            f"SAFE, though {sorted(beyond)} hold more and were not given up",
        )


def _check_price(
    name: Name, broker: int, price: SaidPrice, least: int, most: int
) -> Iterator[JudgeFinding]:
    if price.total is None:
        return
    if price.total < least or (price.total > most and not price.approximate):
        about = "~" if price.approximate else ""
        yield JudgeFinding(
            "price", name, f"b{broker} is said to lose {about}{price.total}, loses {least}"
        )
    if (
        price.committed is not None
        and price.unproven is not None
        and price.committed + price.unproven != price.total
    ):
        yield JudgeFinding(
            "price", name, f"b{broker}: {price.committed} + {price.unproven} is not {price.total}"
        )


def _check_bound(
    partition: SaidPartition, heard: Mapping[int, FolderLog], ever: int, disks: DiskReading
) -> Iterator[JudgeFinding]:
    if not partition.unread_at_least:
        return
    readable_end = max([log.end for log in heard.values()], default=0)
    ends = [log.end for log in disks.held(partition.name).values()]
    true = max([ever, *ends]) - readable_end
    if partition.unread_at_least > true:
        yield JudgeFinding(
            "bound",
            partition.name,
            f"unread >= {partition.unread_at_least} was said, true is {true}",
        )
