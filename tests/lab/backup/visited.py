"""A client of topics beside which somebody else acts."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.wire.deadline import Deadline


def nothing() -> None:
    """Nobody acts."""


class Visited(TopicClient):
    """Creates and sets up topics; somebody else acts as soon as that is done."""

    def __init__(
        self,
        own: TopicClient,
        created: Callable[[], object] = nothing,
        configured: Callable[[], None] = nothing,
    ) -> None:
        super().__init__(own._sender)
        self._created = created
        self._configured = configured

    def create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, str],
        deadline: Deadline,
        *,
        replication_factor: int = -1,
        validate_only: bool = False,
    ) -> None:
        how: dict[str, Any] = {
            "replication_factor": replication_factor,
            "validate_only": validate_only,
        }
        super().create(topic, partitions, settings, deadline, **how)
        self._created()

    def configure(
        self, topic: str, settings: Mapping[str, str], defaults: Collection[str], deadline: Deadline
    ) -> None:
        super().configure(topic, settings, defaults, deadline)
        self._configured()
