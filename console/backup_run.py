"""`breakglass backup run`: back up topics, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from breakglass.console.backup_place import EncryptKey, place
from breakglass.console.backup_status import passed_over
from breakglass.console.option_values import names_in
from breakglass.console.options import connected
from breakglass.console.output import Column, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.pipeline.generations import NewGeneration

if TYPE_CHECKING:
    from breakglass.services.pipeline.continuous import Followed
    from breakglass.services.pipeline.report import BackupReport, PartitionReport, TopicReport


class BackupCompression(StrEnum):
    """How a backup can be compressed."""

    ZSTD = "zstd"


Topics = Annotated[
    str | None, typer.Option("--topics", metavar="A,B", help="Topics, with commas between.")
]
Pattern = Annotated[
    str | None,
    typer.Option("--topics-regex", metavar="REGEX", help="Topics whose whole name it fits."),
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs; this machine by default.")
]


@connected
def run(
    connection: Connection,
    to: Annotated[
        str,
        typer.Option("--to", metavar="URL", help="Folder of the backup, or s3://BUCKET/PREFIX."),
    ],
    topics: Topics = None,
    topics_regex: Pattern = None,
    max_segment_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="A segment larger than this is closed (1 GiB by default)."),
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Go on until a signal asks to stop.")
    ] = False,
    every: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Seconds between two looks at every topic, with --continuous.",
        ),
    ] = 10.0,
    compress: Annotated[
        BackupCompression | None,
        typer.Option(help="Compress; Kafka Backup's own readers cannot read that."),
    ] = None,
    encrypt_key: EncryptKey = None,
    new_generation: Annotated[
        NewGeneration | None,
        typer.Option(
            help="Folder of a topic that was created again, or cut: TOPIC~2 beside the older one "
            "(default), or TOPIC, with the older one set aside as TOPIC~1 for Kafka Backup's sake."
        ),
    ] = None,
    master: Master = "local[*,4]",
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines; the last one sums up.")
    ] = False,
) -> None:
    """Back up topics in the Kafka Backup format, from where the last backup ended.

    Copies committed records up to where each partition ends now, and ends. What an open
    transaction holds back is left out and said. Each topic's manifest is written last: a run
    that is killed leaves the backup as it was. A topic created again, or cut by an unclean
    election, begins a folder of its own. With --continuous records are copied as they
    come, and topics and partitions as they are made. With --compress or --encrypt-key, files have
    other names (.zst, .aes), and only Breakglass reads them.
    """
    from breakglass.console.backup_progress import lasting
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.extras import need

    need("pipeline")
    from breakglass.services.lag import LagAlarm
    from breakglass.services.pipeline.backup import back_up
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.continuous import follow
    from breakglass.services.pipeline.generations import require_replaceable
    from breakglass.services.pipeline.session import Spark
    from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
    from breakglass.services.topic_backup.store.form import StoredForm

    wanted = chosen(topics, topics_regex)
    settings = BackupSettings(
        place(to, encrypt_key),
        max_segment_bytes or MAX_SEGMENT_BYTES,
        form=StoredForm(compressed=compress is not None, encrypted=encrypt_key is not None),
        new_generation=new_generation,
    )
    if new_generation is NewGeneration.REPLACE:
        require_replaceable(settings.store, settings.form)
    with StopSignal() as stop, Spark(master) as spark, connection.reading() as client:
        spark.begin()
        access = connection.access()
        with lasting(as_json=as_json, job=("backup", to)) as (tell, heard):

            def begin(meter: Meter) -> BackupRun:
                return BackupRun(client, spark, access, settings, meter)

            if continuous:
                stop.armed()
                followed = follow(
                    begin,
                    wanted,
                    tell,
                    lambda: stop.requested,
                    every=every,
                    told=_say_left_out,
                    lag=LagAlarm(heard),
                )
            else:
                report = back_up(begin(Meter(tell)), wanted)
    if continuous:
        _end(followed, as_json=as_json)
    if as_json:
        print(json.dumps(document(report)))
    else:
        print_report(report)
    _say_left_out(report)
    raise typer.Exit(0 if report.whole else 1)


def _end(followed: Followed, *, as_json: bool) -> NoReturn:
    """Sum up what was backed up until the signal came, and leave."""
    if as_json:
        figures = {"runs": followed.runs, "records": followed.records, "bytes": followed.bytes}
        rest = {
            "batches": followed.batches,
            "seconds": round(followed.seconds, 3),
            "partitions": followed.partitions,
            "gaps": followed.missing,
            "whole": not followed.failures,
        }
        print(json.dumps({"schema": 1, **figures, **rest, "failures": followed.failures}))
    else:
        say(f"{followed.records:,} records, {followed.bytes:,} bytes in {followed.runs:,} runs")
    raise typer.Exit(1 if followed.failures else 0)


def chosen(topics: str | None, pattern: str | None) -> Any:
    """The topics that the options name.

    Raises:
        UsageError: they name none.
    """
    from breakglass.services.errors import UsageError
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
        "held_back": sum(one.held_back for one in report.partitions),
        "whole": report.whole,
        "topics": [_topic(one) for one in report.topics],
        "unread_groups": list(report.unread_groups),
    }


def _topic(one: TopicReport) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "folder": one.folder,
        "generation": one.generation,
        "new_generation": one.new_generation or None,
        "passed_over_by_kafka_backup": one.passed_over,
        "error": one.error or None,
        "unread": {str(number): reason for number, reason in one.unread.items()},
        "partitions": [_partition(part) for part in one.partitions],
    }


def _partition(one: PartitionReport) -> dict[str, Any]:
    return {
        "partition": one.partition.partition,
        "start": one.start,
        "end": one.end,
        "records": one.records,
        "bytes": one.bytes,
        "gaps": one.missing,
        "held_back": one.held_back,
    }


def print_report(report: BackupReport) -> None:
    """A line for each partition, and what the run did in all."""
    print_table(COLUMNS, _rows(report))
    rate = report.bytes / max(report.seconds, 0.001) / 1e6
    say(
        f"{report.records:,} records, {report.bytes:,} bytes in {report.seconds:,.1f} s "
        f"({rate:,.0f} MB/s)"
    )


def _rows(report: BackupReport) -> Iterator[tuple[object, ...]]:
    for one in report.partitions:
        gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(one.missing.items()))
        offsets = f"{one.start:,}-{one.end - 1:,}" if one.start < one.end else "-"
        yield one.partition, offsets, f"{one.records:,}", f"{one.bytes:,}", gaps or "-"


def _say_left_out(report: BackupReport) -> None:
    for topic in report.topics:
        if topic.new_generation:
            say(f"{topic.topic}  new generation in {topic.folder}: {topic.new_generation}")
        if topic.passed_over:
            say(passed_over(topic.topic, topic.folder))
        if topic.error:
            say(f"{topic.topic}  not backed up: {topic.error}")
        for number, reason in topic.unread.items():
            say(f"{topic.topic}-{number}  not backed up: {reason}")
    for one in report.partitions:
        if one.held_back:
            say(f"{one.partition}  {one.held_back:,} offsets left out: a transaction is open")
    for reason in report.unread_groups:
        say(f"? groups' offsets are not all known: {reason}")


COLUMNS = (
    Column("Topic-partition"),
    Column("Offsets"),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Missing"),
)
