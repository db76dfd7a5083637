"""A replica's log with damage in it, which its broker finds by its index and sends as it is."""

from collections.abc import Sequence

from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import read_headers
from tests.unit.kafka.replicas.held_log import HeldLog


class DamagedLog(HeldLog):
    """A log whose batches can be replaced by any bytes; where they lie stays known."""

    def __init__(self, partition: TopicPartition, batches: Sequence[bytes]) -> None:
        self._lasts = [read_headers(batch, "whole").headers[0].last_offset for batch in batches]
        super().__init__(partition, batches, end=self._lasts[-1] + 1)

    def replace(self, place: int, content: bytes) -> None:
        """Let the batch in that place be *content*."""
        self.batches[place] = content

    def _slice(self, offset: int, size: int) -> bytes:
        held = [one for one, last in zip(self.batches, self._lasts, strict=True) if last >= offset]
        return b"".join(held)[: max(size, len(held[0]))] if held else b""
