"""`breakglass lab drill`: a random incident on a lab, recovered by keys and against the clock.

The score holds what was done against the best that the disks allowed, which only the bookkeeper
knows; then the best play is printed, step by step. The keys of the console are counted, and the
lines that are typed in the shell of the drill; what is done from another terminal counts for the
score and is not counted itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import INTERRUPTED
from breakglass.console.options import KAFKA, AsJson, KafkaVersion
from breakglass.console.output import (
    columns,
    data_aside,
    json_text,
    print_json,
    print_lines,
    print_table,
    say,
)
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.extras import need
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.bookkeeping.judge import SaidPartition
    from breakglass.bookkeeping.score import DrillScore
    from breakglass.services.lab.incidents.drill import Drill, HandedOver
    from breakglass.services.lab.incidents.incident import LabIncident
    from breakglass.services.lab.incidents.replay import BestPlay

STDIN = 0
READ_SIZE = 4096
LOOK_SECONDS = 1.0
"""How soon the drill notices that nothing is offline any more."""
ANSWER_SECONDS = 10.0
CHOICES = "Enter: the console   s: a shell   d: done"
SHELL = "/bin/sh"
AUTO, KEYS = "auto", "keys"


@dataclass
class Played:
    """Who played, and what it took."""

    player: str
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    keys: int = 0
    commands: int = 0

    @property
    def clock(self) -> str:
        return clock(time.monotonic() - self.began)

    def count_key(self) -> None:
        self.keys += 1

    def ended(self) -> Played:
        self.seconds = time.monotonic() - self.began
        return self


def heard(connection: Connection, gone: Collection[int]) -> list[SaidPartition]:
    """What `breakglass triage --json --gone` says."""
    from breakglass.bookkeeping.judge import judged
    from breakglass.console.documents import PARTITIONS, triage_partitions
    from breakglass.services.recovery.triage import triage

    with connection.reading() as client:
        *_, found = triage(client, ANSWER_SECONDS, gone=tuple(gone))
    return judged(json.loads(json_text({PARTITIONS: list(triage_partitions(found))})))


def by_breakglass(drill: Drill, connection: Connection) -> Played:
    """Let Breakglass recover unattended."""
    from breakglass.console.unattended import Unattended

    played = Played(AUTO)
    Unattended(connection, drill.cluster, drill.handed_over.scene.returnable).recover()
    return played.ended()


def by_hand(drill: Drill, connection: Connection) -> Played:
    """Let a person recover, until nothing is offline or the person is done.

    Raises KeyboardInterrupt: the console was ended by a signal, or the terminal is gone.
    """
    played = Played(KEYS)
    say(f"The clock runs.   {CHOICES}")
    while (choice := _choice(drill)) is not None:
        if choice == "s":
            _shell(drill, played)
        elif choice == "":
            from breakglass.console.console import practise_on

            if practise_on(connection, played.count_key) == INTERRUPTED:
                raise KeyboardInterrupt
        else:
            say(CHOICES)
            continue
        if drill.over:
            break
        say(f"{played.clock}  Partitions are offline.   {CHOICES}")
    return played.ended()


def _choice(drill: Drill) -> str | None:
    """What is typed at the prompt; None: the person is done, or nothing is offline any more."""
    while True:
        ready, _, _ = select.select([STDIN], [], [], LOOK_SECONDS)
        if ready:
            # Not by sys.stdin, which would keep what was typed ahead for itself.
            typed = os.read(STDIN, READ_SIZE).decode("utf-8", "replace")
            choice = typed.strip().lower()
            return None if choice == "d" or not typed else choice
        if drill.over:
            say("Nothing is offline any more that can be brought back.")
            return None


def _shell(drill: Drill, played: Played) -> None:
    """Run the person's shell on a terminal of its own, which counts the lines that are typed."""
    say('`breakglass` finds the cluster here; "$LAB" is the lab; `exit` leads back.')
    terminal = _CountingTerminal()
    lab = drill.cluster.state_dir
    settings = {"BREAKGLASS_BOOTSTRAP_SERVER": drill.cluster.bootstrap_servers, "LAB": str(lab)}
    with _environment(settings, str(lab.parent)), terminal.resized_as_ours():
        try:
            pty.spawn([os.environ.get("SHELL", SHELL)], terminal.shown, terminal.typed)
        except termios.error as error:
            # The terminal is gone, and cannot be set as it was.
            raise KeyboardInterrupt from error
        finally:
            played.commands += terminal.lines


@contextmanager
def _environment(settings: dict[str, str], folder: str) -> Iterator[None]:
    """What the shell inherits: these settings, and its folder, where plans may be written."""
    before, here = dict(os.environ), os.getcwd()
    os.environ.update(settings)
    os.chdir(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)


class _CountingTerminal:
    """Between our terminal and the shell's: passes everything on, and counts lines."""

    def __init__(self) -> None:
        self.lines = 0
        self._descriptor: int | None = None

    def typed(self, descriptor: int) -> bytes:
        """What the keyboard says; an Enter ends a line, also one that was typed ahead."""
        content = os.read(descriptor, READ_SIZE)
        self.lines += content.count(b"\r") + content.count(b"\n")
        return content

    def shown(self, descriptor: int) -> bytes:
        if self._descriptor is None:
            self._descriptor = descriptor
            self._resize()
        return os.read(descriptor, READ_SIZE)

    @contextmanager
    def resized_as_ours(self) -> Iterator[None]:
        """Give the shell's terminal the size of ours, now and whenever it changes."""
        before = signal.signal(signal.SIGWINCH, lambda *_: self._resize())
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    def _resize(self) -> None:
        if self._descriptor is not None:
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)


