"""Somebody else writes into a topic while it is restored: it is never said to be whole."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import CopyProgress
from breakglass.services.pipeline.restore import producing
from breakglass.services.pipeline.restore.offset_map import CommittedRun, LoggedOffsets, read_log
from breakglass.services.pipeline.restore.producing import RecordClient
from breakglass.services.pipeline.restore.proof import Foreign, foreign_records
from breakglass.services.pipeline.restore.task import PartitionTask
from breakglass.services.pipeline.stored_segments import Longs, RecordRun
from breakglass.services.session import Power
from tests.lab.asking import delete_topic, transactional
from tests.lab.backup.backups import BackUp
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import make, numbered, produce, transact
from tests.lab.backup.restores import Restore
from tests.lab.checkpoint.taking import Taking

RECORDS = 8
FILLED, EMPTY = 0, 1
"""Partitions."""


@pytest.fixture
def filled(whole_broker: Cluster, topic: str) -> str:
    """A topic of two partitions, the second of which is empty."""
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, numbered(RECORDS), FILLED)
    return topic


@pytest.fixture
def target(topic: str) -> str:
    return f"{topic}-back"


@pytest.fixture
def intrude(whole_broker: Cluster, target: str) -> Callable[[int], None]:
    """Somebody else writes three records into a partition of the target."""

    def write(partition: int) -> None:
        produce(whole_broker, target, numbered(3, start=100), partition)

    return write


def when_all_are_there(act: Callable[[], None]) -> Callable[[CopyProgress], None]:
    """What is told of a restore makes somebody *act* once, when every record was produced."""
    acted: list[int] = []

    def tell(now: CopyProgress) -> None:
        # In the thread that restores: the one that watches beside it may be told first.
        here = threading.current_thread() is threading.main_thread()
        if now.done == now.total and here and not acted:
            acted.append(now.done)
            act()

    return tell


def test_records_of_others_are_found_before_between_and_behind(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """An attempt of ours that was aborted, and commit markers, are nobody's records."""
    make(whole_broker, topic, partitions=2)
    ours = transactional(whole_broker, topic)

    def transaction(count: int, partition: int, *, commit: bool = True) -> None:
        transact(ours, topic, numbered(count), partition, commit=commit)
        back_up.await_decided(topic)

    produce(whole_broker, topic, numbered(2))
    transaction(3, FILLED)
    produce(whole_broker, topic, numbered(1))
    transaction(2, FILLED, commit=False)
    transaction(2, FILLED)
    produce(whole_broker, topic, numbered(3))
    transaction(2, 1)
    transaction(1, 1, commit=False)
    transaction(1, 1)
    runs = {
        0: (CommittedRun(0, 3, 2, 3), CommittedRun(3, 5, 10, 2)),
        1: (CommittedRun(0, 2, 0, 2), CommittedRun(2, 3, 5, 1)),
    }
    sender = back_up.client.sender
    found = foreign_records(sender, lambda: back_up.sources(topic), runs, transactional=True)
    assert found == [Foreign(TopicPartition(topic, 0), first=0, count=6)]


def test_a_record_amid_a_transaction_ends_it_before_it_is_committed(
    whole_broker: Cluster,
    back_up: BackUp,
    restore: Restore,
    filled: str,
    target: str,
    intrude: Callable[[int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody else writes once the second record of eight is there."""

    class Interrupted(RecordClient):
        def send(self, run: RecordRun) -> Longs:
            types = super().send(run.cut(0, 2))
            placed.append(self.flush())
            intrude(FILLED)
            return np.append(types, super().send(run.cut(2, len(run))))

        def flush(self) -> Longs:
            return np.concatenate([*placed, super().flush()])

    placed: list[Longs] = []
    back_up.topic(filled)
    plan_of_all = restore.plan(filled, target)
    (plan,) = plan_of_all.topics
    make(whole_broker, target)
    spans, stored = plan.partitions[FILLED].spans, plan.stored[FILLED]
    log = str(tmp_path / "partition-0.jsonl")
    task = PartitionTask(target, FILLED, spans, stored, "of-a-test", log, 1_000)
    monkeypatch.setattr(producing, "RecordClient", Interrupted)
    done = producing.produced(Power(back_up.access), plan_of_all.cluster_id, task)
    assert done.foreign
    assert f"{target}-0 has another writer" in done.error
    assert (done.records, read_log(task.log_path)) == (0, LoggedOffsets())


@pytest.mark.parametrize("partition", [FILLED, EMPTY])
def test_records_written_before_the_restored_ones_are_refused_until_the_topic_is_wiped(
    whole_broker: Cluster,
    taking: Taking,
    filled: str,
    target: str,
    intrude: Callable[[int], None],
    partition: int,
) -> None:
    id, renamed = taking.taken(filled), {filled: target}
    plan = taking.plan(id, renamed)
    (done,) = taking.carry_out(plan, created=lambda: intrude(partition), verify=False)
    assert f"{target}-{partition} has 3 records of another writer, the first at" in done.error
    assert not done.whole
    assert taking.told().restored == {}
    with pytest.raises(Refused, match=r"has failed: .* has 3 records of another writer"):
        taking.plan(id, renamed)
    with pytest.raises(Refused, match="delete the topic, then restore it again"):
        taking.plan(id, renamed, resume=True)
    delete_topic(whole_broker, target)
    (again,) = taking.carry_out(taking.plan(id, renamed, resume=True))
    assert (again.error, again.verified, again.whole) == ("", True, True)
    assert contents(whole_broker, target) == contents(whole_broker, filled)
    assert list(taking.told().restored) == [taking.topic_id(target)]


def test_records_written_once_all_were_compared_are_refused_before_participants_are_told(
    taking: Taking, filled: str, target: str, intrude: Callable[[int], None]
) -> None:
    """By then the topic has its own settings again, and is restored as far as topics go."""
    id, renamed = taking.taken(filled), {filled: target}
    plan = taking.plan(id, renamed)
    (done,) = taking.carry_out(plan, configured=lambda: intrude(FILLED))
    assert (done.verified, done.settings_back, done.whole) == (True, True, False)
    assert "3 records of another writer" in done.error
    assert taking.told().restored == {}
    with pytest.raises(Refused, match="has failed"):
        taking.plan(id, renamed, resume=True)


def test_a_backup_restored_into_an_existing_topic_leaves_others_their_records(
    whole_broker: Cluster,
    back_up: BackUp,
    restore: Restore,
    filled: str,
    target: str,
    intrude: Callable[[int], None],
) -> None:
    back_up.topic(filled)
    make(whole_broker, target, partitions=2)
    intrude(FILLED)
    plan = restore.plan(filled, target, into_existing=True)
    done = restore(plan, tell=when_all_are_there(lambda: intrude(FILLED)))
    assert (done.error, done.verified) == ("", True)
    assert len(contents(whole_broker, target)) == RECORDS + 6
