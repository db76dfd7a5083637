"""The command `breakglass backup`: make topic backups, look into them, mend what can be mended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_place import EncryptKey, key_of
from breakglass.console.backup_prune import prune
from breakglass.console.backup_restore import restore
from breakglass.console.backup_run import run
from breakglass.console.backup_status import status
from breakglass.console.backup_verify import verify
from breakglass.console.commands import new_app
from breakglass.console.output import print_json, say
from breakglass.services.topic_backup.display import BytesAs

if TYPE_CHECKING:
    from breakglass.services.topic_backup.mending import MendedPartition
    from breakglass.services.topic_backup.reader import PartitionReader
    from breakglass.services.topic_backup.reindex import Reindexed

MOST_SAID = 100

app = new_app("Back up topics in the Kafka Backup format; read backups, rebuild their indexes.")
app.command()(run)
app.command()(verify)
app.command()(restore)
app.command()(status)
app.command()(prune)


@app.callback()
def backup() -> None:
    """Back up topics in the Kafka Backup format; read backups, rebuild their indexes."""


@app.command()
def cat(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL/TOPIC/PARTITION", help="Folder of the backup, topic and partition."
        ),
    ],
    start: Annotated[int, typer.Option("--from", min=0, help="First offset to be printed.")] = 0,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Offset to stop before.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One line a record on a terminal, too.")
    ] = False,
    bytes_as: Annotated[
        BytesAs,
        typer.Option(
            "--bytes",
            help="How keys, values and headers are shown; utf8 shows other bytes as U+FFFD.",
        ),
    ] = BytesAs.UTF8,
    encrypt_key: EncryptKey = None,
    max_record_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="Refuse records that claim more bytes (256 MiB by default)."),
    ] = None,
) -> None:
    """Print the records of one partition of a backup, one JSON object a record.

    Backups of Kafka Backup's own connectors are read as well as ours. What is not part of the
    backup, as the torn end that a killed writer left, is passed over with a note on stderr. Where
    files are damaged every record is printed that can be proved; then it ends with 1.
    """
    from json import dumps

    from breakglass.services.topic_backup.address import partition_of
    from breakglass.services.topic_backup.display import as_json
    from breakglass.services.topic_backup.record import MAX_RECORD_BYTES

    reader = partition_of(source, max_record_bytes or MAX_RECORD_BYTES, key_of(encrypt_key))
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
    if reader.salvaged:
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
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write every record that can be proved to a new backup there; the damaged one is "
            "only read.",
        ),
    ] = None,
    encrypt_key: EncryptKey = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Rebuild the indexes of a backup from its records, or write a mended copy of it.

    Records are not touched. Needed by Kafka Backup's own restore when indexes are missing or
    stale; Breakglass reads without them. A segment that is damaged before its end keeps its
    index, and this ends with 1: with --to every record that records and index prove goes to a new
    backup, of the whole topic. That ends with 1, too, where anything was damaged.
    """
    from breakglass.services.topic_backup.address import mend_at, reindex_all

    if to is not None:
        mended = mend_at(source, to, key_of(encrypt_key))
        _print_mended(mended, as_json=json)
        raise typer.Exit(1 if any(one.salvaged for one in mended) else 0)
    rebuilt = reindex_all(source, key_of(encrypt_key))
    if json:
        print_json({"segments": rebuilt})
    else:
        _print_rebuilt(rebuilt)
    if any(one.damage and not one.torn for one in rebuilt):
        raise typer.Exit(1)


def _print_mended(mended: tuple[MendedPartition, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": 1, "partitions": mended})
        return
    for one in mended:
        print(f"partition {one.partition}  {one.records:,} records")
        for left_out in one.left_out[:MOST_SAID]:
            say(str(left_out))
        for stretch in one.stretches[:MOST_SAID] if one.salvaged else ():
            say(f"partition {one.partition}  {stretch}")


def _print_rebuilt(rebuilt: tuple[Reindexed, ...]) -> None:
    from breakglass.console.output import Column, print_table

    columns = [
        Column("Segment"),
        Column("Records", right=True),
        Column("Left out", right=True),
        Column("Why"),
    ]
    rows = [(one.prefix, one.entries, one.left_out, one.damage) for one in rebuilt]
    print_table(columns, rows)
