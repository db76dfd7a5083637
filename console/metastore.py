"""The command `breakglass metastore`: the command topic of ksqlDB, its backups, its restore."""

from __future__ import annotations

from breakglass.console.commands import new_app
from breakglass.console.metastore_backup import backup
from breakglass.console.metastore_compact import compact
from breakglass.console.metastore_lines import lines
from breakglass.console.metastore_log import history, list_objects, submit, validate
from breakglass.console.metastore_restore import restore
from breakglass.console.metastore_verify import verify

app = new_app("Back up, restore, read and write the command topic of ksqlDB.")
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
    """Back up, verify and restore the command topic of ksqlDB."""
