"""R17: what internal topics lose by an election is told key by key, and is what clients meet.

b3 led the internal topics last and alone knows what was committed, begun and acknowledged since
b1 was lost; it is dead, and b1 is the replica to elect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import run_tool
from breakglass.services.lab.produce import produce
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last
from breakglass.services.lab.scenarios.scenario import wait_log_end
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.model import INTERNAL_TOPICS, TopicPartition
from tests.kit.configs import ConfigResource, set_config
from tests.kit.program import Ended, breakglass
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import commit, committed_offset, consume, lab_consumer, on_disk, transactional
from tests.lab.recover.renewing_producer import RenewingProducer, initialise

INPUT, OUTPUT, BOTH, CUT = (TopicPartition(name, 0) for name in ("input", "output", "both", "cut"))
"""`BOTH` and `CUT` go back with the internal topics, and `CUT` is filled again."""
CUT_AT, CUT_OFF, REFILL = 40, 20, 50
WITHOUT_EPOCHS = "without-epochs"
"""Has read all of `CUT`, which b3 alone knows; b1 had nothing of its coordinator's partition."""
TRANSACTIONS, OFFSETS, SHARES, _ = INTERNAL_TOPICS
PARTITIONS = {
    TRANSACTIONS: int(SMALL["transaction.state.log.num.partitions"]),
    OFFSETS: int(SMALL["offsets.topic.num.partitions"]),
    SHARES: int(SMALL["share.coordinator.state.topic.num.partitions"]),
}
RECORDS = 100
YOUNG, GOING, NEW, QUIET, SHARING = "young", "going", "new", "quiet", "sharing"
BEFORE, AFTER, NEWLY = 20, 75, 50
"""What the group that goes back had committed while b1 was in sync, and since; the new group."""
STARTS_MORE = 2
"""How often each writer was started since; each start raises its epoch by one."""
WRITERS = {"past": STARTS_MORE + 1, "equal": STARTS_MORE, "below": 1}
"""How often each is started after the election, before it writes."""
HALF, LEFT = "halved", "left"
"""Each has a transaction with a record and an offset of its group, which b3 alone knows as
committed: the record has its marker on b2, the group's offset has not. The groups of these names
are on different partitions."""
HALF_OFFSET = 30
TRANSACTION_SECONDS = 800
"""More than the tests take: until then the coordinator does not abort it."""
RENEWED = "renewed"
"""Its transaction is committed with a marker of the next epoch (KIP-890), which b3 alone has."""
RENEWED_RECORDS = 7
SHARED_OUT, SHARED_LATER = 10, 15
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SECONDS = DEADLINE_SECONDS
NO_OFFSET = -1001


