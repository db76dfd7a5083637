"""Whether Kafka's topics exist, asked when a statement is validated and never on replay."""

from __future__ import annotations

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown

ASK_SECONDS = 5.0


class TopicsNow:
    """Asks the cluster, each time anew."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client
        self._known = False

    def __call__(self, topic: str) -> bool | Unknown:
        """Whether *topic* exists; Unknown with the reason where nobody tells."""
        deadline = Deadline.after(ASK_SECONDS)
        try:
            if not self._known:
                self._client.describe(deadline)
                self._known = True
            return bool(read_partitions(self._client.sender, deadline, [topic]))
        except BreakglassError as error:
            return Unknown(str(error))
