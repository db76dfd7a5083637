"""The transactional protocol on real brokers: rules M1, M2, M7, M8, M9 and M10.

Writers are processes of their own, which are killed and stopped wherever they are.
"""

import json
import random
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import OutcomeUnknown, TimedOut
from breakglass.services.kafka.producer import Fenced
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import create_topic
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import MARK, CommandLog, Degradation, LogDegraded
from breakglass.services.metastore.log.validator import (
    NameValidator,
    NothingToDo,
    StatementRejected,
)
from breakglass.services.metastore.log.writer import CommandWriter, Transactions
from breakglass.services.session import Power, ReadAccess
from tests.kit.clusters import access_to
from tests.lab.asking import transactional
from tests.lab.ksql.topics import SECONDS, SETTINGS, CommandTopic
from tests.lab.ksql.writers import Writers, writing

WRITERS, FAULTS = 8, 20
EACH = 3
"""Statements that are committed between two faults."""
END_TXN = 26
CREATE = "CREATE STREAM {} (ID INT KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"


@pytest.fixture(scope="module")
def three_mortal_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers that may be restarted: two of the three are enough."""
    replicated = {
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "3",
    }
    folder = tmp_path_factory.mktemp("writers")
    with Cluster.up(folder, brokers=3, overrides=replicated, tethered=True) as cluster:
        yield cluster


@pytest.fixture
def replicated(three_mortal_brokers: Cluster) -> CommandTopic:
    """A command topic that outlives any one broker."""
    made = CommandTopic(three_mortal_brokers, f"writers_{uuid.uuid4().hex[:8]}_")
    create_topic(
        three_mortal_brokers, made.name, [[1, 2, 3]], {**SETTINGS, "min.insync.replicas": "2"}
    )
    return made


def soon() -> Deadline:
    return Deadline.after(SECONDS)


WAYS = ExitStack()
"""What each test's writers send by; closed at its end."""


@pytest.fixture(autouse=True)
def closed_ways() -> Iterator[None]:
    yield
    WAYS.close()


def sender(access: ReadAccess) -> Sender:
    """May send records."""
    with access.reading() as client:
        cluster_id = client.describe(soon()).cluster_id
    return WAYS.enter_context(Power(access).records(cluster_id))


def log_of(topic: CommandTopic) -> CommandLog:
    return CommandLog(access_to(topic.cluster), topic.service_id)


def writer_of(topic: CommandTopic, log: CommandLog) -> CommandWriter:
    return CommandWriter(log, sender(access_to(topic.cluster)), NameValidator(lambda _: True))


def producer_of(topic: CommandTopic, seconds: float = SECONDS) -> Transactions:
    by = sender(access_to(topic.cluster))
    return Transactions(by, topic.name, topic.service_id, seconds=seconds)


def statements(records: Sequence[CommandRecord]) -> list[str]:
    return [json.loads(record.value or b"{}")["statement"] for record in records]


def conflicts(records: Sequence[CommandRecord]) -> list[str]:
    """Statements that lost and are there: a CREATE of what there was, a DROP of what was not."""
    there: set[str] = set()
    found = []
    for text in statements(records):
        verb, _, name, *_ = text.rstrip(";").split()
        if (name in there) is not (verb == "DROP"):
            found.append(text)
        there = there - {name} if verb == "DROP" else there | {name}
    return found


def assert_nothing_lost(records: Sequence[CommandRecord], writers: Writers) -> None:
    """Each statement that was told as committed is where it was told to be, and once."""
    marks = [dict(record.headers)[MARK] for record in records]
    assert len(set(marks)) == len(marks)
    by_offset = dict(zip([record.offset for record in records], statements(records), strict=True))
    committed = writers.results("committed")
    for document in committed:
        assert by_offset[document["offset"]] == document["text"]
    offsets = [document["offset"] for document in committed]
    assert len(set(offsets)) == len(offsets)
    untold = len(records) - len(offsets)
    assert untold <= writers.killed + len(writers.results("unknown"))