class Course(NamedTuple):
    """What was told, and what clients met."""

    cluster: Cluster
    before: Ended
    """Before the election, from b3's disk."""
    after: Ended
    """After it, from the same disk."""
    unsourced: Ended
    """After it, without that disk."""
    offsets: dict[str, int]
    written: dict[str, Written]
    """What became of a record of each writer."""
    share_start: int | None
    unagreed: Ended
    """`after groups set` from that disk, without its phrase."""
    set_back: Ended
    held_back: Ended
    """`after groups set` of the group whose log was cut below its offset, and filled again."""
    stands: dict[str, int]
    """Where the groups stand after it."""
    shares: bool
    """This Kafka has share groups."""


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def course(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    with Cluster.up(
        tmp_path_factory.mktemp("internal") / "lab",
        kafka_version=request.param,
        overrides=QUICK_TO_FENCE.overrides,
        tethered=True,
    ) as cluster:
        shares = cluster.kafka.major >= 4
        topics = [topic for topic in PARTITIONS if shares or topic != SHARES]
        for topic in topics:
            create_topic(cluster, topic, [(3, 1)] * PARTITIONS[topic])
        for partition in (INPUT, OUTPUT):
            create_topic(cluster, partition.topic, [(2,)])
        live(cluster, shares=shares)
        for partition in (BOTH, CUT):
            create_topic(cluster, partition.topic, [(3, 1)])
        produce(cluster, CUT.topic, 0, CUT_AT)
        if shares:
            renewing = RenewingProducer.started(cluster, RENEWED, coordinator=3)
            topic_id = cluster.partition(BOTH.topic, BOTH.partition).topic_id
            renewing.produce(BOTH, topic_id, RENEWED_RECORDS, leader=3)
            wait_log_end(cluster, BOTH, RENEWED_RECORDS, 1)
        halves = [begun_with_offset(cluster, writer) for writer in (HALF, LEFT)]
        wait_same(cluster, topics)
        lose(cluster, 1)
        for producer in halves:
            producer.commit_transaction(SECONDS)
        if shares:
            renewing.commit()
        for writer in (HALF, LEFT, *((RENEWED,) if shares else ())):
            wait_state(cluster, writer, "CompleteCommit", via=3)
        unfinished = live_on(cluster, shares=shares)
        lose_last(cluster, 3, back=(1,))
        before = told(cluster, "--gone", 3)
        gone_back = cluster.partitions(*topics, BOTH.topic, CUT.topic)
        offline = [state.partition for state in gone_back if state.offline]
        elect_unclean(cluster, *offline)
        for partition in offline:
            cluster.wait_partition(
                partition.topic, partition.partition, lambda state: state.leader == 1, "b1 to lead"
            )
        after = told(cluster)
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        unsourced = breakglass("after", "internal-topics", "--json", *server)
        offsets = {group: stands_at(cluster, group) for group in (GOING, NEW, QUIET)}
        (logs,) = cluster.broker(3).layout.log_dirs
        # HALF and LEFT stand on another topic: what their transactions left is theirs alone.
        setting = (
            "after",
            "groups",
            "set",
            "--source",
            f"log:{logs}",
            "--json",
            "--write",
            *server,
        )
        produce(cluster, CUT.topic, 0, REFILL, acks="1")
        consent = f"{WITHOUT_EPOCHS} on {CUT} to {CUT_AT}"
        held_back = breakglass(*setting, "--topics", CUT.topic, "--consent", consent)
        of_input = ("--topics", INPUT.topic)
        unagreed = breakglass(*setting, *of_input)
        set_back = breakglass(*setting, *of_input, "--consent", "2 group offsets move")
        yield Course(
            cluster,
            before,
            after,
            unsourced,
            offsets,
            {one: started_again(cluster, one, starts) for one, starts in WRITERS.items()},
            share_start(cluster) if shares else None,
            unagreed,
            set_back,
            held_back,
            {group: stands_at(cluster, group) for group in (GOING, NEW, QUIET)},
            shares,
        )
        del unfinished


def stands_at(cluster: Cluster, group: str, partition: TopicPartition = INPUT) -> int:
    """Where the group stands in *partition*, once its new coordinator has read that."""
    found: list[int] = []

    def read() -> bool:
        with suppress(KafkaException):
            found.append(committed_offset(cluster, group, partition))
        return bool(found)

    cluster.wait_until(read, f"the coordinator of {group} to be loaded")
    return found[0]


def told(cluster: Cluster, *words: object) -> Ended:
    (logs,) = cluster.broker(3).layout.log_dirs
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    return breakglass(
        "after", "internal-topics", "--from", f"log:{logs}", "--json", *words, *server
    )


def live(cluster: Cluster, *, shares: bool) -> None:
    """What both replicas learn."""
    produce(cluster, INPUT.topic, 0, RECORDS)
    for group in (GOING, QUIET):
        commit(cluster, group, INPUT, BEFORE)
    for writer in WRITERS:
        committed(cluster, writer)
    if shares:
        reset = "share.auto.offset.reset"
        set_config(cluster, ConfigResource.GROUP, SHARING, reset, "earliest")
        share(cluster, SHARED_OUT)


def live_on(cluster: Cluster, *, shares: bool) -> Any:
    """What b3 alone learns; returns a producer that has not ended its transaction."""
    commit(cluster, GOING, INPUT, AFTER)
    commit(cluster, NEW, INPUT, NEWLY)
    produce(cluster, CUT.topic, 0, CUT_OFF)
    commit(cluster, WITHOUT_EPOCHS, CUT, CUT_AT + CUT_OFF)
    for writer in (*WRITERS, *WRITERS):
        committed(cluster, writer)
    if shares:
        share(cluster, SHARED_LATER)
    return transact(started(cluster, YOUNG))


def begun_with_offset(cluster: Cluster, transactional_id: str) -> Any:
    """A producer in a transaction with a record, and an offset of the group of the same name."""
    producer = transact(started(cluster, transactional_id))
    with lab_consumer(cluster, transactional_id) as consumer:
        member = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(
        [Position(OUTPUT.topic, OUTPUT.partition, HALF_OFFSET)], member, SECONDS
    )
    return producer


def started(cluster: Cluster, transactional_id: str) -> Any:
    """A producer that has fenced those before it."""
    seconds = TRANSACTION_SECONDS
    return transactional(cluster, transactional_id, transaction_timeout_ms=seconds * 1_000)


def committed(cluster: Cluster, transactional_id: str) -> None:
    """Start a producer that commits one record; back when its coordinator has noted the end."""
    transact(started(cluster, transactional_id)).commit_transaction(SECONDS)
    wait_state(cluster, transactional_id, "CompleteCommit", via=3)


def wait_state(cluster: Cluster, transactional_id: str, state: str, *, via: int) -> None:
    """Wait until the coordinator on broker *via* says *state* of the transaction."""
    from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def reached() -> bool:
        answer = cluster.read(lambda node: node.ask(request, DescribeTransactionsResponse), via=via)
        return bool(answer.transaction_states[0].transaction_state == state)

    cluster.wait_until(reached, f"the transaction of {transactional_id} to be {state}")


def transact(producer: Any) -> Any:
    producer.begin_transaction()
    producer.produce(OUTPUT.topic, partition=0, value=b"v")
    assert producer.flush(SECONDS) == 0
    return producer


class Written(NamedTuple):
    """What became of one record of a producer that was started so often."""

    offset: int | None
    """Where it was acknowledged; None: it was refused."""
    before: int
    """Where the log ended before."""


def started_again(cluster: Cluster, transactional_id: str, starts: int) -> Written:
    """Write one record after so many starts, and commit it."""
    for _ in range(starts):
        producer = started(cluster, transactional_id)
    before = on_disk(cluster, 2, OUTPUT).end
    producer.begin_transaction()
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())

    producer.produce(OUTPUT.topic, partition=0, value=b"v", on_delivery=delivered)
    # A client that is fenced ends its calls with an error of the kind that it likes.
    with suppress(KafkaException, SystemError):
        producer.commit_transaction(SECONDS)
    return Written(offsets[0] if offsets else None, before)


