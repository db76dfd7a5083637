"""The commands of checkpoints: killed, stopped, asked how far they are (I7)."""

from collections import Counter
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest

from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from breakglass.services.session import Power
from tests.kit.program import breakglass
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch, soon
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, sent, state
from tests.lab.checkpoint.taking import Taking, read
from tests.lab.checkpoint.test_retention import own, set_up


def test_i07_a_take_that_is_killed_is_gone_on_with_by_the_same_request(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    bank = small_bank
    with bank.working(1):
        bank.order(300)
        with program.running("take", *bank.options("--request", "nightly")) as take:
            take.wait_for("checkpoint 1 is acknowledged")
            take.kill()
        bank.order(100)
        refused = program.here("take", *bank.options("--id", "1", "--request", "another"))
        assert refused.code == 3
        again = program.whole("take", *bank.options("--request", "nightly"))
    assert (again["id"], again["state"]) == (1, "completed")
    found = audited(held(store, 1), bank.group, bank.topic, passes_over=False)
    assert found == Books(bank.total, (), ())


def test_a_server_takes_what_is_asked_for_and_goes_on_after_it_was_killed(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    options = small_bank.options("--port", "0", serving=True)
    with small_bank.working(1):
        small_bank.order(200)
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            assert asked("POST", address, {"backupId": 7})[0] == 202
            assert asked("POST", address, {"backupId": 7})[0] == 409
            server.kill()
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            wait_until(lambda: state(address, 7) == "COMPLETED", "checkpoint 7")
            assert asked("DELETE", f"{address}/7")[0] == 204
            assert asked("GET", f"{address}/7")[0] == 404
    assert store.read(7) is None


COMPACTED = {"cleanup.policy": "compact", "retention.bytes": "5000000"}


def test_a_server_takes_compacted_topics_and_answers_what_is_under_way_when_it_is_stopped(
    settled_bank: Branch,
    program: Program,
    store: BackupStore,
    whole_broker: Cluster,
    power: Power,
    client: ReadClient,
) -> None:
    set_up(power, client, settled_bank.topic, COMPACTED)
    options = settled_bank.options("--hold-retention", "--port", "0", serving=True)
    with program.running("serve", *options, token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 1})[0] == 202
        server.wait_for("checkpoint 1  completed")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")
        whole_broker.broker(1).pause()
        try:
            with sent("POST", address, {"backupId": 2}) as request:
                # What is answered after that request was read after it.
                assert asked("GET", address)[0] == 200
                server.terminate()
                server.wait_for("stopping: ")
                whole_broker.broker(1).resume()
                assert request.getresponse().status == 202
        finally:
            whole_broker.broker(1).resume()
        assert server.wait() == 0
    with program.running("serve", *options, token=TOKEN):
        wait_until(lambda: read(store, 2).status is Status.COMPLETED, "checkpoint 2")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")


RECORDS = 9_000
"""Of three partitions: more than is copied in one piece."""


def vector(bank: Branch) -> tuple[str, ...]:
    return ("--topics", bank.topic, "--level", Level.VECTOR, "--control-topic", bank.control)


def test_a_server_of_a_topic_that_there_is_not_does_not_begin(program: Program) -> None:
    program.store.mkdir()
    done = program.here("serve", "--topics", "nosuch", "--level", "vector", "--port", "0")
    assert (done.code, "nosuch" in done.err, done.out) == (2, True, "")


def test_a_copy_under_way_says_how_far_it_is_and_one_that_is_stopped_how_to_go_on(
    small_bank: Branch, program: Program
) -> None:
    small_bank.order(RECORDS)
    with program.running("take", *vector(small_bank), "--max-rate", "10kB/s") as take:
        take.wait_for("checkpoint 1 is acknowledged")

        def moving() -> bool:
            details = program.whole("status", "1", cluster=False)["details"]
            far = [detail["so_far"] for detail in details if detail["so_far"] is not None]
            # A file that is renamed between two looks leaves unknown where the copy began.
            begun = [one for one in far if one["records"] and one["records_expected_at_most"]]
            for one in begun:
                assert 0 < one["records"] < one["records_expected_at_most"] <= RECORDS
                assert 0 < one["bytes"] < one["bytes_expected_about"]
            return bool(begun)

        wait_until(moving, "a copy under way")
        take.terminate()
        assert take.wait() == 130
        assert f"checkpoint finish 1 --store {program.store}" in " ".join(take.said)
    done = program.whole("finish", "1", "--control-topic", small_bank.control)
    assert done["state"] == "completed"


def scope(topic: Branch, *more: str) -> tuple[str, ...]:
    return ("--topics", topic.topic, "--control-topic", topic.control, *more)


def explained(program: Program, *arguments: str) -> dict[str, Any]:
    """`checkpoint explain` of topics: no store is named."""
    where = ("--bootstrap-server", program.bootstrap, "--json")
    done = breakglass("checkpoint", "explain", *arguments, *where)
    assert done.code == 0, done.err
    found: dict[str, Any] = done.document
    return found


def test_participants_are_explained_and_taken_as_coordinated(
    settled_bank: Branch, program: Program
) -> None:
    bank = settled_bank
    group = ("--group", f"{bank.group}=exactly-once")
    found = explained(program, *scope(bank, *group))
    assert found["strongest"] == "coordinated"
    assert [topic["writers"] for topic in found["topics"]] == [["participant"]]
    assert [(one["group"], one["commits"], one["policy"]) for one in found["groups"]] == [
        (bank.group, "participant", "exactly-once")
    ]
    taken = program.whole("take", *bank.options())
    assert (taken["level"], taken["state"]) == ("coordinated", "completed")
    stored = program.whole("explain", "1", cluster=False)
    assert (stored["level"], stored["state"]) == ("coordinated", "completed")
    assert stored["topics"] == found["topics"]


def test_without_a_promise_nothing_is_taken(plain: Branch, program: Program) -> None:
    plain.commit(f"reader-of-{plain.topic}")
    assert explained(program, *scope(plain))["strongest"] is None
    assert program.here("take", *scope(plain)).code == 3
    assert not program.store.exists()


# --- nothing is written where it would prove nothing


def logs_of(topic: Branch) -> dict[TopicPartition, int]:
    """How far the logs of the topic go, and of the control topic where there is one."""
    names = {topic.topic, topic.control}
    with topic.reading() as client:
        there = {state.partition.topic for state in client.partitions((), soon())} & names
        return read_logs(client, tuple(sorted(there)), soon()).high_watermarks(soon())


def test_h17_no_marker_is_written_into_topics_of_applications_without_the_participant(
    plain: Branch, program: Program
) -> None:
    """Each application of the topic would read the markers, and copy them downstream."""
    plain.commit(f"reader-of-{plain.topic}")
    before = logs_of(plain)
    coordinated = (*scope(plain), "--level", "coordinated", "--write")
    assert program.here("take", *coordinated, "--consent", "write 2 markers").code == 3
    assert not program.store.exists()
    with program.running("serve", *coordinated, "--port", "0", token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 1})[0] == 409
        assert asked("GET", f"{address}/1")[1]["state"] == "FAILED"
    assert logs_of(plain) == before


