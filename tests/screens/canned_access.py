"""Brokers that tell their log directories and settings, without a socket between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from breakglass.services.errors import BreakglassError, ConnectFailed
from breakglass.services.model import TopicSettings
from breakglass.services.session import ReadAccess
from tests.unit.recovery.replicas import PLAIN

STORAGE_ERROR = 56
REFUSED = ConnectFailed("b3 refuses connections: start it", "connection refused")


@dataclass
class CannedAccess:
    """Every broker has one directory, unless a test says otherwise."""

    broken_dirs: dict[int, Sequence[str]] = field(default_factory=dict)
    """Further directories by broker, which it has taken offline."""
    silent: dict[int, BreakglassError] = field(default_factory=dict)
    settings: dict[str, str | None] = field(default_factory=dict)
    failure: BreakglassError | None = None
    """No client can be made."""
    asked: list[int] = field(default_factory=list)
    """Brokers whose directories were asked for."""
    closed: int = 0

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[CannedClient]:
        if self.failure is not None:
            raise self.failure
        yield CannedClient(self)

    @contextmanager
    def librdkafka(self) -> Iterator[dict[str, str]]:
        yield {}

    @property
    def as_access(self) -> ReadAccess:
        return cast("ReadAccess", self)


@dataclass(eq=False)
class CannedClient:
    """As far as the overview uses a `ReadClient` and its sender."""

    access: CannedAccess

    @property
    def sender(self) -> CannedClient:
        return self

    def describe(self, deadline: object) -> None:
        """Nothing has to be learned."""

    def settings(self, topics: Sequence[str], deadline: object) -> dict[str, TopicSettings]:
        return dict.fromkeys(topics, PLAIN)

    def call(self, broker: int, request: Any, *_: object, **__: object) -> Any:
        if broker in self.access.silent:
            raise self.access.silent[broker]
        if request.API_KEY == DescribeLogDirsRequest.API_KEY:
            self.access.asked.append(broker)
            return _log_dirs(self.access.broken_dirs.get(broker, ()))
        assert request.API_KEY == DescribeConfigsRequest.API_KEY
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        configs = [entry(name=key, value=value) for key, value in self.access.settings.items()]
        return DescribeConfigsResponse(results=[result(configs=configs)])

    def close(self) -> None:
        self.access.closed += 1


def _log_dirs(broken: Sequence[str]) -> Any:
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    whole = result(log_dir="/var/kafka", topics=[], total_bytes=500 << 30, usable_bytes=120 << 30)
    offline = [result(error_code=STORAGE_ERROR, log_dir=path, topics=[]) for path in broken]
    return DescribeLogDirsResponse(results=[whole, *offline])
