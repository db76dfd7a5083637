"""`breakglass metastore compact`: a smaller backup that becomes the same metastore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breakglass.console.metastore_options import BackupFile
from breakglass.console.options import AsJson
from breakglass.console.output import print_json, say


def compact(
    file: BackupFile,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="A new folder for the smaller one.")
    ],
    as_json: AsJson = False,
) -> None:
    """Leave out of a backup what was terminated and superseded, into a new file.

    Objects, ids and offsets stay as they are. Both files are replayed, and the new one is written
    only if they become the same metastore. The topic is not touched: `metastore restore --from`
    puts the new file in its place, under guard.
    """
    from breakglass.services.metastore.compaction import compact as compacted
    from breakglass.services.metastore.compaction import write_compacted
    from breakglass.services.metastore.restore.source import Skips, read_source

    source = read_source(file, Skips(), only_read=True)
    told = compacted(source.records)
    written = write_compacted(source, told, to)
    if as_json:
        document = {"file": written, "commands_before": told.before, "digest": told.digest}
        kept = {"commands": len(told.records), "dropped": told.dropped, "stripped": told.stripped}
        print_json({"schema": 1, **document, **kept})
    else:
        print(f"{written}  {len(told.records):,} of {told.before:,} commands")
        say(f"{len(told.stripped):,} kept their object and lost a query that has ended")
        say(f"both become the metastore {told.digest}")