def share(cluster: Cluster, count: int) -> None:
    """Let the share group take and acknowledge so many records."""
    server = ("--bootstrap-server", cluster.lab_bootstrap, "--timeout-ms", "30000")
    wanted = ("--topic", INPUT.topic, "--group", SHARING, "--max-messages", str(count))
    run_tool(cluster.kafka, SHARE_CONSUMER, [*server, *wanted]).check()


def share_start(cluster: Cluster) -> int:
    """Where the share group stands, as Kafka's own tool says."""
    words = ["--describe", "--offsets", "--group", SHARING]
    server = ["--bootstrap-server", cluster.lab_bootstrap]
    ended = run_tool(cluster.kafka, SHARE_GROUPS, [*words, *server]).check()
    (row,) = [line.split() for line in ended.stdout.splitlines() if INPUT.topic in line]
    return int(row[3])


def wait_same(cluster: Cluster, topics: list[str]) -> None:
    """Wait until b1 has all of b3's internal logs."""
    partitions = [
        TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS[topic])
    ]

    def same() -> bool:
        return all(
            on_disk(cluster, 1, partition).end == on_disk(cluster, 3, partition).end
            for partition in partitions
        )

    cluster.wait_until(same, "b1 to hold all of the internal logs")


def keys(ended: Ended) -> dict[tuple[str, str], dict[str, Any]]:
    assert ended.code == 0, ended.err
    return {
        (key["kind"], key["name"]): key
        for partition in ended.document["partitions"]
        for tail in partition["lost"]
        for key in tail["keys"]
    }


@pytest.mark.parametrize("when", ["before", "after"])
def test_r17_groups_that_go_back_are_told_by_how_much_and_do(course: Course, when: str) -> None:
    found = keys(getattr(course, when))
    going, new = found["group offset", GOING], found["group offset", NEW]
    assert (going["lost"]["offset"], going["left"]["offset"]) == (AFTER, BEFORE)
    assert going["back"] == AFTER - BEFORE
    assert going["place"] == str(INPUT)
    assert (new["lost"]["offset"], new["left"]) == (NEWLY, None)
    assert "auto.offset.reset" in new["meaning"]
    assert ("group offset", QUIET) not in found
    assert course.offsets == {GOING: BEFORE, NEW: NO_OFFSET, QUIET: BEFORE}


def test_r38_groups_are_set_to_what_a_dead_brokers_disk_says_that_they_had_committed(
    course: Course,
) -> None:
    assert (course.unagreed.code, course.unagreed.said[-1]) == (3, "consent: 2 group offsets move")
    assert course.set_back.code == 0, course.set_back.err
    moved = {one["move"]["group"]: one["move"]["to"] for one in course.set_back.document["moved"]}
    assert moved == {GOING: AFTER, NEW: NEWLY}
    assert course.stands == {GOING: AFTER, NEW: NEWLY, QUIET: BEFORE}


