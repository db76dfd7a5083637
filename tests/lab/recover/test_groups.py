"""Consumer groups around an election that lost records: which are known, and where they go on.

b3 led `orders` alone at the end and is dead; b1 lacks its last records. One partition of
`__consumer_offsets` is on b3 alone, the others are on b2.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer

from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import tool_command
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.model import TopicPartition, log_of
from breakglass.services.recovery.group_reset import MoveReason
from breakglass.services.recovery.remembered.store import ReplicaMemory
from tests.kit.program import Ended
from tests.kit.waiting import wait_until
from tests.lab.asking import ANSWER_SECONDS, commit, committed_offset, lab_consumer
from tests.lab.console.commands import agreeing, on
from tests.unit.recovery.replicas import log, offline

ORDERS = TopicPartition("orders", 0)
IN_SYNC, CUT, REFILL = 80, 20, 30
READ = IN_SYNC + CUT
PARTITIONS = 4
LOST_OFFSETS = TopicPartition(OFFSETS_TOPIC, 3)


def coordinated(stem: str, *, by_b3: bool) -> str:
    """A group whose partition of `__consumer_offsets` is on b3, or on b2."""
    names = (f"{stem}-{number}" for number in range(1000))
    return next(
        name for name in names if (log_of(name, OFFSETS_TOPIC, PARTITIONS) == LOST_OFFSETS) == by_b3
    )


EPOCHS = coordinated("commits-epochs", by_b3=False)
NO_EPOCHS = coordinated("commits-no-epochs", by_b3=False)
HIDDEN = coordinated("hidden", by_b3=True)
EARLIEST, LATEST = (coordinated(stem, by_b3=False) for stem in ("earliest", "latest"))
JAVA = coordinated("java", by_b3=False)


class Course(NamedTuple):
    """What was said, and what the members met."""

    cluster: Cluster
    triage: Ended
    recovery: Ended
    went_on: dict[str, int]
    """The first offset that each running member read after the election."""
    early: Ended
    """`after groups list` of another account, before the log was as long as it had been."""
    refilled: Ended
    """`after groups list` when producers had filled the log again."""
    reset: Ended


def read_all(consumer: Consumer) -> None:
    """Read what is there, and commit it as a client does: with leader epochs."""
    read = 0
    while read < READ:
        message = consumer.poll(ANSWER_SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        read += 1
    consumer.commit(asynchronous=False)


def next_offset(cluster: Cluster, consumer: Consumer) -> int:
    """The first offset that *consumer* reads; records are written until it reads one."""
    for _ in range(int(ANSWER_SECONDS)):
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            return int(message.offset() or 0)
        produce(cluster, ORDERS.topic, ORDERS.partition, 1, acks="1")
    raise AssertionError("the member reads nothing")


def offsets_read(output: Path) -> list[int]:
    """The offsets that Kafka's console consumer has printed."""
    return [int(offset) for offset in re.findall(r"Offset:(\d+)\s", output.read_text())]


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def course(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    folder = tmp_path_factory.mktemp("groups")
    with ExitStack() as held:
        cluster = held.enter_context(
            Cluster.up(
                folder / "lab",
                kafka_version=request.param,
                overrides=QUICK_TO_FENCE.overrides,
                tethered=True,
            )
        )
        create_topic(cluster, OFFSETS_TOPIC, [(2,), (2,), (2,), (3,)])
        create_topic(cluster, ORDERS.topic, [(3, 1)])
        produce(cluster, ORDERS.topic, 0, IN_SYNC)
        lose(cluster, 1)
        produce(cluster, ORDERS.topic, 0, CUT)
        members = {
            group: held.enter_context(
                lab_consumer(cluster, group, auto_offset_reset=policy, session_timeout_ms=300_000)
            )
            for group, policy in ((EARLIEST, "earliest"), (LATEST, "latest"), (EPOCHS, "earliest"))
        }
        commit(cluster, LATEST, ORDERS, 0)
        for member in members.values():
            member.subscribe([ORDERS.topic])
            read_all(member)
        members.pop(EPOCHS).close()
        java = folder / "java"
        with java.open("w") as output:
            running = subprocess.Popen(
                tool_command(
                    cluster.kafka,
                    "org.apache.kafka.tools.consumer.ConsoleConsumer",
                    [
                        "--bootstrap-server", cluster.lab_bootstrap,
                        "--topic", ORDERS.topic, "--group", JAVA, "--from-beginning",
                        "--property", "print.offset=true",
                    ],
                ),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        held.callback(running.wait)
        held.callback(running.kill)
        wait_until(lambda: len(offsets_read(java)) == READ, "the Java consumer to read all")
        for group in (NO_EPOCHS, HIDDEN):
            commit(cluster, group, ORDERS, READ)
        lose_last(cluster, 3, back=(1,))

        judged = on(cluster, "triage", "--gone", 3, "--json")
        plan = folder / "plan.json"
        named = ("--topics", ORDERS.topic)
        assert on(cluster, "plan", "make", "--gone", 3, *named, "--out", plan).code == 0
        recovery, _ = agreeing(cluster, "recover", "--plan", plan, "--json")
        assert recovery.code == 0, recovery.err
        went_on = {group: next_offset(cluster, members[group]) for group in (EARLIEST, LATEST)}
        wait_until(lambda: len(offsets_read(java)) > READ, "the Java consumer to go on")
        went_on[JAVA] = offsets_read(java)[READ]
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.setenv("XDG_STATE_HOME", str(folder / "elsewhere"))
            early = on(cluster, "after", "groups", "list", "--json")
        produce(cluster, ORDERS.topic, 0, REFILL, acks="1")
        refilled = on(cluster, "after", "groups", "list", "--json")
        reset, _ = agreeing(cluster, "after", "groups", "reset", "--json")
        yield Course(cluster, judged, recovery, went_on, early, refilled, reset)


def test_r33_one_offline_offsets_partition_hides_its_own_groups_and_is_named(
    course: Course,
) -> None:
    for document in (course.triage.document, course.recovery.document):
        (unread,) = document["groups_unread"]
        assert str(LOST_OFFSETS) in unread
    past = {one["group"]: one for one in course.recovery.document["groups_past_end"]}
    assert {EPOCHS, NO_EPOCHS} <= past.keys()
    assert HIDDEN not in past
    assert {(one["committed"], one["log_end"]) for one in past.values()} == {(READ, IN_SYNC)}
    assert course.refilled.document["offline"] == [str(LOST_OFFSETS)]


def test_r37_without_the_journal_groups_that_commit_no_epochs_are_named_as_not_known(
    course: Course,
) -> None:
    """Each test has a state folder of its own: this is another account."""
    elsewhere = on(course.cluster, "after", "groups", "list", "--json")
    assert any("no leader epochs" in told for told in elsewhere.document["unknown"])


def test_r43_a_group_past_the_end_without_epochs_stays_while_a_leader_epoch_is_missing_in_its_log(
    course: Course,
) -> None:
    """Another account does not know that nobody led in the epoch before the election."""
    (found,) = [one for one in course.early.document["left"] if one["group"] == NO_EPOCHS]
    assert (course.early.code, found["reason"]) == (1, MoveReason.PAST_END)
    assert (found["committed"], found["to"]) == (READ, IN_SYNC), "at or below, not the log's end"


def test_r19_running_members_that_know_epochs_go_on_where_the_log_was_cut(course: Course) -> None:
    """Whatever their auto.offset.reset: OFFSET_OUT_OF_RANGE is met by others alone (KIP-320)."""
    assert course.went_on == dict.fromkeys((EARLIEST, LATEST, JAVA), IN_SYNC)


def test_r37_groups_of_a_log_that_was_cut_and_refilled_are_named_by_epoch_and_by_journal(
    course: Course,
) -> None:
    found = {one["group"]: one for one in course.refilled.document["past_end"]}
    for group in (EPOCHS, NO_EPOCHS):
        assert (found[group]["committed"], found[group]["to"]) == (READ, IN_SYNC), group
        assert "other records" in found[group]["reason"]


def test_r37_a_reset_moves_them_to_where_the_log_was_cut(course: Course) -> None:
    results = {one["move"]["group"]: one["result"] for one in course.reset.document["moved"]}
    for group in (EPOCHS, NO_EPOCHS):
        assert results[group] == "moved"
        assert committed_offset(course.cluster, group, ORDERS) == IN_SYNC


class Fork(NamedTuple):
    """Two unclean elections: `orders` parts at 100 from what the groups have read, and went on."""

    cluster: Cluster
    short: dict[str, Ended]
    """The list while the log ends at 120: alone, with b1's folder, with a memory of b1."""
    alone: tuple[Ended, Ended]
    """When it was refilled: `list`, and `set` with b1's `__consumer_offsets`."""
    moved: tuple[Ended, Ended]
    """`after groups set` and `after groups reset`, with b1's whole folder."""


PARTED, WENT_ON, HAD_READ = 100, 120, 140
HIDDEN_EPOCHS = coordinated("hidden-epochs", by_b3=True)


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fork]:
    folder = tmp_path_factory.mktemp("fork")
    with (
        Cluster.up(folder / "lab", overrides=QUICK_TO_FENCE.overrides, tethered=True) as cluster,
        pytest.MonkeyPatch.context() as account,
    ):
        account.setenv("XDG_STATE_HOME", str(folder / "alone"))
        create_topic(cluster, OFFSETS_TOPIC, [(3, 1), (3, 1), (3, 1), (2, 1)])
        create_topic(cluster, ORDERS.topic, [(2, 1)])
        produce(cluster, ORDERS.topic, 0, PARTED)
        lose(cluster, 1)
        produce(cluster, ORDERS.topic, 0, WENT_ON - PARTED)
        elect_after(cluster, lost=2, back=1)
        produce(cluster, ORDERS.topic, 0, HAD_READ - PARTED + 10, acks="1")
        read = cluster.partition(ORDERS.topic, 0)
        for group in (EPOCHS, HIDDEN_EPOCHS):
            commit(cluster, group, ORDERS, HAD_READ, read.leader_epoch)
        for group in (NO_EPOCHS, HIDDEN):
            commit(cluster, group, ORDERS, HAD_READ)
        elect_after(cluster, lost=1, back=2)
        (logs,) = cluster.broker(1).layout.log_dirs
        whole = ("--source", f"log:{logs}", "--json")
        past_end = ("after", "groups", "list", "--json")
        short = {"alone": on(cluster, *past_end), "source": on(cluster, *past_end, *whole)}
        account.setenv("XDG_STATE_HOME", str(folder / "heard"))
        once = log(1, (0, PARTED), (read.leader_epoch, HAD_READ + 10))
        heard = offline(once, topic=ORDERS.topic, number=0)
        state = replace(heard.state, topic_id=read.topic_id)
        ReplicaMemory(cluster.layout.cluster_id).note([replace(heard, state=state)])
        short["memory"] = on(cluster, *past_end)
        account.setenv("XDG_STATE_HOME", str(folder / "alone"))
        produce(cluster, ORDERS.topic, 0, READ, acks="1")
        offsets = f"log:{logs}/{LOST_OFFSETS}"
        alone = on(cluster, "after", "groups", "set", "--source", offsets, "--json", "--write")
        refilled = on(cluster, *past_end)
        moved = [agreeing(cluster, "groups", verb, *whole)[0] for verb in ("set", "reset")]
        yield Fork(cluster, short, (refilled, alone), (moved[0], moved[1]))


def elect_after(cluster: Cluster, *, lost: int, back: int) -> None:
    """Lose the leader, and let the other replica lead, which lacks its last records."""
    lose_last(cluster, lost, back=(back,))
    elect_unclean(cluster, ORDERS, LOST_OFFSETS)
    for one in (ORDERS, LOST_OFFSETS):
        cluster.wait_partition(
            one.topic, one.partition, lambda state: state.leader == back, f"b{back} to lead"
        )


def offsets_of(ended: Ended, name: str) -> dict[str, int]:
    """Where each group of the array is to go."""
    return {one["group"]: one["to"] for one in ended.document[name]}


def test_r37_where_two_histories_fork_the_present_one_shows_no_more_than_a_bound(
    fork: Fork,
) -> None:
    """The leader answers for the groups' epoch with the end of a lower one, where it went on."""
    told = fork.short["alone"]
    assert (told.code, told.document["past_end"]) == (1, [])
    assert offsets_of(told, "left") == {EPOCHS: WENT_ON, NO_EPOCHS: WENT_ON}
    refilled, unset = fork.alone
    assert (refilled.code, offsets_of(refilled, "left")) == (1, {EPOCHS: WENT_ON})
    assert (unset.code, unset.document["moved"]) == (1, [])
    assert offsets_of(unset, "left") == {HIDDEN: WENT_ON, HIDDEN_EPOCHS: WENT_ON}
    assert all("at or below" in said for said in unset.document["unknown"])


@pytest.mark.parametrize("shown_by", ["source", "memory"])
def test_r37_a_log_that_has_the_groups_epoch_shows_where_they_fork(
    fork: Fork, shown_by: str
) -> None:
    told = fork.short[shown_by]
    assert (told.code, told.document["left"]) == (0, [])
    assert offsets_of(told, "past_end") == {EPOCHS: PARTED, NO_EPOCHS: PARTED}


def test_r43_groups_go_to_where_their_history_parted_and_skip_no_record(fork: Fork) -> None:
    set_back, reset = fork.moved
    assert (set_back.code, reset.code) == (0, 0), (set_back.err, reset.err)
    for group in (HIDDEN, HIDDEN_EPOCHS, EPOCHS):
        assert committed_offset(fork.cluster, group, ORDERS) == PARTED, group
    said = set_back.document["unknown"]
    assert len(said) == 2
    assert all(f"{HAD_READ - PARTED} offsets below" in one for one in said)
