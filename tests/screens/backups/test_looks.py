"""What the backups look like in both sizes."""

from __future__ import annotations

import pytest

from breakglass.services.backup_watch.job import Life
from breakglass.services.errors import StorageError
from tests.screens.backups.held import (
    FAR,
    MAIN,
    CannedBackups,
    Places,
    backups_of,
    every_state,
    job,
    seen,
)
from tests.screens.canned_access import CannedAccess
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import text, until

STALE = StorageError("/mnt/far: Stale file handle; check the disk and the kernel's log.")


@pytest.mark.usefixtures("live_ends")
@pytest.mark.parametrize("look", LOOKS)
async def test_the_backups_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    dead = seen(job("restore", FAR, pid=99, topic="refunds"), Life.DEAD)
    watch = CannedBackups(Places({MAIN: every_state(), FAR: STALE}), [seen(job()), dead])
    console = backups_of(
        watch, access=CannedAccess().as_access, theme=look.theme, clock=stopped_clock
    )
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: "refunds" in text(console), "the topics")
        await until(pilot, lambda: " 500 " in text(console), "the lags")
        await pilot.press("down", "down", "down", "right", "down", "down")
        await until(pilot, lambda: "12 lost" in text(console), "the gaps")
        await at_rest(pilot)
        drawn_as_before(console)
