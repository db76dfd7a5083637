"""`breakglass lab drill`: a random incident on a lab, recovered by keys and against the clock.

The score holds what was done against the best that the disks allowed, which only the bookkeeper
knows; then the best play is printed, step by step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.drill_play import (
    FROM_FILE,
    by_breakglass,
    by_hand,
    clock,
    concluded,
    handed_over,
    heard,
)
from breakglass.console.options import KAFKA, AsJson, KafkaVersion
from breakglass.console.output import columns, data_aside, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.extras import need
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.services.lab.incidents.drill import Drill
    from breakglass.services.lab.incidents.incident import LabIncident

LEVELS = ("easy", "medium", "hard")
SEEDS = 10_000

app = new_app(
    "Recover a random incident on a lab against the clock, and see what would have been best.\n\n"
    "The drill starts brokers on this machine and breaks them; the same seed and level make the "
    "same incident. The clock starts when the incident is handed over. Recover it in the console, "
    "in the drill's shell or from another terminal. The drill ends when nothing is offline that "
    "can be brought back, or when you say so.\n\n"
    "The score begins at 100. Taken off are: 100 times the share of partitions left without "
    "leader; 10 if any record is lost, and 60 times the share of records that are lost; 2 for each "
    "leader that cut off more than the best one would (at most 10); 5 for each setting that is not "
    "as it was (at most 10); 5 for each wrong verdict that was believed (at most 10); 1 for each "
    "full minute beyond ten (at most 5); 1 for each full 100 keys, and 10 lines in the shell, more "
    "than the best play takes (at most 5). A record that was saved before an election cut it off "
    "is not lost."
)
app.info.subcommand_metavar = "[COMMAND]"


@app.callback(invoke_without_command=True, no_args_is_help=False)
def drill(
    context: typer.Context,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, help="Number of the incident (default: any).", show_default=False
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            "--difficulty",
            "--level",
            metavar="|".join(LEVELS),
            help="How much has happened to the cluster.",
            autocompletion=lambda: list(LEVELS),
        ),
    ] = LEVELS[0],
    incident: Annotated[
        Path | None,
        typer.Option("--incident", metavar="FILE", help="An incident as JSON, in place of a seed."),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Let Breakglass recover by itself, and score that.")
    ] = False,
    kafka_version: KafkaVersion = KAFKA,
    keep: Annotated[
        bool, typer.Option("--keep-data", "--keep", help="Keep data and logs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Recover a random incident on a lab against the clock."""
    if context.invoked_subcommand is not None:
        return
    if level not in LEVELS:
        raise UsageError(f"there is no level {level!r}: name one of {', '.join(LEVELS)}")
    if not auto:
        from breakglass.console.console import require_terminal

        try:
            require_terminal()
        except UsageError:
            raise UsageError(
                "a drill needs a terminal: run it in one, or let Breakglass play by --auto"
            ) from None
    from random import SystemRandom

    seed = SystemRandom().randrange(SEEDS) if seed is None else seed
    incidents = _incidents(seed, level, incident, kafka_version)
    with data_aside(as_json and auto):
        document = _played(incidents, FROM_FILE if incident else level, auto=auto, keep=keep)
    if as_json:
        print_json(document)
    if not auto:
        from breakglass.console.on_terminal import leave

        # The console's threads may still wait for a broker that was taken down.
        leave(0)


@app.command("history")
def show_history(as_json: AsJson = False) -> None:
    """Print the scores of the drills that were played on this machine, oldest first."""
    from breakglass.services.lab.incidents.history import history

    drills = history(state_folder())
    if as_json:
        print_json({"schema": 1, "drills": drills})
    elif not drills:
        say("No drill was played to its end yet: `breakglass lab drill` begins one.")
    else:
        rows = [
            (
                *(played.at, played.level, str(played.seed), played.player),
                *(f"{played.score}", f"{played.lost:,}", f"{played.left:,}"),
                *(clock(played.seconds), f"{played.keys:,}", f"{played.commands:,}"),
            )
            for played in drills
        ]
        print_table(HISTORY_COLUMNS, rows)


HISTORY_COLUMNS = columns(
    "Ended", "Level", ">Seed", "Player", ">Score", ">Lost", ">Left", ">Time", ">Keys", ">Lines"
)


def _incidents(
    seed: int, level: str, path: Path | None, kafka_version: str
) -> Iterator[LabIncident]:
    """The incidents to try, in their order. Raises UsageError: the file is of no incident."""
    from dataclasses import replace

    from breakglass.services.lab.incidents.incident import from_json
    from breakglass.services.lab.incidents.levels import DrillLevel, as_drill, drill_incidents

    if path is None:
        found = drill_incidents(seed, DrillLevel(level))
    else:
        try:
            found = iter([as_drill(from_json(path.read_text(encoding="utf-8")))])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} holds no incident that can be read: {error!r}") from error
    return (replace(incident, kafka_version=kafka_version) for incident in found)


def _played(
    incidents: Iterator[LabIncident], level: str, *, auto: bool, keep: bool
) -> dict[str, object]:
    """The whole drill; returns what came of it, as a document."""
    from breakglass.services.connection.sources import ConnectionOptions

    with _raised(incidents, level, keep=keep) as drill:
        connection = Connection(ConnectionOptions(drill.cluster.bootstrap_servers), write=True)
        drill.hear(heard(connection, drill.handed_over.brokers.gone))
        for line in handed_over(drill, level):
            say(line)
        play = by_breakglass if auto else by_hand
        return concluded(drill, level, play(drill, connection))


@contextmanager
def _raised(incidents: Iterator[LabIncident], level: str, *, keep: bool) -> Iterator[Drill]:
    """A lab with the incident on it, taken down whatever becomes of this process."""
    need("lab")
    from breakglass.services.lab.incidents.drill import raise_drill
    from breakglass.services.lab.keeper import kept

    folder = Path(tempfile.mkdtemp(prefix="breakglass-drill-"))
    with kept(folder, state_folder(), keep=keep) as lab:
        say(f"Starting a lab and breaking it ({level}); this takes half a minute or more.")
        yield raise_drill(incidents, lab)
        say("Taking the lab down.")
    if keep:
        say(f"Data and logs are in {folder}.")