def test_h17_a_server_without_a_level_chooses_as_take_does(plain: Branch, program: Program) -> None:
    group = f"reader-of-{plain.topic}"
    plain.commit(group)
    before = logs_of(plain)
    serve = ("serve", *scope(plain), "--write", "--port", "0")
    with program.running(*serve, "--group", f"{group}=reader", token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 1})[0] == 202
        wait_until(lambda: state(address, 1) == "COMPLETED", "the checkpoint")
    assert logs_of(plain) == before
    assert program.whole("explain", "1", cluster=False)["level"] == "ordered"
    assert program.here(*serve).code == 3, "no promise holds where the group is not named"


PARTITIONS = 100


def test_h14_the_markers_of_100_partitions_are_one_request(
    whole_broker: Cluster, taking: Taking, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: Counter[str] = Counter()
    call = Sender.call

    def counted(sender: Sender, broker: int, request: Any, *more: Any, **named: Any) -> Any:
        if isinstance(request, ProduceRequest):
            written.update(one.name for one in request.topic_data)
        return call(sender, broker, request, *more, **named)

    monkeypatch.setattr(Sender, "call", counted)
    create_topic(whole_broker, topic, [[1]] * PARTITIONS)
    wanted = taking.wanted(Level.COORDINATED, (topic,))
    with taking.power.markers(taking.cluster_id) as markers:
        topics = KafkaTopics(taking.client, markers, wanted)
        assert len(topics.start(1, topics.scope().partitions)) == PARTITIONS
    assert written[topic] == 1
