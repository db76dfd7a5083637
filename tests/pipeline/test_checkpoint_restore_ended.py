"""Restores of checkpoints that ended before their time: they are gone on with, and whole then."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.pipeline.report import CopyProgress
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.commands import Program
from tests.pipeline.checkpoint_restores import Checkpoints
from tests.pipeline.producing import committed_messages, make, numbered, produce
from tests.pipeline.test_foreign_writes import delete
from tests.pipeline.test_restore import without_offsets

PARTITIONS = 2


class Killed(BaseException):
    """The restore ends here, as if its process had been killed."""


def die(now: CopyProgress) -> None:
    """End it in the thread that restores, when its records are there and nothing else is."""
    if now.done == now.total and threading.current_thread() is threading.main_thread():
        raise Killed


@pytest.fixture
def filled(broker: Cluster, topic: str) -> str:
    """A topic with ten records in each of its partitions."""
    make(broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(broker, topic, numbered(10, start=10 * partition), partition)
    return topic


def require_same(broker: Cluster, target: str, topic: str) -> None:
    for partition in range(PARTITIONS):
        restored = without_offsets(broker, target, partition)
        assert restored == without_offsets(broker, topic, partition)


def words(broker: Cluster, control: str) -> list[str]:
    """What the control topic says, by its keys, in the order of the log."""
    return [(message.key() or b"").decode() for message in committed_messages(broker, control, 0)]


def test_a_killed_restore_is_refused_but_to_go_on_and_participants_are_told_at_its_end(
    broker: Cluster, checkpoints: Checkpoints, filled: str
) -> None:
    id, renamed = checkpoints.taken(filled), {filled: f"{filled}-back"}
    with pytest.raises(Killed):
        checkpoints.restore(checkpoints.plan(id, renamed), tell=die)
    assert checkpoints.topic_id(checkpoints.control) is None
    with pytest.raises(Refused, match=r"--resume.* delete the topic"):
        checkpoints.plan(id, renamed)
    (done,) = checkpoints.restore(checkpoints.plan(id, renamed, resume=True))
    assert (done.error, done.verified, done.records) == ("", True, 0)
    require_same(broker, renamed[filled], filled)
    told = [f"restored/{checkpoints.topic_id(renamed[filled])}"]
    assert words(broker, checkpoints.control) == told


def test_a_killed_restore_is_wiped_and_begun_anew(
    broker: Cluster, checkpoints: Checkpoints, filled: str
) -> None:
    id, renamed = checkpoints.taken(filled), {filled: f"{filled}-back"}
    with pytest.raises(Killed):
        checkpoints.restore(checkpoints.plan(id, renamed), tell=die)
    delete(broker, checkpoints, renamed[filled])
    (done,) = checkpoints.restore(checkpoints.plan(id, renamed))
    assert (done.error, done.verified, done.records) == ("", True, 20)
    require_same(broker, renamed[filled], filled)


def test_participants_are_told_of_no_topic_before_all_are_whole(
    broker: Cluster, checkpoints: Checkpoints, filled: str
) -> None:
    """Somebody else writes into the second of two topics, which is wiped then."""
    other = f"{filled}-2"
    make(broker, other)
    produce(broker, other, numbered(5))
    id = checkpoints.taken(filled, other)
    renamed = {text: f"{text}-back" for text in (filled, other)}

    made: list[str] = []

    def intrude() -> None:
        made.append("a topic")
        if len(made) == len(renamed):
            wait_until(lambda: checkpoints.topic_id(renamed[other]), "the second topic")
            produce(broker, renamed[other], numbered(1))

    done = checkpoints.restore(checkpoints.plan(id, renamed), created=intrude)
    assert [restored.whole for restored in done] == [True, False]
    assert checkpoints.told().restored == {}
    with pytest.raises(Refused, match="has failed"):
        checkpoints.plan(id, renamed, resume=True)
    delete(broker, checkpoints, renamed[other])
    (again,) = checkpoints.restore(checkpoints.plan(id, renamed, resume=True))
    assert (again.target, again.whole) == (renamed[other], True)
    told = {checkpoints.topic_id(text) for text in renamed.values()}
    assert checkpoints.told().restored.keys() == told
    require_same(broker, renamed[filled], filled)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_restore_that_is_killed_midway_goes_on_and_every_record_is_there_once(
    broker: Cluster, checkpoints: Checkpoints, topic: str
) -> None:
    """kill -9 of the program, twice."""
    make(broker, topic, partitions=PARTITIONS)
    records = 20_000
    for partition in range(PARTITIONS):
        produce_many(broker, topic, partition, records, pattern=Pattern(value_bytes=2_000))
    id, target = checkpoints.taken(topic), f"{topic}-back"
    program = Program(broker.bootstrap_servers, Path(checkpoints.store.address), checkpoints.folder)
    whole = PARTITIONS * records
    phrase = f"restore checkpoint {id} with {whole:,} records into {target}"
    into = ("--map", f"{topic}={target}", "--control-topic", checkpoints.control)
    given = (*into, "--write", "--consent", phrase)

    for least, more in ((1, ()), (whole // 3, ("--resume",))):
        with program.running("restore", str(id), *given, *more) as restore:
            wait_until(partial(checkpoints.reaches, target, least), "records to be there", 120)
            restore.kill()
        assert checkpoints.topic_id(checkpoints.control) is None
    done = program.whole("restore", str(id), *given, "--resume")
    assert (done["whole"], done["level"]) == (True, "vector")
    (one,) = done["topics"]
    assert one["verified"]
    assert 0 < one["records"] < whole
    require_same(broker, target, topic)
    assert words(broker, checkpoints.control) == [f"restored/{checkpoints.topic_id(target)}"]
