"""`breakglass backup prune`: which old segments can go, and their removal under guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_place import EncryptKey, OnlyTopics, Source, place
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import duration_ms, names_in
from breakglass.console.options import AsJson
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.pipeline.acts.prune import Segments


def prune(
    source: Source,
    topics: OnlyTopics = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="All of whose records are older: 30d, 12h, 90m."),
    ] = None,
    keep_bytes: Annotated[
        int | None, typer.Option(min=0, help="Of each partition, the newest so many bytes stay.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove them, after your consent.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Allow this command to change the backup.")
    ] = False,
    encrypt_key: EncryptKey = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """List the old segments of a backup that can go; with --delete and --write, remove them.

    Only whole segments go, the oldest first, never the last of a partition. Manifest and indexes
    are brought along, so that what stays can be restored.
    """
    from breakglass.services.pipeline.acts.prune import PruneBackup
    from breakglass.services.topic_backup.prune import PruneLimits

    limits = PruneLimits(duration_ms(older_than, "--older-than"), keep_bytes)
    act = PruneBackup(place(source, encrypt_key), names_in(topics), limits)
    command = GuardedCommand(act, Consent(tuple(consent or ())))
    frozen = command.freeze()
    found = frozen.plan
    if delete and frozen.asked:
        if not as_json:
            _print(found)
        found = command.carry_out(frozen, write=write).value
    if as_json:
        print_json({"schema": 1, "deleted": delete, "segments": found})
    elif delete:
        say(f"{sum(map(len, found.values())):,} segments removed")
    else:
        _print(found)


def _print(found: Segments) -> None:
    rows = [
        (
            topic,
            one.partition,
            one.prefix,
            "-" if one.first_offset is None else f"{one.first_offset:,}-{one.last_offset:,}",
            f"{one.records:,}",
            f"{one.bytes:,}",
            time_text(one.max_timestamp),
        )
        for topic, some in found.items()
        for one in some
    ]
    if not rows:
        say("Nothing can go.")
        return
    print_table(COLUMNS, rows)
    say(f"{len(rows):,} segments can go")


COLUMNS = (
    Column("Topic"),
    Column("Partition", right=True),
    Column("Segment"),
    Column("Offsets"),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Newest"),
)
