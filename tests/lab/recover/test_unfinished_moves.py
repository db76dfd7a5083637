"""R21: the copy of a move between directories that has not finished, on real brokers.

b3 led `moving` last and is dead. b1 was moving its replica to its other disk when the disk with
the log itself failed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    bring_back,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Shape, Stage
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import LogDir, ReplicaLog, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.ranking import ReplicaStanding, eligibility
from tests.kit.moves import LONG_WINDOW, begin_endless_move
from tests.kit.program import breakglass
from tests.lab.recover.session import judged, judgement, reading
from tests.lab.scenarios.damaged import Damaged, lab_after

MOVING = TopicPartition("moving", 0)
LOG, COPY = "log directory", "copy's directory"


def _script(stage: Stage) -> Script:
    (moving,) = stage.create(MOVING.topic, [(3, 1, 2)])
    stage.write([moving], 100)
    yield B2_LOST
    log, copy = begin_endless_move(stage.cluster, 1, moving)
    stage.notes[LOG], stage.notes[COPY] = str(log), str(copy)
    stage.write([moving], 50)
    yield B1_LOST
    stage.write([moving], 25)
    yield LAST_LOST
    return list[Expectation]()


BROKEN = Scenario(
    "unfinished-move",
    __doc__,
    _script,
    course=COURSE,
    shape=Shape(log_dirs=2, overrides={**QUICK_TO_FENCE.overrides, **LONG_WINDOW}),
)


lab = lab_after(beside=[BROKEN])


@pytest.fixture
def client(lab: Damaged) -> Iterator[ReadClient]:
    with reading(lab.cluster) as client:
        yield client


def said_of_b1(client: ReadClient) -> tuple[Assessment, ReplicaLog]:
    said = judgement(judged(client, MOVING.topic), MOVING)
    replica = said.evidence.replica(1)
    assert replica is not None
    return said, replica


def test_r21_a_copy_that_holds_no_more_than_the_log_is_known_and_not_remarked(
    lab: Damaged, client: ReadClient
) -> None:
    said, replica = said_of_b1(client)
    held = replica.log_dir
    assert isinstance(held, LogDir)
    assert (held.path, held.online, replica.log_end) == (lab.truth.notes[LOG], True, 150)
    assert held.copy is not None
    assert (held.copy.path, held.copy.future) == (lab.truth.notes[COPY], True)
    assert isinstance(held.copy.behind, int)
    assert 0 <= held.copy.behind <= 150
    assert replica.only_copy is None
    assert not any("unfinished move" in reason for reason in said.reasons)


@pytest.mark.parametrize("restarted", [False, True])
def test_r21_a_copy_that_is_all_that_is_left_is_shown_and_never_taken_for_the_log(
    lab: Damaged, client: ReadClient, restarted: bool
) -> None:
    log_dir = Path(lab.truth.notes[LOG])
    if restarted:
        lab.cluster.broker(1).kill()
        lab.cluster.wait_fenced(1)
        bring_back(lab.cluster, 1)
    else:
        fail_log_dir(log_dir)
        lab.cluster.wait_until(
            lambda: 1 in lab.state(MOVING).offline_replicas, "the log directory to go offline"
        )
    said, replica = said_of_b1(client)
    copy = replica.only_copy
    assert copy is not None
    assert copy.path == lab.truth.notes[COPY]
    assert isinstance(copy.size, int)
    assert copy.size > 0
    assert (replica.log_dir_online, isinstance(replica.log_dir, Unknown)) == (False, True)
    assert isinstance(replica.log_end, Unknown)
    standing = eligibility(said.evidence, 1)
    assert standing.standing is ReplicaStanding.BARRED
    assert standing.reason == "the log directory of b1 is offline"
    assert (
        "b1: all that is left of its log on an online directory is the copy of an unfinished move, "
        f"{copy.size:,} bytes in {copy.path}, which is not elected and cannot be read; copy that "
        "folder before its broker is restarted or its disk replaced: it is cut then"
    ) in said.reasons
    ended = breakglass("triage", "--json", "--bootstrap-server", lab.cluster.bootstrap_servers)
    (told,) = [
        one["copy"]
        for partition in ended.document["partitions"]
        for one in partition["replicas"]
        if one["broker"] == 1 and partition["topic"] == MOVING.topic
    ]
    assert (told["path"], told["only"]) == (copy.path, True)


def test_r21_a_broker_cuts_the_copy_to_nothing_once_the_log_is_back_empty(tmp_path: Path) -> None:
    """Why the copy has to be saved before its broker is restarted on a replaced disk."""
    with Cluster.up(
        tmp_path / "lab", brokers=1, log_dirs=2, overrides=LONG_WINDOW, tethered=True
    ) as cluster:
        create_topic(cluster, MOVING.topic, [[1]])
        produce(cluster, MOVING.topic, 0, 100)
        log, copy = begin_endless_move(cluster, 1, MOVING)
        node = cluster.broker(1)
        cluster.wait_until(lambda: held_in(copy) > 0, "records to be in the copy")
        node.kill()
        (log / str(MOVING)).rename(tmp_path / "the log")
        node.start()
        cluster.wait_until(
            lambda: held_in(copy) == 0 and held_in(log) == 0, "both directories to be empty"
        )


def held_in(log_dir: Path) -> int:
    """Bytes of records of `moving` in that directory, in whatever folder."""
    segments = log_dir.glob(f"{MOVING}*/*.log")
    return sum(
        segment.stat().st_size for segment in segments if "-delete" not in segment.parent.name
    )
