"""The command `breakglass checkpoint`: consistent checkpoints of topics and groups (ZEP-008)."""

from __future__ import annotations

from breakglass.console.checkpoint_delete import delete, retain
from breakglass.console.checkpoint_finish import finish
from breakglass.console.checkpoint_list import list_all, status
from breakglass.console.checkpoint_restore import restore_checkpoint
from breakglass.console.checkpoint_serve import serve
from breakglass.console.checkpoint_take import take
from breakglass.console.checkpoint_verify import verify
from breakglass.console.commands import new_app

app = new_app("Take, watch, delete and restore consistent checkpoints of topics and groups.")
app.command()(take)
app.command()(finish)
app.command()(status)
app.command("list")(list_all)
app.command()(verify)
app.command("restore")(restore_checkpoint)
app.command()(delete)
app.command()(retain)
app.command()(serve)


@app.callback()
def checkpoint() -> None:
    """Take, watch, delete and restore consistent checkpoints of topics and groups."""
