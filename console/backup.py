"""The command `breakglass backup`: make topic backups, look into them, prune them, repair them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_restore import restore
from breakglass.console.backup_run import run
from breakglass.console.backup_status import status
from breakglass.console.backup_verify import verify
from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import key_of, names_in, store_of
from breakglass.console.options import (
    AsJson,
    BackupStore,
    KeyFrom,
    OldDelete,
    OlderThan,
    Topics,
    size,
)
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.services.topic_backup.record import BytesAs
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.pipeline.acts.prune import Segments
    from breakglass.services.topic_backup.mending import MendedPartition
    from breakglass.services.topic_backup.reader import PartitionReader
    from breakglass.services.topic_backup.reindex import Reindexed


def prune(
    store: BackupStore,
    topics: Topics = None,
    older_than: OlderThan = None,
    keep_bytes: Annotated[
        int | None,
        size(
            "--keep-bytes",
            example="10GB",
            help="Select the oldest segments of a partition that is larger than this.",
        ),
    ] = None,
    keep_segments: Annotated[
        int | None,
        typer.Option(min=1, help="Select the oldest segments of a partition that has more than N."),
    ] = None,
    before_offset: Annotated[
        int | None,
        typer.Option(min=0, help="Select segments in which every offset is lower."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Delete them, after your consent.")
    ] = False,
    delete: OldDelete = False,
    key: KeyFrom = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """List the segments of a backup that may be deleted; with --write, delete them.

    Only whole segments are deleted, the oldest first. The last segment of a partition always stays.
    Manifest and indexes are updated, so that the rest can be restored. In a folder that Kafka
    Backup wrote, records are read to find how old a segment is; stop its connector first.
    """
    from breakglass.services.errors import Refused
    from breakglass.services.pipeline.acts.prune import PruneBackup
    from breakglass.services.topic_backup.prune import PruneLimits

    limits = PruneLimits(older_than, keep_bytes, before_offset, keep_segments)
    act = PruneBackup(store_of(store, key), names_in(topics), limits)
    command = GuardedCommand(act, Consent(tuple(consent or ())))
    frozen = command.freeze()
    found = frozen.plan
    deleting = write or delete
    if deleting and frozen.asked:
        if not as_json:
            _print(found)
        if frozen.remarks:
            raise Refused(frozen.remarks[0])
        found = command.carry_out(frozen, write=write).value
    if as_json:
        print_json({"schema": 1, "deleted": deleting, "segments": found})
    elif deleting:
        say(f"{sum(map(len, found.values())):,} segments deleted")
    else:
        _print(found)
    if not any(found.values()):
        say(
            "No segment is selected: whole segments go alone, the last one of a partition always "
            "stays, and all others are within these limits."
        )


def _print(found: Segments) -> None:
    rows = [
        (
            topic,
            segment.partition,
            segment.prefix,
            "-"
            if segment.first_offset is None
            else f"{segment.first_offset:,}-{segment.last_offset:,}",
            f"{segment.records:,}",
            f"{segment.bytes:,}",
            time_text(segment.max_timestamp),
        )
        for topic, some in found.items()
        for segment in some
    ]
    if not rows:
        say("No segment may be deleted.")
        return
    print_table(COLUMNS, rows)
    say(f"{len(rows):,} segments may be deleted")


COLUMNS = (
    Column("Topic"),
    Column("Partition", right=True),
    Column("Segment"),
    Column("Offsets"),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Newest"),
)


MOST_SAID = 100

app = new_app("Back up topics in the Kafka Backup format; verify, restore and prune backups.")
app.command()(run)
app.command()(verify)
app.command()(restore)
app.command()(status)
app.command()(prune)


@app.callback()
def backup() -> None:
    """Back up topics in the Kafka Backup format; verify, restore and prune backups."""


@app.command()
def cat(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL/TOPIC/PARTITION", help="Folder of the backup, topic and partition."
        ),
    ],
    start: Annotated[int, typer.Option("--from", min=0, help="First offset to print.")] = 0,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Offset to stop before.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one line for each record, on a terminal as well.")
    ] = False,
    bytes_as: Annotated[
        BytesAs,
        typer.Option(
            "--bytes",
            help="How keys, values and headers are printed; utf8 prints other bytes as U+FFFD.",
        ),
    ] = BytesAs.UTF8,
    key: KeyFrom = None,
    max_record_bytes: Annotated[
        int | None,
        size(
            "--max-record-bytes",
            example="256MiB",
            help="Refuse records that claim to be larger.",
            least=1,
            shown="256MiB",
        ),
    ] = None,
) -> None:
    """Print the records of one partition of a backup, one JSON object for each record.

    Backups of Kafka Backup's own connectors can be read as well. Parts that do not belong to the
    backup, such as the torn end that a killed writer left, are skipped with a note on stderr. Where
    files are damaged, every record that can be proved is printed, and the command ends with 1.
    """
    from json import dumps

    from breakglass.services.topic_backup.address import partition_of
    from breakglass.services.topic_backup.record import MAX_RECORD_BYTES, as_json

    reader = partition_of(source, max_record_bytes or MAX_RECORD_BYTES, key_of(key))
    indent = 2 if sys.stdout.isatty() and not json else None
    try:
        for record in reader.records(start, end):
            sys.stdout.write(dumps(as_json(record, bytes_as), indent=indent) + "\n")
    finally:
        _say_left_out(reader)
    if reader.salvaged or reader.damages:
        raise typer.Exit(1)


def _say_left_out(reader: PartitionReader) -> None:
    for left_out in reader.left_out[:MOST_SAID]:
        say(str(left_out))
    if len(reader.left_out) > MOST_SAID:
        say(f"and {len(reader.left_out) - MOST_SAID:,} more places")
    for doubt in reader.unproved[:MOST_SAID]:
        say(f"not proved when this copy was made: {doubt}")
    if reader.salvaged and not reader.unproved:
        for stretch in reader.stretches[:MOST_SAID]:
            say(f"salvaged: {stretch}")


@app.command()
def reindex(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL/TOPIC[/PARTITION]", help="Folder of the backup, topic, and partition."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--to",
            metavar="DIR",
            help="Folder of the repaired copy; the damaged backup is only read.",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Rebuild the indexes in the backup itself, on consent."),
    ] = False,
    key: KeyFrom = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the indexes of a backup from its records, or write a repaired copy.

    Kafka Backup's own restore needs the indexes; Breakglass reads without them. With --write, the
    indexes are rebuilt in place: records are not changed, and a segment that is damaged before its
    end keeps its index. With --out, the command writes a new backup of the whole topic, with every
    record that can be proved from the segments and their indexes. Ends with 1 where anything is
    damaged.
    """
    from breakglass.services.errors import ReadOnly
    from breakglass.services.pipeline.acts.reindex import RebuildIndexes
    from breakglass.services.topic_backup.address import mend_at
    from breakglass.services.topic_backup.group_history import outline

    if out is not None:
        mended = mend_at(source, out, key_of(key))
        _, lacking, lost = outline(mended.folder)
        _print_mended(mended.partitions, (*lacking, *lost), as_json=as_json)
        salvaged = any(partition.salvaged for partition in mended.partitions)
        raise typer.Exit(1 if salvaged or lacking or lost else 0)
    if not write:
        raise ReadOnly(
            "rebuilding indexes changes the backup: add --write, or --out DIR for a copy"
        )
    command = GuardedCommand(RebuildIndexes(source, key_of(key)), Consent(tuple(consent or ())))
    rebuilt = command.carry_out(command.freeze(), write=write).value
    if as_json:
        print_json({"segments": rebuilt})
    else:
        _print_rebuilt(rebuilt)
    if any(segment.damage and not segment.torn for segment in rebuilt):
        raise typer.Exit(1)


def _print_mended(
    mended: tuple[MendedPartition, ...], groups: tuple[str, ...], *, as_json: bool
) -> None:
    if as_json:
        print_json({"schema": 1, "partitions": mended, "groups_lacking": groups})
        return
    for lack in groups:
        say(lack)
    for partition in mended:
        print(f"partition {partition.partition}  {partition.records:,} records")
        for left_out in partition.left_out[:MOST_SAID]:
            say(str(left_out))
        for stretch in partition.stretches[:MOST_SAID] if partition.salvaged else ():
            say(f"partition {partition.partition}  {stretch}")
        for doubt in partition.unproved[:MOST_SAID]:
            say(f"partition {partition.partition}  stays marked as not proved: {doubt}")


def _print_rebuilt(rebuilt: tuple[Reindexed, ...]) -> None:
    from breakglass.console.output import Column, print_table

    columns = [
        Column("Segment"),
        Column("Records", right=True),
        Column("Left out", right=True),
        Column("Why"),
    ]
    rows = [
        (segment.prefix, segment.entries, segment.left_out, segment.damage) for segment in rebuilt
    ]
    print_table(columns, rows)