FROM_FILE = "file"
"""What stands for the level of an incident that was read from a file."""


def clock(seconds: float) -> str:
    """Minutes and seconds: ``4:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def handed_over(drill: Drill, level: str) -> Iterator[str]:
    """What the player has to know: which brokers can come back, and how to reach them."""
    known, lab = drill.handed_over, drill.cluster.state_dir
    offline = len(known.scene.offline)
    yield ""
    partitions = "1 partition has" if offline == 1 else f"{offline:,} partitions have"
    yield f"Drill {drill.incident.seed}, {level}: {partitions} no leader."
    for brokers, what in (
        (drill.wreck.awake, "running"),
        (known.startable, "down; can be started, the disk is as it was"),
        (known.brokers.hung, "hung; can be resumed"),
        (known.brokers.gone, "lost for good, machine and disk"),
    ):
        if brokers:
            yield f"  {', '.join(f'b{broker}' for broker in sorted(brokers))}: {what}."
    yield "Brokers of the lab are started, resumed and killed by"
    yield f"  breakglass lab start N --state {lab}"
    yield "From another terminal the cluster is at"
    yield f"  {drill.cluster.bootstrap_servers}"


def concluded(drill: Drill, level: str, played: Played) -> dict[str, object]:
    """Judge what was done, keep the score, and print it with the best play; all as a document.

    Raises: LabError, StorageError.
    """
    from breakglass.services.guard.lock import file_name
    from breakglass.services.lab.incidents.drill import PlayedDrill, remember
    from breakglass.services.recovery.guarded.rescue_choice import default_folder

    say(f"Done after {clock(played.seconds)}; the bookkeeper reads every log folder.")
    found = drill.judge(
        default_folder() / file_name(drill.cluster.layout.cluster_id),
        seconds=played.seconds,
        keys=played.keys,
        commands=played.commands,
    )
    best = drill.replay()
    kept = PlayedDrill(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        drill.incident.seed,
        level,
        played.player,
        found.points,
        len(found.partitions),
        found.left,
        found.lost,
        int(played.seconds),
        played.keys,
        played.commands,
        drill.incident.kafka_version,
    )
    remember(kept, state_folder())
    print_lines(score_lines(found, played))
    print_table(COLUMNS, _rows(found))
    print_lines(beyond_lines(drill.handed_over))
    print_lines(replay_lines(best))
    if level != FROM_FILE:
        print_lines(
            [
                "",
                f"Again: breakglass lab drill --seed {drill.incident.seed} --level {level}",
            ]
        )
    return {
        "schema": 1,
        **{name: getattr(kept, name) for name in ("seed", "level", "player", "score")},
        **{name: getattr(kept, name) for name in ("seconds", "keys", "commands", "lost", "left")},
        "deductions": found.deductions,
        "partitions": [
            {
                "topic": partition.best.name[0],
                "partition": partition.best.name[1],
                "leader": partition.leader,
                "best_leader": partition.best.leader,
                "records": partition.best.held,
                "lost": len(partition.lost),
                "cut_off": partition.cut_off,
                "least_cut_off": partition.best.cut_off,
            }
            for partition in found.partitions
        ],
        "wrong_verdicts": [str(finding) for finding in drill.wrong],
        "best": {"steps": best.steps, "keys": best.keys, "commands": best.commands},
    }


def score_lines(found: DrillScore, played: Played) -> Iterator[str]:
    """The score, and what was taken off."""
    yield ""
    yield (
        f"Score {found.points} of 100, in {clock(played.seconds)}, "
        f"{played.keys:,} keys, {played.commands:,} lines in the shell."
    )
    for deduction in found.deductions:
        yield f"  -{deduction.points:<3} {deduction.what}: {deduction.why}"
    yield ""


def _rows(found: DrillScore) -> Iterator[tuple[object, ...]]:
    for partition in found.partitions:
        topic, number = partition.best.name
        online = partition.leader is not None
        yield (
            f"{topic}-{number}",
            f"b{partition.leader}" if online else "none",
            f"b{partition.best.leader}",
            f"{partition.best.held:,}",
            f"{len(partition.lost):,}" if online else "-",
            f"{partition.cut_off:,}" if online else "-",
            f"{partition.best.cut_off:,}",
        )


def beyond_lines(known: HandedOver) -> Iterator[str]:
    """The partitions that nobody could bring back."""
    beyond = known.scene.offline - {best.name for best in known.best}
    if beyond:
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(beyond))
        yield f"Every broker that holds records of {names} is lost: not scored."


COLUMNS = columns("Topic-partition", "Leader", "Best", ">Records", ">Lost", ">Cut off", ">Least")


def replay_lines(best: BestPlay) -> Iterator[str]:
    """The best play, to be typed."""
    yield ""
    yield f"What would have been best, in {best.commands:,} lines of the drill's shell (s):"
    for number, step in enumerate(best.steps, 1):
        yield f"{number:>3}. {step.command}"
        yield f"     {step.why}"
    if best.keys is not None:
        keys = " ".join(best.console)
        yield f"Or, for the elections, in the console, ~{best.keys:,} keys:"
        yield f"     {keys}"


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
    from breakglass.services.lab.incidents.drill import history

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

    from breakglass.services.lab.incidents.generate import DrillLevel, as_drill, drill_incidents
    from breakglass.services.lab.incidents.incident import from_json

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
