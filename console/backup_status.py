"""`breakglass backup list`: how each topic's backup stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.option_values import store_of
from breakglass.console.options import AsJson, BackupStore, KeyFrom, TopicNames, connected
from breakglass.console.output import columns, members, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.model import TopicPartition
    from breakglass.services.topic_backup.catalog import PartitionStatus, TopicStatus
    from breakglass.services.topic_backup.folder_contents import FoundPartition


@connected
def status(
    connection: Connection,
    store: BackupStore,
    topics: TopicNames = (),
    live: Annotated[
        bool, typer.Option("--live", help="Compare the backup with the topics of the cluster.")
    ] = False,
    key: KeyFrom = None,
    as_json: AsJson = False,
) -> None:
    """List what is backed up of each partition, its age, and when it was verified.

    File names, sizes and manifests are checked, but no records; `backup verify` finds changed
    bytes. In a folder that Kafka Backup wrote, the command reads the indexes; a value that is in no
    file is printed as ?, or as null with --json. Exits with 1 if a backup is damaged.
    """
    from breakglass.services.topic_backup.catalog import read_status

    held = read_status(store_of(store, key), topics)
    ends = _ends(connection, held) if live else None
    now = now_ms()
    if as_json:
        print_json({"schema": 1, "topics": [_document(topic, ends, now) for topic in held]})
    else:
        print_table(COLUMNS, (row for topic in held for row in _rows(topic, ends)))
        for topic in held:
            _say(topic)
    if any(topic.damaged for topic in held):
        raise typer.Exit(1)


def passed_over(topic: str, folder: str) -> str:
    """What an owner of a backup has to know of a generation in a folder of another name."""
    return (
        f"{topic}  Kafka Backup does not read {folder}: it restores only the folder named "
        f"{topic}, an older log of the topic. See `--new-generation` of `breakglass backup run`."
    )


Ends = dict["TopicPartition", int]


def _ends(connection: Connection, held: Sequence[TopicStatus]) -> Ends:
    """Where each partition ends now, for committed readers; those that cannot tell are absent."""
    from breakglass.services.pipeline.source import WantedTopics, read_sources

    deadline = deadline_after(patience.COMMAND)
    with connection.reading() as client:
        existing = {state.partition.topic for state in client.partitions((), deadline)}
        names = tuple(existing.intersection(topic.topic for topic in held))
        sources = read_sources(client, WantedTopics(names), deadline, partial=True)
    return {part.partition: part.stable_end for source in sources for part in source.partitions}


def _lag(topic: TopicStatus, part: PartitionStatus, ends: Ends | None) -> int | None:
    """Offsets that are not backed up yet; None where that was not asked, or nobody tells.

    Of a generation that is not the newest, nothing more can be backed up.
    """
    end = (ends or {} if topic.newest else {}).get(TopicPartition(topic.topic, part.partition))
    return None if end is None else max(0, end - (part.next_offset or 0))


def _document(topic: TopicStatus, ends: Ends | None, now_ms: int) -> dict[str, Any]:
    age = None if topic.committed_at_ms is None else now_ms - topic.committed_at_ms
    return {
        "topic": topic.topic,
        "generation": topic.generation,
        "folder": topic.folder,
        "passed_over_by_kafka_backup": topic.passed_over,
        "commit": topic.commit,
        "committed_at_ms": topic.committed_at_ms,
        "age_ms": age,
        "verified": topic.verified,
        **members(topic, "verified_now damaged salvaged uncommitted"),
        **members(topic, "group_states groups_lacking groups_lost"),
        "partitions": [
            {
                **members(partition, "partition first_offset last_offset next_offset"),
                "lag": _lag(topic, partition, ends),
                **members(
                    partition, "records bytes segments damage gaps lost lost_offsets unproved"
                ),
            }
            for partition in topic.partitions
        ]
        + [_found_document(partition) for partition in _found(topic)],
        "groups": topic.found.groups if topic.found else None,
    }


def _found(topic: TopicStatus) -> tuple[FoundPartition, ...]:
    return topic.found.partitions if topic.found else ()


def _found_document(partition: FoundPartition) -> dict[str, Any]:
    """A partition without a manifest: what is not known is null, and its reason beside it."""
    figures = {
        "first_offset": partition.first_offset,
        "last_offset": partition.last_offset,
        "records": partition.records,
    }
    reasons = {name: told.reason for name, told in figures.items() if isinstance(told, Unknown)}
    return {
        "partition": partition.partition,
        **{name: None if name in reasons else told for name, told in figures.items()},
        **members(partition, "bytes segments damage stray"),
        **dict.fromkeys(("next_offset", "lag", "gaps", "lost")),
        "unknown": {
            **dict.fromkeys(("next_offset", "lag", "gaps", "lost"), NO_MANIFEST),
            **reasons,
        },
    }


def _rows(topic: TopicStatus, ends: Ends | None) -> Iterator[tuple[object, ...]]:
    for partition in topic.partitions:
        offsets = (
            "-"
            if partition.first_offset is None
            else f"{partition.first_offset:,}-{partition.last_offset:,}"
        )
        lag = _lag(topic, partition, ends)
        unknown = "?" if topic.newest else "-"
        yield (
            f"{topic.name}-{partition.partition}",
            offsets,
            unknown if lag is None else f"{lag:,}",
            f"{partition.records:,}",
            f"{partition.bytes:,}",
            f"{partition.segments:,}",
            f"{partition.lost:,}",
            time_text(topic.committed_at_ms),
            _verified(topic),
        )
    for found in _found(topic):
        first, last = found.first_offset, found.last_offset
        unread = isinstance(first, Unknown) or isinstance(last, Unknown)
        offsets = "-" if first is None or last is None else f"{first:,}-{last:,}"
        yield (
            f"{topic.name}-{found.partition}",
            "?" if unread else offsets,
            "?",
            "?" if isinstance(found.records, Unknown) else f"{found.records:,}",
            f"{found.bytes:,}",
            f"{found.segments:,}",
            "?",
            "?",
            "DAMAGED" if topic.damaged else "no",
        )


def _verified(topic: TopicStatus) -> str:
    if topic.damaged:
        return "DAMAGED"
    return "salvaged" if topic.salvaged else "yes" if topic.verified_now else "no"


def _say(topic: TopicStatus) -> None:
    if topic.passed_over:
        say(passed_over(topic.topic, topic.folder))
    for partition in topic.partitions:
        for damage in partition.damage:
            say(f"damaged: {damage}")
        for doubt in partition.unproved:
            say(f"{topic.name}-{partition.partition}  not proved: {doubt}")
        if partition.lost_offsets:
            say(
                f"{topic.name}-{partition.partition}  LOST {', '.join(partition.lost_offsets)}: "
                "they were removed before they were copied, or damaged in a backup that this one "
                "was salvaged from"
            )
    for found in _found(topic):
        for damage in found.damage:
            say(f"damaged: {damage}")
        if found.stray:
            say(
                f"{topic.name}-{found.partition}  {found.stray:,} bytes behind its last indexed "
                "record are read by no command; `backup verify` says whether they are a record"
            )
        if isinstance(found.records, Unknown):
            say(f"? {topic.name}-{found.partition}: {found.records.reason}")
    for left in topic.uncommitted:
        say(left)
    for lack in (*topic.groups_lacking, *topic.groups_lost):
        say(f"{topic.folder}  {lack}")
    if topic.lost_manifest:
        say(f"damaged: {topic.folder} has lost its last manifest; take it from another copy")
    elif topic.commit is None:
        groups = topic.found.groups if topic.found else Unknown("")
        told = "of ? groups" if isinstance(groups, Unknown) else f"of {groups:,} groups"
        say(
            f"{topic.folder} has no manifest, as Kafka Backup writes it: when it was made, and "
            f"whether offsets are missing, is not known. It has offsets {told}. Check every record "
            "with `breakglass backup verify`."
        )
    elif topic.verified is not None and not topic.verified.whole:
        against = f" against {topic.verified.against}" if topic.verified.against else ""
        say(f"{topic.folder}  its last verification{against} found damage or differences")
    elif topic.changed:
        say(f"{topic.folder}  files were changed since its last verification: verify it again")


NO_MANIFEST = "Kafka Backup writes no manifest, so nothing says it"

COLUMNS = columns(
    "Topic-partition",
    "Offsets",
    ">Lag",
    ">Records",
    ">Bytes",
    ">Segments",
    ">Lost",
    "Committed",
    "Verified",
)
