"""Replicas that nobody has heard: what is said before they are given up, and what becomes of them.

b3 is stopped first and misses the end of the log; b2 is stopped cleanly with twenty acknowledged
records; b1 leads last, alone, and dies for good. Then b3 comes back.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose_last, wait_left
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Shape,
    Stage,
    alone,
    wait_high_watermark,
    wait_log_end,
)
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.guarded.subject import frozen, groups_of
from breakglass.services.recovery.judgement.assessment import Verdict
from tests.kit.program import Ended, breakglass
from tests.lab.asking import on_disk
from tests.lab.console.commands import leader, on
from tests.lab.scenarios.damaged import cluster_after

SHARED, ON_B1_AND_B2, ON_B1 = 100, 20, 10
PAY = TopicPartition("pay", 0)
ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
DO_NOT_START = (
    "do not start b{0} before its log folders are saved: breakglass rescue --source log:DIR"
)
SAFE_WHEN = "; breakglass can-start DIR says when it is safe"


def _break(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    (pay,) = stage.create(PAY.topic, [(1, 2, 3)], {"min.insync.replicas": "1"})
    orders = stage.create(ORDERS[0].topic, [(1, 2, 3)] * 3, {"min.insync.replicas": "1"})
    stage.write([pay, *orders], SHARED)
    for partition in (pay, *orders):
        wait_high_watermark(cluster, partition, SHARED, 3)
    cluster.broker(3).stop()
    wait_left(cluster, 3)
    stage.write([pay], ON_B1_AND_B2)
    cluster.broker(2).stop()
    wait_left(cluster, 2)
    stage.write(orders[:2], ON_B1)
    lose_last(cluster, 1, back=(3,))
    return []


PATIENT = Shape(overrides={**QUICK_TO_FENCE.overrides, "broker.session.timeout.ms": "9000"})
"""A busy machine fences nobody who is well: these tests tell the unread from the read."""
BROKEN = Scenario("unheard", __doc__, alone(_break), shape=PATIENT)


broken = cluster_after(BROKEN)
"""Its tests build on one another, in their order."""


def judged(cluster: Cluster, topic: str, *more: object) -> dict[str, Any]:
    """The first partition of *topic*, as triage has it."""
    found: list[dict[str, Any]] = on(
        cluster, "triage", "--json", "--topics", topic, *more
    ).document["partitions"]
    return found[0]


def made(cluster: Cluster, folder: Path, topic: str, *more: object) -> tuple[Path, list[str]]:
    """A plan over *topic*, and the phrases that it takes."""
    path = folder / "plan.json"
    ended = on(cluster, "plan", "make", "--topics", topic, "--out", path, *more)
    assert ended.code == 0, ended.err
    return path, breakglass("plan", "show", path, "--json").document["consents"]


def recover(cluster: Cluster, plan: Path, *phrases: str) -> Ended:
    given = [word for phrase in phrases for word in ("--consent", phrase)]
    return on(cluster, "recover", "--plan", plan, "--write", "--json", *given)


class TestAStaleReplicaThatIsDown:
    """min.insync.replicas is 1, so b2 left the ISR with records that were acknowledged."""

    def test_its_start_comes_before_any_election(self, broken: Cluster) -> None:
        assert on_disk(broken, 2, PAY).end == SHARED + ON_B1_AND_B2
        assert judged(broken, "pay")["action"] == "start b1"
        found = judged(broken, "pay", "--gone", 1)
        assert (found["verdict"], found["action"]) == ("WAIT", "start b2")
        assert found["designated_leader"] == 3
        assert found["loses"]["records"] == 0
        assert (found["unheard"], found["gone"]) == ([2], [1])
        assert found["reasons"][0] == (
            "b2 is down and may hold more than b3: start it, read again, "
            "then elect (or declare it gone)"
        )
        shown = on(broken, "triage", "--topics", "pay", "--gone", 1)
        assert "Start b2: it may hold more of 1 partition." in shown.said

    def test_every_phrase_names_it(self, broken: Cluster, tmp_path: Path) -> None:
        wanted = "pay-0 lose 0 and abandon b1, b2"
        plan, phrases = made(broken, tmp_path, "pay", "--gone", 1)
        assert phrases == [wanted]
        refused = recover(broken, plan)
        assert (refused.code, refused.said[-1]) == (3, f"consent: {wanted}")
        why = "b2 may hold more: start it, or declare it gone (--gone 2)"
        assert f"{wanted}: needs a consent of its own: {why}" in refused.said
        listed = tmp_path / "pay.json"
        listed.write_text('{"partitions": [{"topic": "pay", "partitions": [0]}]}')
        kip = on(
            broken, "unclean-recovery", "--automated-recovery", "--write", "--path-to-json-file",
            listed,
        )  # fmt: skip
        assert (kip.code, kip.said[-1]) == (3, f"consent: {wanted}")
        assert leader(broken, "pay") is None

    def test_given_up_it_is_named_and_its_start_cuts_what_it_held(
        self, broken: Cluster, tmp_path: Path
    ) -> None:
        plan, (phrase,) = made(broken, tmp_path, "pay", "--gone", 1)
        ended = recover(broken, plan, phrase)
        assert ended.code == 0, ended.err
        assert leader(broken, "pay") == 3
        for broker in (1, 2):
            assert (
                f"{DO_NOT_START.format(broker)} (1 partition would be cut){SAFE_WHEN}" in ended.said
            )
        assert [one["broker"] for one in ended.document["given_up"]] == [1, 2]
        timeline = breakglass("journal", "show", "--timeline").out
        assert "Loses    0 records, abandons b1, b2, unread >= 0, as agreed to" in timeline
        assert f"  {DO_NOT_START.format(2)}" in timeline
        assert on_disk(broken, 2, PAY).end == SHARED + ON_B1_AND_B2
        broken.broker(2).start()
        broken.wait_ready()
        wait_log_end(broken, PAY, SHARED, 2)


class TestAReplicaThatFellSilentInFrontOfTheConsole:
    """b2 is back, and tells as many records of `orders` as b3."""

    def test_it_is_proved_to_hold_no_more_while_nobody_has_led_since(
        self, broken: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        access = Connection(ConnectionOptions(broken.bootstrap_servers)).access()
        with closing(IncidentWatch(access, gone=[1])) as watched:
            *_, before = watched.read()
            b2 = [evidence_of(before, order).replica(2) for order in ORDERS]
            assert {log.log_end for log in b2 if log is not None} == {SHARED}
            broken.broker(2).stop()
            broken.wait_fenced(2)
            *_, after = watched.read(before)
        for partition in ORDERS:
            row = after.row(partition)
            assert row is not None
            assert (row.verdict, str(row.action), row.unread) == (Verdict.SAFE, "elect b3", (1, 2))
            assert groups_of([frozen(evidence_of(after, partition), 3, [1])])[0].phrase == (
                f"{partition} lose 0 and abandon b1"
            )
        assert judged(broken, "orders", "--gone", 1)["action"] == "elect b3", "it is remembered"
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        assert judged(broken, "orders", "--gone", 1)["action"] == "check b2 first", "not elsewhere"
        broken.broker(2).start()
        broken.wait_ready()


def evidence_of(incident: Incident, partition: TopicPartition) -> PartitionEvidence:
    row = incident.row(partition)
    assert row is not None
    assert row.evidence is not None
    return row.evidence
