"""`breakglass backup run`: back up topics, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.backup_status import passed_over
from breakglass.console.exits import StopSignal, say_ready
from breakglass.console.option_values import names_in, store_of
from breakglass.console.options import (
    NO_EVENTS,
    PLACE,
    AsJsonLines,
    EventOptions,
    KeyFrom,
    Master,
    Topics,
    connected,
    duration,
    size,
    with_log_format,
)
from breakglass.console.output import columns, members, print_table, say
from breakglass.console.restoring import UNEXPLAINED, progress
from breakglass.console.stores import ConnectorFile, connector, place_named
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.extras import need
from breakglass.services.pipeline.backup_context import NewGeneration, require_replaceable
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import local_path

if TYPE_CHECKING:
    from breakglass.services.pipeline.backup_context import BackupReport, TopicReport


class BackupCompression(StrEnum):
    """How a backup can be compressed."""

    ZSTD = "zstd"


Pattern = Annotated[
    str | None,
    typer.Option("--topics-regex", metavar="REGEX", help="Topics whose whole name matches."),
]


@with_log_format
@connected
def run(
    connection: Connection,
    store: Annotated[
        str | None,
        typer.Option("--store", "--to", "--from", "--target-dir", metavar="URL", help=PLACE),
    ] = None,
    connector_config: ConnectorFile = None,
    topics: Topics = None,
    topics_regex: Pattern = None,
    max_segment_bytes: Annotated[
        int | None,
        size(
            "--max-segment-bytes",
            "--max-segment-size",
            example="1GiB",
            help="Close a segment that is larger than this.",
            least=1,
            shown="1GiB",
        ),
    ] = None,
    continuous: Annotated[
        bool | None,
        typer.Option(
            "--continuous/--snapshot",
            help="Keep copying until a signal asks to stop, or end at the present end of each "
            "partition (default, if no --connector-config says otherwise).",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        int,
        duration(
            "--every",
            example="10s",
            help="Time from one run to the next.",
            bare="s",
            least_ms=100,
            shown="10s",
        ),
    ] = 10_000,
    compress: Annotated[
        BackupCompression | None,
        typer.Option(help="Compress; Kafka Backup cannot read the result."),
    ] = None,
    key: KeyFrom = None,
    new_generation: Annotated[
        NewGeneration | None,
        typer.Option(
            help="Folder of a topic that was created again or cut: TOPIC~2 (beside, default), or "
            "TOPIC, with the older folder renamed TOPIC~1 (replace, for Kafka Backup)."
        ),
    ] = None,
    master: Master = "local[*,4]",
    on_event: EventOptions = NO_EVENTS,
    as_json: AsJsonLines = False,
) -> None:
    """Back up topics in the Kafka Backup format, from where the last backup ended.

    --topics or --topics-regex name the topics. Committed records are copied up to the present end
    of each partition. Records that an open transaction holds back are left out and counted. With
    --continuous, new records, topics and partitions are copied as they come.

    The manifest of a topic is written last, so that a run that is killed leaves the backup
    unchanged. A topic that was created again, or cut by an unclean election, gets a new folder.
    With --compress or --key, only Breakglass can read the backup.

    --connector-config takes over a backup of Kafka Backup: its target.dir, topics, segment size,
    snapshot and cluster.* are read, and each key without effect is named.
    """
    need("pipeline")
    from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
    from breakglass.services.pipeline.backup import back_up, said
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.continuous import follow
    from breakglass.services.pipeline.session import Spark
    from breakglass.services.topic_backup.connector import ConnectorKind
    from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES

    found, connection = connector(connector_config, ConnectorKind.SINK, connection)
    store = place_named(store, found, "target.dir")
    if not (topics or topics_regex):
        topics, topics_regex = list(found.topics), found.pattern
    wanted = chosen(topics, topics_regex)
    if continuous is None and connector_config is not None:
        continuous = not found.snapshot
        if continuous:
            say(
                f"{connector_config.name}: snapshot is not true, so copying continues until a "
                "signal, as Kafka Backup does; --snapshot ends it."
            )
    settings = BackupSettings(
        store_of(store, key),
        max_segment_bytes or found.max_segment_bytes or MAX_SEGMENT_BYTES,
        form=StoredForm(compressed=compress is not None, encrypted=key is not None),
        new_generation=new_generation,
    )
    place = local_path(store)
    new = place is not None and not place.exists()
    if new_generation is NewGeneration.REPLACE:
        require_replaceable(settings.store, settings.form)
    with (
        on_event.sending("backup run", lasting=bool(continuous)) as events,
        StopSignal() as stop,
        Spark(master) as spark,
        connection.reading() as client,
    ):
        spark.begin()
        access = connection.access()
        with progress(as_json=as_json, job=("backup", store)) as (tell, heard):

            def begin(meter: Meter) -> BackupRun:
                return BackupRun(client, spark, access, settings, meter)

            def told(report: BackupReport) -> None:
                nonlocal new
                if new and place is not None and place.exists():
                    say(f"{store} did not exist: a new backup began there")
                    new = False
                _say_left_out(report)
                said(settings.store, report)

            def lags(change: Behind | CaughtUpAgain) -> None:
                heard(change)
                events.lag(f"backup {store}", change)

            if continuous:
                stop.armed()
                say_ready()
                followed = follow(
                    begin,
                    wanted,
                    tell,
                    lambda: stop.requested,
                    every=every / 1000,
                    told=told,
                    lag=LagAlarm(lags),
                )
            else:
                report = back_up(begin(Meter(tell)), wanted)
    if continuous:
        if as_json:
            figures = {"runs": followed.runs, "records": followed.records, "bytes": followed.bytes}
            rest = {
                "batches": followed.batches,
                "seconds": round(followed.seconds, 3),
                "partitions": followed.partitions,
                "gaps": followed.missing,
                "whole": followed.whole,
            }
            print(json.dumps({"schema": 1, **figures, **rest, "failures": followed.failures}))
        else:
            say(f"{followed.records:,} records, {followed.bytes:,} bytes in {followed.runs:,} runs")
        raise typer.Exit(0 if followed.whole else 1)
    if as_json:
        print(json.dumps(document(report)))
    else:
        print_table(COLUMNS, _rows(report))
        rate = report.bytes / max(report.seconds, 0.001) / 1e6
        say(
            f"{report.records:,} records, {report.bytes:,} bytes in {report.seconds:,.1f} s "
            f"({rate:,.0f} MB/s)"
        )
    told(report)
    raise typer.Exit(0 if report.whole else 1)


def chosen(topics: Sequence[str] | None, pattern: str | None) -> Any:
    """The topics that the options name. Raises UsageError: they name none."""
    from breakglass.services.pipeline.source import WantedTopics

    names = names_in(topics)
    if not names and pattern is None:
        raise UsageError("No topic is named: give --topics or --topics-regex.")
    return WantedTopics(names, pattern)


def document(report: BackupReport) -> dict[str, Any]:
    """The run as one JSON object."""
    return {
        "schema": 1,
        "records": report.records,
        "bytes": report.bytes,
        "seconds": round(report.seconds, 3),
        "partitions": len(report.partitions),
        "gaps": report.missing,
        "held_back": sum(partition.held_back for partition in report.partitions),
        "whole": report.whole,
        "topics": [_topic(topic) for topic in report.topics],
        "unread_groups": list(report.unread_groups),
    }


def _topic(report: TopicReport) -> dict[str, Any]:
    return {
        "topic": report.topic,
        "folder": report.folder,
        "generation": report.generation,
        "new_generation": report.new_generation or None,
        "passed_over_by_kafka_backup": report.passed_over,
        "error": report.error or None,
        "damages": report.damages,
        "unread": {str(number): reason for number, reason in report.unread.items()},
        "groups_not_read": list(report.groups_not_read),
        "partitions": [
            {
                "partition": part.partition.partition,
                **members(part, "start end records bytes"),
                "gaps": part.missing,
                "lost": [gap.offsets for gap in part.lost],
                "unproved": [str(doubt) for doubt in part.unproved],
                "compared": part.compared or None,
                "held_back": part.held_back,
            }
            for part in report.partitions
        ],
    }


def _rows(report: BackupReport) -> Iterator[tuple[object, ...]]:
    for part in report.partitions:
        gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(part.missing.items()))
        offsets = f"{part.start:,}-{part.end - 1:,}" if part.start < part.end else "-"
        yield part.partition, offsets, f"{part.records:,}", f"{part.bytes:,}", gaps or "-"


def _say_left_out(report: BackupReport) -> None:
    for topic in report.topics:
        if topic.new_generation:
            say(f"{topic.topic}  new generation in {topic.folder}: {topic.new_generation}")
        if topic.passed_over:
            say(passed_over(topic.topic, topic.folder))
        if topic.error:
            say(f"{topic.topic}  not backed up: {topic.error}")
        for damage in topic.damages:
            say(f"{topic.topic}  the backup is damaged, and what is new is behind it: {damage}")
        for number, reason in topic.unread.items():
            say(f"{topic.topic}-{number}  not backed up: {reason}")
        now = len(topic.partitions) + len(topic.unread)
        if topic.partitions_before is not None and now > topic.partitions_before:
            say(
                f"{topic.topic}  has {now:,} partitions, it had {topic.partitions_before:,}: "
                "later records of many keys are in another partition than earlier ones"
            )
        if topic.groups_not_read:
            say(
                f"{topic.topic}  offsets of {', '.join(topic.groups_not_read)} are those of an "
                "earlier run: their coordinator did not answer"
            )
    for part in report.partitions:
        if part.lost:
            say(
                f"{part.partition}  LOST {', '.join(gap.offsets for gap in part.lost)}: retention, "
                "deletion or an election removed them before they were copied. Back up more often, "
                "or let the topic keep records longer."
            )
        if unexplained := part.missing.get("unknown"):
            say(f"{part.partition}  {UNEXPLAINED.format(unexplained)}")
        if part.compared:
            say(f"{part.partition}  compared with the topic before the copy: {part.compared}")
        for doubt in part.unproved:
            say(f"{part.partition}  stays marked as not proved: {doubt}")
        if part.held_back:
            say(f"{part.partition}  {part.held_back:,} offsets left out: a transaction is open")
    for reason in report.unread_groups:
        say(f"? groups' offsets are not all known: {reason}")


COLUMNS = columns("Topic-partition", "Offsets", ">Records", ">Bytes", "Missing")
