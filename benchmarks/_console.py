"""The console on a generated incident: how it is started, and what its screen has to tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks._measure import Program, ours
from breakglass.services.recovery.judgement.assessment import Verdict

NEVER_SECONDS = 3600.0
"""Refreshes so far apart that no benchmark sees a second one."""
JUDGED_SECONDS = 300.0
"""Time enough to read 100,000 partitions on a busy machine."""

Shown = Callable[[str], bool]
"""Whether the text of a screen holds what is waited for."""

_VERDICT = re.compile(rf"\b({'|'.join(Verdict)})\b")


def console(address: str, folder: Path, interval: float = NEVER_SECONDS) -> Program:
    """The console, read-only, with a refresh each *interval* seconds."""
    program = ours("breakglass", folder, "--bootstrap-server", address)
    settings = folder / "config" / "breakglass" / "console.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"refresh-seconds = {interval}\n", encoding="utf-8")
    return program


def useful(count: int) -> Shown:
    """It tells how many partitions are offline, and at least one verdict."""
    offline = f"{count:,} offline"
    return lambda text: offline in text and _VERDICT.search(text) is not None


def judged(count: int) -> Shown:
    """All are judged: the headline speaks of *count*."""
    headline = f" of {count:,} come back whole."
    return lambda text: headline in " ".join(text.split())
