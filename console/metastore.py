"""The command `breakglass metastore`: the command topic of ksqlDB, its backups, its restore.

Here are the commands that work on the file of a backup alone: `verify`, `compact` and `lines`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.metastore_backup import backup
from breakglass.console.metastore_log import history, list_objects, validate
from breakglass.console.metastore_options import BackupFile
from breakglass.console.metastore_restore import restore
from breakglass.console.metastore_submit import submit
from breakglass.console.options import AsJson
from breakglass.console.output import print_json, say
from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.metastore.side_file import MetastoreVerification


def verify(
    file: BackupFile,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="HEX",
            help="Digest that an earlier verify printed, to compare with.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a backup, and compare its commands with those of its side file.

    Lines are checked as a restore checks them. The chain of hashes in the side file finds bit rot,
    commands that are missing or were added, and any change that did not rewrite the chain as well.
    A digest that you noted elsewhere also finds a change that rewrote the chain. Ends with 1 when
    something is wrong, or when the file holds no command; with 4 when no side file shows whether
    these are all commands.
    """
    from breakglass.services.metastore.side_file import verify_backup

    verified = verify_backup(file)
    matches = digest is None or digest.lower() == verified.digest
    whole = verified.whole if matches else False
    if as_json:
        print_json(_document(verified, whole, matches=matches))
    else:
        _print(verified, whole, matches=matches)
    raise typer.Exit(4 if isinstance(whole, Unknown) else 0 if whole else 1)


def _document(
    verified: MetastoreVerification, whole: bool | Unknown, *, matches: bool
) -> dict[str, Any]:
    header = verified.header
    return {
        "schema": 1,
        "file": verified.file,
        "bytes": verified.bytes,
        "commands": verified.commands,
        "whole": whole,
        "findings": verified.findings,
        "untold": verified.untold,
        "chain": {
            "noted": verified.noted,
            "changed_lines": verified.changed,
            "missing": verified.missing,
            "unnoted_bytes": verified.unnoted_bytes,
            "digest": verified.digest,
            "matches": matches,
            "unread": verified.side,
        },
        "topic": None if header is None else header.topic,
        "topic_id": None if header is None else header.topic_id,
        "diverged": None if header is None else header.diverged or None,
    }


def _print(verified: MetastoreVerification, whole: bool | Unknown, *, matches: bool) -> None:
    for finding in verified.findings:
        say(str(finding))
    for line in verified.changed:
        entry = f"line {line} of the backup, or its entry in the side file,"
        say(f"{entry} was changed" if line else "the side file's first line was changed")
    if not verified.commands:
        say("the file holds no command")
    if verified.untold:
        say(f"{verified.untold:,} more findings are not shown")
    if verified.missing:
        say(f"{verified.missing:,} commands are missing at the end, the side file notes them")
    if verified.unnoted_bytes:
        say(f"the last {verified.unnoted_bytes:,} bytes are not in the side file")
    if not matches:
        say("the digest is another: lines or the side file were changed or added since")
    if isinstance(whole, Unknown):
        say(whole.reason)
        state = "NOT PROVED TO BE ALL"
    else:
        state = "the same as in its side file: whole" if whole else "NOT WHOLE"
    print(f"{state}  {verified.commands:,} commands  digest {verified.digest or '-'}")


def compact(
    file: BackupFile,
    out: Annotated[
        Path,
        typer.Option("--out", "--to", metavar="DIR", help="A new folder for the smaller backup."),
    ],
    as_json: AsJson = False,
) -> None:
    """Write a smaller backup, without commands that were terminated or superseded.

    Objects, ids and offsets stay as they are. Both backups are replayed, and the new file is
    written only if they become the same metastore. The topic is not changed; `metastore restore`
    restores the new file.
    """
    from breakglass.services.metastore.compaction import compact as compacted
    from breakglass.services.metastore.compaction import write_compacted
    from breakglass.services.metastore.restore.source import Skips, read_source

    source = read_source(file, Skips(), only_read=True)
    told = compacted(source.records)
    written = write_compacted(source, told, out)
    if as_json:
        document = {"file": written, "commands_before": told.before, "digest": told.digest}
        kept = {"commands": len(told.records), "dropped": told.dropped, "stripped": told.stripped}
        print_json({"schema": 1, **document, **kept})
    else:
        print(f"{written}  {len(told.records):,} of {told.before:,} commands")
        say(f"{len(told.stripped):,} kept their object and lost a query that has ended")
        say(f"both become the metastore {told.digest}")


def lines(file: BackupFile) -> None:
    """Print the lines of a backup for kafka-console-producer, as KLIP-31 restores them.

    A backup that kafka-console-producer would split wrongly is refused before anything is printed:
    a name with ':' in it, or a value with a line end. `metastore restore` restores such a
    backup, and the offsets as well.
    """
    from breakglass.services.metastore.lines import producible_lines
    from breakglass.services.metastore.side_file import verify_backup

    verify_backup(file).require_unchanged()
    for line in producible_lines(file):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


app = new_app("Back up, verify, restore, read and write the command topic of ksqlDB.")
app.command()(backup)
app.command()(verify)
app.command()(restore)
app.command("list")(list_objects)
app.command()(history)
app.command()(validate)
app.command()(submit)
app.command()(compact)
app.command()(lines)


@app.callback()
def metastore() -> None:
    """Back up, verify, restore, read and write the command topic of ksqlDB."""
