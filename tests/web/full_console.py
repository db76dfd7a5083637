"""A browser's console with something on each of its eight screens."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from breakglass.console.driver import leave, run_in_loop
from breakglass.console.exits import guarded
from breakglass.console.web.session import WebConsole
from breakglass.services.backup_watch.watch import BackupWatch
from tests.kit.incidents import every_verdict
from tests.screens.canned_access import CannedAccess
from tests.screens.checkpoints.held import bank, canned, seen
from tests.screens.consoles import console_on
from tests.unit.recovery.timeline import journals
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run

BACKUPS, CHECKPOINTS, STATE = "backups", "checkpoints", "state"


def furnish(folder: Path) -> None:
    """Make a backup, a store of checkpoints, and the journal of a recovery."""
    for name in (BACKUPS, CHECKPOINTS, STATE):
        (folder / name).mkdir()
    back_up(folder / BACKUPS, run(0, 8))
    bank(folder / CHECKPOINTS)
    journals.recovery(folder / STATE)


def full_console(folder: Path, **given: Any) -> WebConsole:
    """The console on what `furnish` has made in *folder*."""
    from breakglass.services.checkpoint.store.backup_store import BackupStore

    access = CannedAccess().as_access
    context = console_on(every_verdict(), access=access, state_folder=folder / STATE).context
    shown = replace(
        context,
        backups=BackupWatch((str(folder / BACKUPS),), jobs=lambda _: ()),
        checkpoints=canned(seen(BackupStore(str(folder / CHECKPOINTS)))),
    )
    return WebConsole(shown, theme="breakglass-dark", **given)


def main() -> None:
    """Run it behind stdin and stdout."""
    with tempfile.TemporaryDirectory() as folder:
        furnish(Path(folder))
        leave(run_in_loop(full_console(Path(folder)), mouse=True))


if __name__ == "__main__":
    sys.exit(guarded(main))
