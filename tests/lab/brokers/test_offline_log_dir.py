"""What a broker tells of a log directory that it has taken offline (R21)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from breakglass.services.kafka.replicas.epoch_ends import read_epoch_ends
from breakglass.services.kafka.replicas.list_offsets import LATEST, OffsetError, list_offsets
from breakglass.services.kafka.replicas.log_dirs import offline_dirs, read_log_dirs
from breakglass.services.kafka.wire.broker_errors import KAFKA_STORAGE_ERROR
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.unreachable import QUICK_CHECKPOINTS
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, Unknown
from tests.lab.brokers.conftest import SECONDS, sender_to

FAILED, OTHER = TopicPartition("readings", 0), TopicPartition("readings", 1)


class HalfBroken(NamedTuple):
    """One broker of two directories, one of them offline."""

    sender: Sender
    failed: Path
    other: Path


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HalfBroken]:
    folder = tmp_path_factory.mktemp("lab")
    with Cluster.up(
        folder, brokers=1, log_dirs=2, overrides=QUICK_CHECKPOINTS, tethered=True
    ) as cluster:
        create_topic(cluster, "readings", [[1], [1]])
        produce(cluster, "readings", 0, 10)
        holder = cluster.broker(1).partition_folder("readings", 0)
        assert holder is not None
        other = next(dir_ for dir_ in cluster.broker(1).layout.log_dirs if dir_ != holder.parent)
        fail_log_dir(holder.parent)
        cluster.wait_partition("readings", 0, lambda state: state.offline, "no leader")
        with sender_to(cluster) as sender:
            yield HalfBroken(sender, holder.parent, other)


def test_describe_log_dirs_names_the_directory_but_none_of_its_partitions(
    broken: HalfBroken,
) -> None:
    deadline = Deadline.after(SECONDS)
    assert offline_dirs(broken.sender, 1, deadline) == (str(broken.failed),)
    found = read_log_dirs(broken.sender, 1, [FAILED, OTHER], deadline)
    assert {one: held.path for one, held in found.items()} == {OTHER: str(broken.other)}


def test_its_replicas_are_answered_with_a_storage_error(broken: HalfBroken) -> None:
    deadline = Deadline.after(SECONDS)
    end = list_offsets(broken.sender, 1, [FAILED], LATEST, deadline)[FAILED]
    assert isinstance(end, OffsetError)
    assert end.code == KAFKA_STORAGE_ERROR
    epochs = read_epoch_ends(broken.sender, 1, {FAILED: 0}, deadline)[FAILED]
    assert epochs == Unknown("log directory offline on b1")