def test_r43_a_group_without_epochs_is_held_back_where_its_log_was_cut_since_by_any_account(
    course: Course,
) -> None:
    """No journal knows of the election: Kafka's own tool ran it."""
    assert course.held_back.code == 0, course.held_back.err
    (moved,) = course.held_back.document["moved"]
    assert (moved["move"]["group"], moved["move"]["to"]) == (WITHOUT_EPOCHS, CUT_AT)
    assert committed_offset(course.cluster, WITHOUT_EPOCHS, CUT) == CUT_AT
    (said,) = course.held_back.document["unknown"]
    assert f"{CUT_OFF} offsets" in said


@pytest.mark.parametrize("writer", WRITERS)
def test_r17_what_a_lost_epoch_means_for_a_transactional_id_is_told(
    course: Course, writer: str
) -> None:
    found = keys(course.before)["transactional id", writer]
    lost, left = found["lost"], found["left"]
    assert lost["producer_id"] == left["producer_id"]
    assert lost["producer_epoch"] == left["producer_epoch"] + STARTS_MORE
    assert f"call initTransactions {STARTS_MORE + 1} times" in found["meaning"]


def test_r17_below_the_lost_epoch_it_is_refused_at_it_dropped_and_past_it_taken(
    course: Course,
) -> None:
    below, equal, past = (course.written[text] for text in ("below", "equal", "past"))
    assert below.offset is None
    assert equal.offset is not None
    assert equal.offset < equal.before, "acknowledged as the record of the epoch that was lost"
    assert past.offset == past.before


def test_r17_an_id_of_which_nothing_is_left_names_its_open_transaction(course: Course) -> None:
    young = keys(course.before)["transactional id", YOUNG]
    assert (young["lost"]["status"], young["left"]) == ("Ongoing", None)
    assert f"may stay open on {OUTPUT}" in young["meaning"]


def test_r17_share_groups_are_told_what_is_delivered_again(course: Course) -> None:
    if not course.shares:
        pytest.skip("share groups came with Kafka 4.0")
    shared = keys(course.before)["share group", SHARING]
    assert shared["back"] == SHARED_LATER
    assert course.share_start == SHARED_OUT


def test_r17_after_the_election_nothing_is_compared_without_a_source(course: Course) -> None:
    compared = [name for one in course.after.document["partitions"] for name in one["compared"]]
    assert compared
    assert all(name.startswith("log:") for name in compared)
    unsourced = course.unsourced.document["partitions"]
    assert all(one["compared"] == [] for one in unsourced)
    assert all("b3" in one["not_compared"] for one in unsourced), "it is down, and has more"
    assert "has anything that the kept ones have not" not in course.unsourced.err


def test_r17_the_topics_come_in_the_order_of_their_recovery(course: Course) -> None:
    topics = [one["topic"] for one in course.before.document["partitions"]]
    assert list(dict.fromkeys(topics)) == [
        topic for topic in INTERNAL_TOPICS if topic in set(topics)
    ]
    assert {one["kept"] for one in course.before.document["partitions"]} == {1}
    assert all(one["leader"] is None for one in course.before.document["partitions"])


def transactions(course: Course, *words: object) -> Ended:
    """`breakglass after transactions` of what is open on `__consumer_offsets`."""
    server = ("--bootstrap-server", course.cluster.bootstrap_servers)
    return breakglass("transactions", *words, "--topics", OFFSETS, *server)


def coordinator_logs(course: Course) -> list[str]:
    """b3's folders of `__transaction_state`, as options."""
    (logs,) = course.cluster.broker(3).layout.log_dirs
    numbers = range(PARTITIONS[TRANSACTIONS])
    return [word for n in numbers for word in ("--source", f"log:{logs}/{TRANSACTIONS}-{n}")]


@pytest.fixture(scope="module")
def open_ones(course: Course) -> dict[int, dict[str, Any]]:
    """What is open, without a source, by producer id; nothing was ended yet."""
    listed = transactions(course, "list", "--json")
    assert listed.code == 0, listed.err
    return {one["producer_id"]: one for one in listed.document["open"]}