def test_m7_eight_writers_that_are_killed_and_stopped_while_brokers_restart(
    replicated: CommandTopic,
) -> None:
    words = [replicated.cluster.bootstrap_servers, replicated.service_id]
    with writing(words, WRITERS) as writers:
        for number in range(FAULTS):
            writers.wait_committed(more=EACH)
            random.choice((writers.kill_one, writers.stop_one))()
            if number == FAULTS // 2:
                broker = replicated.cluster.broker(random.choice((1, 2, 3)))
                broker.kill()
                broker.start()
        writers.kill_one()
        writers.stop_one()
        writers.wait_committed(more=EACH)
        writers.finish()
    records = replicated.read()
    assert conflicts(records) == []
    assert_nothing_lost(records, writers)
    digests = set()
    for _ in range(3):
        with log_of(replicated) as log:
            log.catch_up(soon())
            digests.add(log.metastore.digest)
    assert len(digests) == 1


def test_a_statement_is_done_when_the_own_reader_has_passed_it(topic: CommandTopic) -> None:
    with log_of(topic) as log:
        writer = writer_of(topic, log)
        done = writer.submit(CREATE.format("S1"))
        assert done.offset == 0
        assert set(log.metastore.sources) == {"S1"}
        assert log.position > 0
        with pytest.raises(StatementRejected):
            writer.submit(CREATE.format("S1"))
        again = writer.submit(CREATE.format("IF NOT EXISTS S1"))
        assert (again.offset, bool(again.reason)) == (None, True)
        assert writer.submit("DROP STREAM S1;").offset == 2
    assert statements(topic.read()) == [CREATE.format("S1"), "DROP STREAM S1;"]


def test_m7_a_refused_statement_fences_nobody(topic: CommandTopic) -> None:
    other = open_transaction(topic, CREATE.format("S2"))
    with log_of(topic) as log, pytest.raises(StatementRejected):
        writer_of(topic, log).submit("DROP STREAM S1;")
    other.commit_transaction(SECONDS)
    assert statements(topic.read()) == [CREATE.format("S2")]


def test_m8_a_writer_takes_over_from_one_that_was_stopped(topic: CommandTopic) -> None:
    """The victim's transaction would stay open for a quarter of an hour, and is not waited for."""
    other = open_transaction(topic, CREATE.format("S1"))
    with log_of(topic) as log:
        done = writer_of(topic, log).submit(CREATE.format("S1"))
        assert done.offset is not None
        with pytest.raises(Exception, match=r"fenced|FENCED|newer producer"):
            other.commit_transaction(SECONDS)
        log.catch_up(soon())
        assert log.commands == 1
    assert conflicts(topic.read()) == []


def open_transaction(topic: CommandTopic, text: str) -> Producer:
    """A writer under the service's id, with *text* written and not committed."""
    told = NameValidator(lambda _: True).validate(text, log_of(topic).metastore, {})
    assert not isinstance(told, NothingToDo)
    producer = transactional(topic.cluster, topic.service_id, transaction_timeout_ms=900_000)
    producer.begin_transaction()
    producer.produce(topic.name, key=told.id.to_json(), value=told.value, partition=0)
    assert producer.flush(SECONDS) == 0
    return producer


def test_m1_a_commit_whose_answer_is_lost_is_found_in_the_log(topic: CommandTopic) -> None:
    """Another writer takes the id meanwhile: the client calls it fenced, and it was committed."""
    broker = topic.cluster.broker(1)
    addresses: dict[int, Address] = {}
    with Proxy(broker.address(Listener.LAB), addresses=addresses) as proxy:
        addresses[1] = proxy.address
        options = ConnectionOptions(bootstrap_server=f"{proxy.address.host}:{proxy.address.port}")
        through = sender(ReadAccess(connection_settings(options, {})))
        with log_of(topic) as log, log_of(topic) as other:
            proxy.swallow_next(END_TXN)
            writer = CommandWriter(log, through, NameValidator(lambda _: True))
            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(writer.submit, CREATE.format("S1"), seconds=SECONDS)
                proxy.wait_seen(END_TXN)
                writer_of(topic, other).submit(CREATE.format("S2"))
                proxy.sever()
                done = first.result(SECONDS)
        assert (done.offset, done.attempts) == (0, 2)
    assert statements(topic.read()) == [CREATE.format("S1"), CREATE.format("S2")]


