"""What a drill says: how the incident is handed over, what it scored, and the best play."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from breakglass.console.output import columns, print_lines, print_table, say

if TYPE_CHECKING:
    from breakglass.bookkeeping.score import DrillScore
    from breakglass.console.drill_play import Played
    from breakglass.services.lab.incidents.drill import Drill, HandedOver
    from breakglass.services.lab.incidents.replay import BestPlay

FROM_FILE = "file"
"""What stands for the level of an incident that was read from a file."""


def clock(seconds: float) -> str:
    """Minutes and seconds: ``4:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def say_handed_over(drill: Drill, level: str) -> None:
    """Say what the player has to know: which brokers can come back, and how to reach them."""
    for line in handed_over(drill, level):
        say(line)


def handed_over(drill: Drill, level: str) -> Iterator[str]:
    """The lines of `say_handed_over`."""
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
    from breakglass.services.lab.incidents.history import PlayedDrill, remember
    from breakglass.services.recovery.guarded.rescue_choice import default_folder
    from breakglass.services.state_folder import state_folder

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
            ["", f"The same again: breakglass drill --seed {drill.incident.seed} --level {level}"]
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
