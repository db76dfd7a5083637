"""`breakglass backup status`: how each topic's backup stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.backup_place import EncryptKey, OnlyTopics, Source, place
from breakglass.console.option_values import names_in
from breakglass.console.options import AsJson, connected
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.clock import now_ms
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.model import TopicPartition
    from breakglass.services.topic_backup.status import PartitionStatus, TopicStatus


@connected
def status(
    connection: Connection,
    source: Source,
    topics: OnlyTopics = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the cluster how far each backup is behind.")
    ] = False,
    encrypt_key: EncryptKey = None,
    as_json: AsJson = False,
) -> None:
    """Say of each topic and partition what is backed up, how old it is, when it was verified.

    Names, sizes and manifests are looked at, no records: whether bytes were changed is for
    `backup verify` to find. Ends with 1 when a backup is damaged.
    """
    from breakglass.services.topic_backup.status import read_status

    named = names_in(topics)
    held = read_status(place(source, encrypt_key), named)
    ends = _ends(connection, held) if live else None
    now = now_ms()
    if as_json:
        print_json({"schema": 1, "topics": [_document(one, ends, now) for one in held]})
    else:
        print_table(COLUMNS, (row for one in held for row in _rows(one, ends)))
        for one in held:
            _say(one)
    if any(one.damaged for one in held):
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
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.pipeline.source import WantedTopics, read_sources

    deadline = Deadline.after(30.0)
    with connection.reading() as client:
        existing = {one.partition.topic for one in client.partitions((), deadline)}
        names = tuple(existing.intersection(one.topic for one in held))
        sources = read_sources(client, WantedTopics(names), deadline, partial=True)
    return {part.partition: part.stable_end for one in sources for part in one.partitions}


def _lag(topic: TopicStatus, part: PartitionStatus, ends: Ends | None) -> int | None:
    """Offsets that are not backed up yet; None where that was not asked, or nobody tells."""
    from breakglass.services.model import TopicPartition

    end = (ends or {}).get(TopicPartition(topic.topic, part.partition))
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
        "verified_now": topic.verified_now,
        "damaged": topic.damaged,
        "group_states": topic.group_states,
        "partitions": [
            {
                "partition": one.partition,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
                "next_offset": one.next_offset,
                "lag": _lag(topic, one, ends),
                "records": one.records,
                "bytes": one.bytes,
                "segments": one.segments,
                "damage": one.damage,
                "gaps": one.gaps,
                "lost": one.lost,
            }
            for one in topic.partitions
        ],
    }


def _rows(topic: TopicStatus, ends: Ends | None) -> Iterator[tuple[object, ...]]:
    for one in topic.partitions:
        offsets = "-" if one.first_offset is None else f"{one.first_offset:,}-{one.last_offset:,}"
        lag = _lag(topic, one, ends)
        yield (
            f"{topic.name}-{one.partition}",
            offsets,
            "?" if lag is None else f"{lag:,}",
            f"{one.records:,}",
            f"{one.bytes:,}",
            f"{one.segments:,}",
            f"{one.lost:,}",
            time_text(topic.committed_at_ms),
            "DAMAGED" if topic.damaged else "yes" if topic.verified_now else "no",
        )


def _say(topic: TopicStatus) -> None:
    if topic.passed_over:
        say(passed_over(topic.topic, topic.folder))
    for one in topic.partitions:
        for damage in one.damage:
            say(f"damaged: {damage}")
    if topic.lost_manifest:
        say(f"damaged: {topic.folder} has lost its manifest; take it from another copy")
    elif topic.commit is None:
        say(f"{topic.folder} has no manifest: look into it with `breakglass backup verify`")
    elif topic.verified is not None and not topic.verified.whole:
        against = f" against {topic.verified.against}" if topic.verified.against else ""
        say(f"{topic.folder}  its last verification{against} found damage or differences")
    elif topic.changed:
        say(f"{topic.folder}  files were changed since its last verification: verify it again")


COLUMNS = (
    Column("Topic-partition"),
    Column("Offsets"),
    Column("Lag", right=True),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Segments", right=True),
    Column("Lost", right=True),
    Column("Committed"),
    Column("Verified"),
)
