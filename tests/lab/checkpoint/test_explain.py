"""`checkpoint explain`, and `take` without a level: the strongest promise that holds."""

from typing import Any

from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.model import TopicPartition
from tests.kit.program import breakglass
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch, soon
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, state


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