def test_r28_an_ongoing_transaction_that_has_ended_elsewhere_is_not_left_to_its_coordinator(
    open_ones: dict[int, dict[str, Any]],
) -> None:
    assert len(open_ones) == 2, "of HALF and LEFT"
    for one in open_ones.values():
        assert one["coordinator_state"] == "Ongoing"
        assert f"it has ended on {OUTPUT}" in one["hanging"]["unknown"]
        assert (one["end"], one["aborts_at_ms"] > 0) == (None, True)


def test_r28_a_lost_decision_proves_that_it_was_committed_and_how_much_is_here_is_unknown(
    course: Course, open_ones: dict[int, dict[str, Any]]
) -> None:
    listed = transactions(course, "list", *coordinator_logs(course), "--json")
    proved = {one["producer_id"]: one for one in listed.document["open"]}
    assert set(proved) == set(open_ones)
    for one in proved.values():
        assert (one["hanging"], one["end"], one["records"]) == (True, "commit", 1)
        assert "unknown" in one["missing"]
        assert one["why"].startswith("was committed; its coordinator will ABORT it at ")
    asked = transactions(course, "finish", *coordinator_logs(course), "--write")
    assert asked.code == 3
    phrases = [line.removeprefix("consent: ") for line in asked.said if "consent: " in line]
    assert len(phrases) == 2
    assert all(phrase.endswith("without ? records") for phrase in phrases)


def test_r28_its_lost_marker_commits_it_before_its_coordinator_aborts_it(
    course: Course, open_ones: dict[int, dict[str, Any]]
) -> None:
    """LEFT is not ended: its coordinator aborts it, half committed."""
    producers = {name: producer_of(course, name) for name in (HALF, LEFT)}
    half = open_ones[producers[HALF]]
    # b3's folder of the partition.
    (logs,) = course.cluster.broker(3).layout.log_dirs
    source = ("--source", f"log:{logs}/{half['topic']}-{half['partition']}")
    listed = transactions(course, "list", *source, "--json")
    (one,) = [one for one in listed.document["open"] if one["producer_id"] == producers[HALF]]
    assert (one["hanging"], one["end"], one["missing"]) == (True, "commit", 0)
    phrase = f"{OFFSETS}-{half['partition']} commit producer {producers[HALF]}"
    ended = transactions(course, "finish", *source, "--write", "--consent", phrase, "--json")
    assert [told["result"] for told in ended.document["ended"]] == ["done"], ended.err
    assert ended.code == 1, "LEFT is left"

    for name in (HALF, LEFT):
        started(course.cluster, name)  # Its coordinator aborts what is Ongoing there.
        wait_state(course.cluster, name, "Empty", via=1)
    assert stands_at(course.cluster, HALF, OUTPUT) == HALF_OFFSET
    assert stands_at(course.cluster, LEFT, OUTPUT) == NO_OFFSET
    assert len(consume(course.cluster, OUTPUT, isolation="read_committed")) >= 2
    assert transactions(course, "list", "--json").document["open"] == []


def test_r28_a_producer_that_raises_its_epoch_is_committed_by_its_next_one(course: Course) -> None:
    """The abort of its coordinator has that epoch too, and finds nothing open."""
    if not course.shares:
        pytest.skip("KIP-890's second part came with Kafka 4.0")
    (logs,) = course.cluster.broker(3).layout.log_dirs
    asked = ("--topics", BOTH.topic, "--bootstrap-server", course.cluster.bootstrap_servers)
    source = ("--source", f"log:{logs}/{BOTH}")
    for sources, missing in ((source, 0), (coordinator_logs(course), None)):
        listed = breakglass("after", "transactions", "list", *asked, *sources, "--json")
        (one,) = listed.document["open"]
        assert (one["hanging"], one["end"], one["records"]) == (True, "commit", RENEWED_RECORDS)
        assert one["missing"] == missing or (missing is None and "unknown" in one["missing"])
    phrase = f"{BOTH} commit producer {producer_of(course, RENEWED)}"
    ended = breakglass(
        "after", "transactions", "finish", *asked, *source, "--write", "--consent", phrase
    )
    assert ended.code == 0, ended.err
    course.cluster.wait_until(
        lambda: initialise(course.cluster, RENEWED, 1).error_code == 0,
        "the coordinator to have aborted what was Ongoing there",
    )
    assert len(consume(course.cluster, BOTH, isolation="read_committed")) == RENEWED_RECORDS


def producer_of(course: Course, transactional_id: str) -> int:
    """The producer id in the lost state of the transactional id."""
    return int(keys(course.after)["transactional id", transactional_id]["lost"]["producer_id"])
