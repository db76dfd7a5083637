"""Reads a broker's log directories: whether each is online, and how full its volume is (R21)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from breakglass.services.kafka.wire.broker_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    cluster_error,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import Unknown

NO_SIZES = Unknown("this broker does not tell the size of its volumes (before Kafka 3.3)")


@dataclass(frozen=True, slots=True)
class BrokerLogDir:
    """One log directory of one broker."""

    path: str
    why_offline: str = ""
    """The broker's error; empty while the directory is online."""
    total_bytes: int | Unknown = NO_SIZES
    """Size of the volume that the directory is on."""
    usable_bytes: int | Unknown = NO_SIZES

    @property
    def online(self) -> bool:
        return not self.why_offline


def read_broker_log_dirs(
    sender: Sender, broker: int, deadline: Deadline, lane: str = ""
) -> tuple[BrokerLogDir, ...]:
    """The log directories of *broker*, in the order of their paths (DescribeLogDirs, no topics).

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE on CLUSTER is missing.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    request = DescribeLogDirsRequest(topics=[])
    answer = sender.call(
        broker, request, DescribeLogDirsResponse, deadline, lane=lane, max_version=4
    )
    if answer.error_code or not answer.results:
        # Before version 3 a missing ACL is an empty answer; after, an error code.
        raise cluster_error(
            answer.error_code or CLUSTER_AUTHORIZATION_FAILED,
            f"reading the log directories of b{broker}",
            "DESCRIBE on CLUSTER",
        )
    return tuple(sorted(map(_log_dir, answer.results), key=lambda result: result.path))


def _log_dir(result: Any) -> BrokerLogDir:
    why = describe_error(result.error_code) if result.error_code else ""
    return BrokerLogDir(
        result.log_dir, why, _bytes(result.total_bytes), _bytes(result.usable_bytes)
    )


def _bytes(value: int | None) -> int | Unknown:
    return NO_SIZES if value is None or value < 0 else value
