"""Installs the built wheel for a user who has nothing, and uses it: `make installed`.

Prints a line for each step: the seconds that it took, and a line of its output that shows it. The
first step that fails ends the run with 1, and what it printed is shown.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.release import build
from tests.installed.user import INSTALLERS, NewUser, StepFailed

ROOT = Path(__file__).parents[2]
MOMENT = "1764028800"
"""The time of every file in the wheel; any will do."""
DRILL = ("--seed", "1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Install and use the wheel that *arguments* name, or the one of this tree."""
    options = argparse.ArgumentParser(prog="python -m tests.installed", description=__doc__)
    options.add_argument("--by", choices=INSTALLERS, default=INSTALLERS[0], help="what installs")
    options.add_argument("--wheel", type=Path, help="the wheel (default: one of this tree)")
    options.add_argument("--under", type=Path, help="folder for the new home (default: of the OS)")
    asked = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="breakglass-installed-", dir=asked.under) as folder:
        wheel = asked.wheel or _built(Path(folder))
        user = NewUser(Path(folder) / "home", os.environ)
        try:
            for name, step in _steps(user, wheel, asked.by):
                began = time.monotonic()
                said = step()
                print(f"ok  {time.monotonic() - began:6.1f} s  {name}: {said}", flush=True)
        except StepFailed as failed:
            print(f"FAILED  {failed}")
            user.end_lab(Path(folder) / "home" / "lab")
            return 1
    return 0


def _built(folder: Path) -> Path:
    (folder / "dist").mkdir()
    build(folder / "dist", MOMENT)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _steps(user: NewUser, wheel: Path, installer: str) -> Sequence[tuple[str, Callable[[], str]]]:
    """Each step's name, and what does it and returns the line that shows it."""
    bundle, state = user.home / "incident.tar.gz", ("--state", str(user.home / "lab"))

    def of_the_cluster(*words: str, **wanted: Any) -> str:
        summary = user.json("lab", "status", *state, "--json")
        return user.run(*words, "--bootstrap-server", summary["bootstrap_servers"], **wanted)

    return (
        (f"install by {installer}", lambda: user.install(wheel, "lab,web", installer)),
        ("doctor", lambda: user.run("doctor", saying="versions")),
        (
            "demo",
            lambda: user.run("lab", "demo", "--automatic", saying="are as the lab knows them"),
        ),
        ("drill", lambda: user.run("lab", "drill", "--auto", *DRILL, saying="Score")),
        ("lab", lambda: user.run("lab", "scenario", "diverged", *state, saying="diverged")),
        # One of its brokers is dead, which is something to do.
        ("doctor, of it", lambda: of_the_cluster("doctor", saying="2 of 3 answer", code=1)),
        (
            "capture",
            lambda: of_the_cluster("bundle", "capture", "--out", str(bundle), saying=bundle.name),
        ),
        ("lab down", lambda: user.run("lab", "down", *state, saying="is down")),
        ("open --list", lambda: user.run("open", str(bundle), "--list", saying="evidence.jsonl")),
        ("open", lambda: user.look_at(bundle)),
    )


if __name__ == "__main__":
    sys.exit(main())
