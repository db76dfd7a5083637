"""Restores of checkpoints that ended before their time: they are gone on with, and whole then."""

import pytest

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.model import TopicPartition
from tests.kit.waiting import wait_until
from tests.lab.asking import delete_topic
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import committed_messages, make, numbered, produce
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking
from tests.lab.recover.incident.beside import delete_records

PARTITIONS = 2


@pytest.fixture
def filled(whole_broker: Cluster, topic: str) -> str:
    """A topic with ten records in each of its partitions."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(whole_broker, topic, numbered(10, start=10 * partition), partition)
    return topic


def require_same(broker: Cluster, target: str, topic: str) -> None:
    for partition in range(PARTITIONS):
        assert contents(broker, target, partition) == contents(broker, topic, partition)


def test_participants_are_told_of_no_topic_before_all_are_whole(
    whole_broker: Cluster, taking: Taking, filled: str
) -> None:
    """Somebody else writes into the second of two topics, which is wiped then."""
    other = f"{filled}-2"
    make(whole_broker, other)
    produce(whole_broker, other, numbered(5))
    id = taking.taken(filled, other)
    renamed = {text: f"{text}-back" for text in (filled, other)}
    made: list[str] = []

    def intrude() -> None:
        made.append("a topic")
        if len(made) == len(renamed):
            wait_until(lambda: taking.topic_id(renamed[other]), "the second topic")
            produce(whole_broker, renamed[other], numbered(1))

    done = taking.carry_out(taking.plan(id, renamed), created=intrude)
    assert [restored.whole for restored in done] == [True, False]
    assert taking.told().restored == {}
    with pytest.raises(Refused):
        taking.plan(id, renamed, resume=True)
    delete_topic(whole_broker, renamed[other])
    (again,) = taking.carry_out(taking.plan(id, renamed, resume=True))
    assert (again.target, again.whole) == (renamed[other], True)
    told = {taking.topic_id(text) for text in renamed.values()}
    assert taking.told().restored.keys() == told
    require_same(whole_broker, renamed[filled], filled)
    assert taking.plan(id, renamed, resume=True).earlier == sorted(renamed.values())
    delete_records(whole_broker, TopicPartition(renamed[filled], 1), 4)
    with pytest.raises(Refused, match=f"of {renamed[filled]}-1, and its log now has 4 to"):
        taking.plan(id, renamed, resume=True)


def test_a_restore_that_is_killed_midway_goes_on_and_every_record_is_there_once(
    whole_broker: Cluster, taking: Taking, topic: str, program: Program
) -> None:
    """kill -9 of the program, twice."""
    make(whole_broker, topic, partitions=PARTITIONS)
    records = 20_000
    for partition in range(PARTITIONS):
        produce_many(whole_broker, topic, partition, records, pattern=Pattern(value_bytes=2_000))
    id, target, whole = taking.taken(topic), f"{topic}-back", PARTITIONS * records
    phrase = f"restore checkpoint {id} with {whole:,} records into {target}"
    into = ("--map", f"{topic}={target}", "--control-topic", taking.control)
    given = (str(id), *into, "--write", "--consent", phrase)
    for least, more in ((1, ()), (whole // 3, ("--resume",))):
        with program.running("restore", *given, *more) as restore:
            wait_until(lambda least=least: taking.reaches(target, least), "records to be there")  # type: ignore[misc]
            restore.kill()
        assert taking.topic_id(taking.control) is None
        assert program.here("restore", *given).code == 3
    done = program.whole("restore", *given, "--resume")
    assert (done["whole"], done["level"]) == (True, "vector")
    (one,) = done["topics"]
    assert one["verified"]
    assert 0 < one["records"] < whole
    require_same(whole_broker, target, topic)
    said = [message.key() for message in committed_messages(whole_broker, taking.control, 0)]
    assert said == [f"restored/{taking.topic_id(target)}".encode()]
