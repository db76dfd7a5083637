"""The size of a source in bytes, which decides whether a count uses more than one core."""

from __future__ import annotations

from breakglass.services import patience
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.log_source import LogSource
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Source
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.log_dirs import read_log_dirs
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.topic_backup.layout import records_name


def bytes_of(source: Source) -> int | None:
    """The stored bytes of *source*; None if they are unknown or *source* cannot be divided.

    Only a source that can be read from any address is divided. A log must be read whole to find
    its committed records.
    """
    if isinstance(source, BackupSource):
        names = [records_name(stretch.prefix) for stretch in source.stretches]
        return sum(source.folder.size(name) or 0 for name in names)
    if isinstance(source, LogSource):
        return sum(
            segment.path.stat().st_size for segment in source.segments if segment.path.exists()
        )
    if isinstance(source, ReplicaSource):
        deadline = Deadline.after(patience.REQUEST)
        try:
            told = read_log_dirs(source.sender, source.broker, [source.partition], deadline)
        except BreakglassError:
            return None
        held = told.get(source.partition)
        if held is None or held.future or not isinstance(held.size, int):
            return None
        return held.size
    return None
