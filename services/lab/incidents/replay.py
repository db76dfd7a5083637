"""The replay of what would have been best: commands that can be typed, in their order. Pure.

In the shell of a drill the cluster needs no address, and ``$LAB`` is the folder of the lab: so the
commands are the same whenever the incident is raised again. The replay follows from the
bookkeeper's best leaders, not from what Breakglass proposes. Only which partitions `plan make`
leaves to the operator is taken from the triage.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.bookkeeping.judge import SaidPartition
from breakglass.bookkeeping.log_files import Name
from breakglass.bookkeeping.score import BestLeader, DrillScene

PHRASE = "type each phrase that it asks for; what is cut off is saved first"
PHRASE_KEYS = 40
"""About as long as a phrase is."""
MARK_AND_ELECT = ("*", "e", "Tab", "PHRASE", "Enter", "q")
BEFORE, PLAN = "before.json", "plan.json"


@dataclass(frozen=True, slots=True)
class BestStep:
    """One command of the best play."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class BestPlay:
    """The best play, and what it costs."""

    steps: tuple[BestStep, ...]
    console: tuple[str, ...] = ()
    """Keys that recover in the console what is still offline after the commands of `breakglass
    lab`; empty where keys alone cannot."""
    phrases: int = 0
    """How many phrases the elections ask for at most: one for each partition."""

    @property
    def commands(self) -> int:
        """How many lines are typed at most, phrases included."""
        return len(self.steps) + self.phrases

    @property
    def keys(self) -> int | None:
        """About how many keys the console takes at most; None where keys alone cannot."""
        return len(self.console) + PHRASE_KEYS * self.phrases if self.console else None


@dataclass(frozen=True, slots=True)
class Brokers:
    """What is to be done with brokers."""

    gone: Collection[int] = ()
    log_dirs: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """The log directories of brokers that can return, below the folder of the lab."""
    hung: Collection[int] = ()
    """Brokers to be resumed; the others that can return are to be started."""
    bombs: Collection[int] = ()
    """Brokers that run with empty disks and may be elected."""


def best_play(
    scene: DrillScene, best: Sequence[BestLeader], said: Sequence[SaidPartition], brokers: Brokers
) -> BestPlay:
    """The steps that give each partition its best leader and lose nothing that can be read.

    *said* is what a triage says with the lost brokers declared gone.
    """
    steps = [
        *_stops(brokers),
        *_save_from_disks(scene, best, brokers),
        *_rescue_before(scene, best),
        *_returns(scene, best, brokers),
    ]
    rest = [leader for leader in best if not leader.by_itself]
    if not rest:
        return BestPlay((*steps, *_start_again(brokers)))
    # Partitions whose best leader no plan has by itself.
    planned = {
        partition.name: partition.designee
        for partition in said
        if partition.automatable and partition.verdict in ("SAFE", "LOSS", "WAIT")
    }
    by_hand = {best.name: best.leader for best in rest if planned.get(best.name) != best.leader}
    # Internal topics have a phrase each, and the plan's own way is the shorter one.
    return BestPlay(
        (*steps, *_elections(rest, by_hand, brokers), *_start_again(brokers)),
        () if by_hand or any(best.name[0].startswith("__") for best in rest) else _keys(brokers),
        len(rest),
    )


def _stops(brokers: Brokers) -> Iterator[BestStep]:
    for broker in sorted(brokers.bombs):
        why = f"b{broker} is back with an empty disk and may lead at any moment"
        yield BestStep(_lab("kill", broker), why)


def _start_again(brokers: Brokers) -> Iterator[BestStep]:
    """What was stopped may lead other partitions, and follows the new leaders now."""
    for broker in sorted(brokers.bombs):
        yield BestStep(_lab("start", broker), f"b{broker} follows the new leaders now")