def test_m10_a_fenced_writer_ends_with_one_error_and_says_nothing_on_stderr(
    topic: CommandTopic, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = (producer_of(topic) for _ in range(2))
    record = CommandRecord(0, b'"stream/`A`/create"', b'{"statement":"x"}')
    first.init()
    first.begin()
    second.init()
    with pytest.raises(Fenced):
        first.send([record])
    assert capfd.readouterr().err == ""
    assert topic.read() == []


def test_m9_the_log_ends_where_a_transaction_is_open(topic: CommandTopic) -> None:
    """At the last stable offset: waiting for the high watermark would hang until the abort."""
    with log_of(topic) as log:
        writer_of(topic, log).submit(CREATE.format("S1"))
        other = open_transaction(topic, CREATE.format("S2"))
        assert log.catch_up(soon()) == 2
        assert log.commands == 1
        other.abort_transaction(SECONDS)


def test_m2_a_commit_that_is_confirmed_without_enough_replicas_is_unknown_until_they_are_back(
    replicated: CommandTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lost between produce and commit: the answer is yes, and nobody can read it."""
    cluster = replicated.cluster
    lost = cluster.broker(3)
    replicated.configure(min_insync_replicas="3")
    commit = Transactions.commit
    confirmed: list[str] = []

    def commit_too_late(producer: Transactions) -> None:
        if not confirmed:
            lost.stop()
            wait_for_isr(replicated, {1, 2})
        commit(producer)
        confirmed.append(producer.id)

    with log_of(replicated) as log:
        writer = writer_of(replicated, log)
        writer.submit(CREATE.format("S1"))
        monkeypatch.setattr(Transactions, "commit", commit_too_late)
        with pytest.raises(OutcomeUnknown, match=MARK):
            writer.submit(CREATE.format("S2"), seconds=30)
        assert confirmed
        assert statements(replicated.read()) == [CREATE.format("S1")]
        other = producer_of(replicated, seconds=3)
        with pytest.raises(TimedOut):
            other.init()
        lost.start()
        wait_for_isr(replicated, {1, 2, 3})
        again = writer.submit(CREATE.format("IF NOT EXISTS S2"))
        assert (again.offset, bool(again.reason)) == (None, True)
        writer.submit(CREATE.format("S3"))
        assert set(log.metastore.sources) == {"S1", "S2", "S3"}
    assert conflicts(replicated.read()) == []


def wait_for_isr(topic: CommandTopic, wanted: set[int]) -> None:
    def so() -> bool:
        return set(topic.cluster.partition(topic.name, 0).isr) == wanted

    topic.cluster.wait_until(so, f"the ISR to be {sorted(wanted)}")


def test_an_incompatible_command_is_never_skipped(topic: CommandTopic) -> None:
    bad = CommandRecord(0, b'"stream/`B`/create"', b'{"statement":"x","version":99}', 5)
    with log_of(topic) as log:
        writer = writer_of(topic, log)
        writer.submit(CREATE.format("S1"))
        topic.produce([bad])
        with pytest.raises(LogDegraded, match="offset 2"):
            writer.submit(CREATE.format("S2"))
        assert log.degraded is not None
        assert set(log.metastore.sources) == {"S1"}


def test_m4_a_topic_created_anew_ends_the_log(topic: CommandTopic) -> None:
    with log_of(topic) as log:
        writer = writer_of(topic, log)
        writer.submit(CREATE.format("S1"))
        topic.delete()
        topic.create()
        with pytest.raises(LogDegraded):
            writer.submit(CREATE.format("S2"))
        assert log.degraded is not None
        assert log.degraded.why is Degradation.CORRUPTED
    assert topic.read() == []
