"""The replay of what would have been best, from frozen scenes: its commands and their cost."""

import json
import shlex
from dataclasses import replace

from breakglass.bookkeeping.judge import SaidPartition
from breakglass.bookkeeping.score import DrillScene, best_leaders
from breakglass.services.lab.incidents.replay import BestPlay, Brokers, best_play
from tests.unit.bookkeeping.logs import ORDERS
from tests.unit.bookkeeping.test_score import RETURNABLE, SCENE

SAID = SaidPartition(ORDERS, "LOSS", "elect b1", 1, None, {}, {}, 1)
"""With b3 declared gone."""
LOST_B3 = Brokers(gone=[3])


def commands(
    scene: DrillScene, *said: SaidPartition, brokers: Brokers = LOST_B3
) -> tuple[list[str], BestPlay]:
    best = best_play(scene, best_leaders(scene), said, brokers)
    return [step.command for step in best.steps], best


def test_what_a_plan_has_is_made_reviewed_and_recovered() -> None:
    steps, best = commands(SCENE, SAID)
    assert steps == [
        "breakglass plan make --gone 3 --out plan.json",
        "breakglass recover plan.json --gone 3 --write",
    ]
    assert best.commands == 3
    assert " ".join(best.console) == "b 3 Enter * e Tab PHRASE Enter q"
    assert best.keys == 9 + 40
    _, best = commands(two_partitions(SCENE), SAID, replace(SAID, name=("ledger", 0)))
    assert (best.commands, best.keys) == (4, 9 + 80)


def test_an_empty_replica_that_may_lead_is_stopped_first_and_declared_gone() -> None:
    steps, best = commands(SCENE, SAID, brokers=Brokers(gone=[3], bombs=[4]))
    assert steps[0] == 'breakglass lab kill 4 --state "$LAB"'
    assert steps[1] == "breakglass plan make --gone 3,4 --out plan.json"
    assert steps[-1] == 'breakglass lab start 4 --state "$LAB"'
    assert best.console[:5] == ("b", *"3,4", "Enter")


def test_what_a_plan_leaves_to_the_operator_is_set_or_written() -> None:
    other = replace(SAID, name=("ledger", 0))
    fork = replace(SAID, verdict="FORK", designee=None, automatable=False)
    for said in (fork, replace(SAID, automatable=False), replace(SAID, designee=2)):
        steps, best = commands(SCENE, said)
        echo, path = steps[0].split(" > ")
        assert path == "plan.json"
        assert elections(echo) == [("orders", 0, 1)]
        assert best.console == ()
        assert best.keys is None
    steps, _ = commands(two_partitions(SCENE), fork, other)
    assert steps[1] == "breakglass plan edit plan.json orders-0=1"


def test_who_leads_by_itself_is_started_after_what_it_lacks_was_saved() -> None:
    steps, best = commands(RETURNABLE, brokers=Brokers())
    echo, _ = steps[0].split(" > ")
    assert elections(echo) == [("orders", 0, 3)]
    assert steps[1:] == [
        "breakglass rescue before.json",
        'breakglass lab start 3 --state "$LAB"',
    ]
    assert best.commands == 3
    assert best.keys is None


def test_what_a_broker_cuts_as_soon_as_it_is_back_is_saved_from_its_disk_before() -> None:
    disks = replace(SCENE.disks, readable={ORDERS: {1}})
    scene = replace(RETURNABLE, disks=disks, returnable=frozenset({2, 3}))
    brokers = Brokers(log_dirs={2: ["broker-2/data-1", "broker-2/data-2"]}, hung=[2])
    steps, _ = commands(scene, brokers=brokers)
    assert steps == [
        'breakglass rescue --source log:"$LAB"/broker-2/data-1 '
        '--source log:"$LAB"/broker-2/data-2 --topics orders --while-running',
        'breakglass lab resume 2 --state "$LAB"',
        'breakglass lab start 3 --state "$LAB"',
    ]


def elections(echo: str) -> list[tuple[str, int, int]]:
    word, document = shlex.split(echo)
    assert word == "echo"
    return [
        (entry["topic"], entry["partition"], entry["designatedLeader"])
        for entry in json.loads(document)["partitions"]
    ]


def renamed(scene: DrillScene, name: tuple[str, int]) -> DrillScene:
    """The same scene of another partition."""
    logs, readable = scene.disks.logs[ORDERS], scene.disks.readable[ORDERS]
    return replace(
        scene,
        disks=replace(scene.disks, logs={name: logs}, readable={name: readable}),
        state=replace(scene.state, orders={name: scene.state.orders[ORDERS]}),
        offline=frozenset({name}),
        electable={name: scene.electable[ORDERS]},
        successors={name: scene.successors[ORDERS]},
    )


def two_partitions(scene: DrillScene) -> DrillScene:
    """The same partition twice, under two names."""
    other = renamed(scene, ("ledger", 0))
    logs = {**scene.disks.logs, **other.disks.logs}
    readable = {**scene.disks.readable, **other.disks.readable}
    return replace(
        scene,
        disks=replace(scene.disks, logs=logs, readable=readable),
        state=replace(scene.state, orders={**scene.state.orders, **other.state.orders}),
        offline=scene.offline | other.offline,
        electable={**scene.electable, **other.electable},
        successors={**scene.successors, **other.successors},
    )