def _save_from_disks(
    scene: DrillScene, best: Sequence[BestLeader], brokers: Brokers
) -> Iterator[BestStep]:
    """Save what brokers cut as soon as they are back, because another leads by itself."""
    for broker in sorted(scene.returnable):
        topics = sorted({leader.name[0] for leader in best if _cuts(scene, leader, broker)})
        if topics:
            sources = " ".join(f'--source log:"$LAB"/{path}' for path in brokers.log_dirs[broker])
            running = " --while-running" if broker in brokers.hung else ""
            yield BestStep(
                f"breakglass rescue {sources} --topics {','.join(topics)}{running}",
                f"save from the disk of b{broker} what it cuts as soon as it is back",
            )


def _cuts(scene: DrillScene, best: BestLeader, broker: int) -> bool:
    """Whether the log of *broker* holds what the leader lacks that will lead by itself."""
    held = scene.log(best.name, broker).places
    return best.by_itself and bool(held - scene.log(best.name, best.leader).places)


def _rescue_before(scene: DrillScene, best: Sequence[BestLeader]) -> Iterator[BestStep]:
    """Save what replicas that run cut as soon as another leads by itself."""
    losing = {
        leader.name: leader.leader
        for leader in best
        if any(_cuts(scene, leader, broker) for broker in scene.disks.readable_logs(leader.name))
    }
    if losing:
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(losing))
        yield BestStep(_written(losing, BEFORE), f"what is cut off of {names} by the next start")
        yield BestStep(
            f"breakglass rescue {BEFORE}",
            "save it: a broker that was in sync last leads by itself, and the others cut",
        )


def _returns(scene: DrillScene, best: Sequence[BestLeader], brokers: Brokers) -> Iterator[BestStep]:
    """Bring back who leads by it, and who alone holds records that need not be lost."""
    leads = {leader.leader for leader in best}
    for broker in sorted(scene.returnable):
        alone = any(_holds_alone(scene, leader.name, broker) for leader in best)
        if broker in leads or alone:
            verb = "resume" if broker in brokers.hung else "start"
            yield BestStep(_lab(verb, broker), f"b{broker} is back with what it holds")


def _holds_alone(scene: DrillScene, name: Name, broker: int) -> bool:
    readable = scene.disks.readable_logs(name).values()
    others = set[tuple[int, int]]().union(*(log.places for log in readable))
    return bool(scene.log(name, broker).places - others)


def _elections(
    rest: Sequence[BestLeader], by_hand: dict[Name, int], brokers: Brokers
) -> Iterator[BestStep]:
    out = sorted({*brokers.gone, *brokers.bombs})
    gone = f"--gone {','.join(map(str, out))} " if out else ""
    if len(by_hand) == len(rest):
        yield BestStep(_written(by_hand, PLAN), "no plan has these leaders by itself")
    else:
        yield BestStep(f"breakglass plan make {gone}--out {PLAN}", "the best of each")
        if by_hand:
            places = " ".join(f"{name[0]}-{name[1]}={leader}" for name, leader in by_hand.items())
            command = f"breakglass plan edit {PLAN} {places}"
            yield BestStep(command, "what a plan leaves to you")
    yield BestStep(f"breakglass recover {PLAN} {gone}--write", PHRASE)


def _keys(brokers: Brokers) -> tuple[str, ...]:
    out = sorted({*brokers.gone, *brokers.bombs})
    declared = ("b", *",".join(map(str, out)), "Enter") if out else ()
    return (*declared, *MARK_AND_ELECT)


def _lab(verb: str, broker: int) -> str:
    return f'breakglass lab {verb} {broker} --state "$LAB"'


def _written(leaders: dict[Name, int], path: str) -> str:
    entries = [
        {"topic": topic, "partition": number, "designatedLeader": leader}
        for (topic, number), leader in sorted(leaders.items())
    ]
    text = json.dumps({"partitions": entries}, separators=(",", ":"))
    return f"echo {shlex.quote(text)} > {path}"
