"""R3 as a step of its own: the controller forgets a bomb that nobody can stop, and what else.

b4 led `carts`, `mixed-0`, `plain`, `typed` and `raised` last and is back EMPTY; b3 led `mixed-1`
last, is down and intact. b1 holds 25 records more than b2. Each test has topics of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard import act as guard
from breakglass.services.guard.act import ConsentOutdated, Front, GuardedRun
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.behind import HELD_OFF
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, B4_EMPTY, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Shape, Stage
from breakglass.services.lab.topics import configure_topic
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.acts.topic_settings import ForgetLeaders
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.topic_settings import owed
from tests.lab.asking import consume
from tests.lab.console.test_electing_on_screen import console
from tests.lab.recover.session import Watched, judged, judgement, watched
from tests.lab.recover.settings.asking import agree, changes, killed_at, layers, own, run
from tests.lab.scenarios.damaged import cluster_after

CARTS, PLAIN, TYPED = (TopicPartition(topic, 0) for topic in ("carts", "plain", "typed"))
WITH_BOMB, INTACT = TopicPartition("mixed", 0), TopicPartition("mixed", 1)
B4_LED, B3_LED = (4, 1, 2), (3, 1, 2)
BOMB_PHRASE, INTACT_PHRASE = "mixed forgets b4", "mixed-1 lose 0 and abandon b3"


def _script(stage: Stage) -> Script:
    partitions = [
        *stage.create("carts", [B4_LED]),
        *stage.create("mixed", [B4_LED, B3_LED]),
        *stage.create("plain", [B4_LED], {MIN_ISR: "1"}),
        *stage.create("typed", [B4_LED]),
        *stage.create("waits", [B3_LED]),
    ]
    strict = stage.create("raised", [B4_LED], {MIN_ISR: "2"})
    stage.write([*partitions, *strict], 100)
    yield B2_LOST
    stage.write([*partitions, *strict], 25)
    yield B1_LOST
    stage.write(partitions, 25)
    yield LAST_LOST
    yield B4_EMPTY
    return list[Expectation]()


BROKEN = Scenario(
    "for-min-isr", __doc__, _script, course=COURSE, shape=Shape(brokers=4, overrides=HELD_OFF)
)


lab = cluster_after(BROKEN)


@pytest.fixture
def behind(lab: Cluster) -> Iterator[Watched]:
    with watched(lab) as behind:
        yield behind


def state(lab: Cluster, partition: TopicPartition) -> PartitionState:
    return lab.partition(partition.topic, partition.partition)


def remembers(lab: Cluster, partition: TopicPartition) -> bool:
    """Whether the controller knows whom it elects next of an offline partition."""
    found = state(lab, partition)
    assert found.leader is None
    return bool(found.elr or found.last_known_elr)


def test_r03_without_write_it_says_what_every_partition_loses_and_sends_nothing(
    behind: Watched,
) -> None:
    ended = run(behind, "recover", "forget-leader", "--topic", "mixed")
    assert ended.code == 3
    assert "mixed-0: forgets b4, which would be elected over better logs" in ended.said
    assert (
        "mixed-1: forgets b3, which may bring it back whole: from then on electing b1 loses 0, "
        "unread >= 0"
    ) in ended.said
    assert changes(behind) == []


def test_r03_an_intact_leader_has_to_be_named_or_nothing_is_sent(
    lab: Cluster, behind: Watched
) -> None:
    consent = f"--consent={BOMB_PHRASE}"
    ended = run(behind, "recover", "forget-leader", "--topic", "mixed", "--write", consent)
    assert ended.code == 3
    assert ended.said[-1] == f"consent: {INTACT_PHRASE}"
    assert changes(behind) == []
    assert remembers(lab, INTACT)


def test_r03_a_topic_without_a_bomb_is_refused(lab: Cluster, behind: Watched) -> None:
    ended = run(behind, "recover", "forget-leader", "--topic", "waits", "--write")
    assert ended.code == 3
    assert "no broker is back EMPTY that would be elected for waits" in ended.err
    assert changes(behind) == []


def test_r03_where_the_controller_elects_by_order_it_is_refused(
    lab: Cluster, behind: Watched
) -> None:
    configure_topic(lab, "carts", {UNCLEAN_ELECTION: "true"})
    try:
        ended = run(behind, "recover", "forget-leader", "--topic", "carts", "--write")
    finally:
        configure_topic(lab, "carts", {UNCLEAN_ELECTION: "false"})
    assert ended.code == 3
    assert "`breakglass recover freeze --topic carts --write`" in ended.err
    assert changes(behind) == []


def test_r03_forgotten_the_best_replica_is_elected_beside_the_bomb(
    lab: Cluster, behind: Watched, tmp_path: Path
) -> None:
    with behind.connection.reading() as client:
        assert judgement(judged(client, "carts"), CARTS).verdict is Verdict.BOMB
    before = layers(lab, MIN_ISR, "carts")
    consent = "--consent=carts forgets b4"
    ended = run(behind, "recover", "forget-leader", "--topic", "carts", "--write", consent)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("carts  done: forgotten")
    assert layers(lab, MIN_ISR, "carts") == before
    assert [written(change) for change in changes(behind)] == [("carts", "1"), ("carts", None)]
    assert lab.broker(4).awake
    assert not remembers(lab, CARTS)
    assert remembers(lab, WITH_BOMB)

    plan = tmp_path / "plan.json"
    made = run(behind, "plan", "make", "--topic", "carts", "--gone", "4", "--out", plan)
    assert made.code == 0, made.err
    asked = run(behind, "recover", "--plan", plan, "--write", "--gone", "4")
    consent = asked.said[-1].replace("consent: ", "--consent=")
    elected = run(behind, "recover", "--plan", plan, "--write", "--gone", "4", consent)
    assert state(lab, CARTS).leader == 1, elected.err
    assert len(consume(lab, CARTS)) == 125


def test_r03_what_is_the_same_beneath_is_taken_away_and_set_again(
    lab: Cluster, behind: Watched
) -> None:
    consent = "--consent=plain forgets b4"
    ended = run(behind, "recover", "forget-leader", "--topic", "plain", "--write", consent)
    assert ended.code == 0, ended.err
    assert [written(change) for change in changes(behind)] == [("plain", None), ("plain", "1")]
    assert own(lab, MIN_ISR, "plain") == "1"
    assert not remembers(lab, PLAIN)


def test_r03_the_console_forgets_by_f_on_the_topic_under_the_cursor(lab: Cluster) -> None:
    with console(lab.bootstrap_servers, "--write") as operator:
        operator.terminal.wait_for("Topic-partition")
        operator.press("/", *"typed", "enter")
        operator.terminal.wait_for("filter: typed (")
        operator.press("F")
        agree(operator, "typed forgets b4")
        operator.terminal.wait_for("done: forgotten")
        assert not remembers(lab, TYPED)
        assert own(lab, MIN_ISR, "typed") is None
        assert remembers(lab, WITH_BOMB)
        operator.press("escape")
        operator.terminal.wait_for(" e elect")
        operator.terminal.press("q")
        assert operator.terminal.exit_code() == 0


def test_r03_killed_before_it_was_put_back_resume_puts_back_what_was_there(
    lab: Cluster, behind: Watched
) -> None:
    arguments = (
        "recover",
        "min-isr",
        "--topic",
        "raised",
        "--write",
        "--consent=raised forgets b4",
    )
    view = killed_at(behind, "request", "put setting back", 1, *arguments)
    assert own(lab, MIN_ISR, "raised") == "3"
    assert [(change.before, change.written) for change in owed(view)] == [("2", "3")]
    again = run(behind, *arguments)
    assert again.code == 3, again.err
    asked = run(behind, "recover", "resume", "--write")
    assert asked.said[-1] == "consent: release raised"
    assert own(lab, MIN_ISR, "raised") == "3"
    ended = run(behind, "recover", "resume", "--write", "--consent=release raised")
    assert ended.code == 0, ended.err
    assert own(lab, MIN_ISR, "raised") == "2"
    nothing = run(behind, "recover", "resume", "--write")
    assert "Nothing to resume" in nothing.err


def test_r03_evidence_that_changed_since_consent_refuses(
    lab: Cluster, behind: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    armed = behind.connection.armed()
    front = Front(armed.access(), state_folder=tmp_path)
    act = GuardedRun(ForgetLeaders(("mixed",), seconds=5.0), front)
    frozen = act.freeze()
    agreed = [asked.phrase for asked in frozen.asked]
    assert agreed == [BOMB_PHRASE, INTACT_PHRASE]
    lab.broker(1).kill()
    lab.wait_fenced(1)
    with pytest.raises(ConsentOutdated, match=r"mixed-1: it was .*b1 loses 0.* it is .*b2 loses 0"):
        act.carry_out(armed.power("a test"), frozen, agreed)
    assert changes(behind) == []


def written(request: Any) -> tuple[str, str | None]:
    """The topic and the value of a request that changes one setting."""
    (resource,) = request.resources
    (change,) = resource.configs
    assert change.name == MIN_ISR
    return resource.resource_name, change.value
