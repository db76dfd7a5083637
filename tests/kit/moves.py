"""Moving a replica from one log directory of its broker to another, and keeping it from ending."""

from collections.abc import Mapping
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.kafka.wire.messages.reading import (
    DescribeConfigsResponse,
    settings_request,
)
from breakglass.services.lab.cluster import WAIT_SECONDS, Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition
from tests.kit.configs import ConfigResource, set_config
from tests.kit.waiting import DEADLINE_SECONDS

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LONG_WINDOW: Mapping[str, str] = {"alter.log.dirs.replication.quota.window.size.seconds": "30"}
"""Settings of a lab whose moves do not end: a fetch of more than 300 bytes, at one byte a second,
uses the quota of 11 windows up. Each start of the broker begins with a new quota."""


def begin_endless_move(
    cluster: Cluster, broker: int, partition: TopicPartition
) -> tuple[Path, Path]:
    """Let *broker* copy its replica into another of its directories, and never finish.

    Back when the copy is there, with the directories of the log and of the copy. The lab has to
    have the settings `LONG_WINDOW`.

    Raises:
        LabError: the broker refused, or holds no such replica.
    """
    node = cluster.broker(broker)
    folder = node.partition_folder(partition.topic, partition.partition)
    if folder is None:
        raise LabError(f"Broker {broker} has no log of {partition}: name one that it has.")
    other = next(path for path in node.layout.log_dirs if path != folder.parent)
    set_config(cluster, ConfigResource.BROKER, str(broker), RATE, "1")
    # Its controller knows: the broker hears of it later, and would have moved all by then.
    cluster.wait_until(lambda: _rate(cluster, broker) == "1", f"b{broker} to throttle moves")
    _move(cluster, broker, partition, other)
    pattern = f"{partition}.*-future"
    cluster.wait_until(
        lambda: any(other.glob(pattern)),
        f"the copy of {partition} to be begun",
        timeout=WAIT_SECONDS,
    )
    return folder.parent, other


def _rate(cluster: Cluster, broker: int) -> str | None:
    """Bytes a second that *broker* itself says it moves between its directories."""
    request = settings_request(ConfigResource.BROKER, [str(broker)], [RATE])
    answer = cluster.read(lambda node: node.ask(request, DescribeConfigsResponse), via=broker)
    return next((one.value for one in answer.results[0].configs), None)


def _move(cluster: Cluster, broker: int, partition: TopicPartition, path: Path) -> None:
    from kafka.protocol.admin import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = directory.AlterReplicaLogDirTopic(
        name=partition.topic, partitions=[partition.partition]
    )
    request = AlterReplicaLogDirsRequest(dirs=[directory(path=str(path), topics=[topic])])
    address = cluster.broker(broker).address(Listener.LAB)
    with Conversation(address, DEADLINE_SECONDS) as conversation:
        answer = conversation.ask(request, AlterReplicaLogDirsResponse)
    for one in answer.results:
        for result in one.partitions:
            if result.error_code:
                raise LabError(f"The lab could not move {partition}: error {result.error_code}")
