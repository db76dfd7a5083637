"""How many bytes a source is kept in: what decides whether a count is worth more than one core."""

from __future__ import annotations

from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.log_source import LogSource
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Source
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.log_dirs import read_log_dirs
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.topic_backup.layout import records_name

ASK_SECONDS = 10.0


def bytes_of(source: Source) -> int | None:
    """The bytes of *source* at rest; None where they are not told, or it cannot be divided.

    What is divided is read by address from anywhere: a log of which only committed records are
    wanted has to be read whole to know them.
    """
    if isinstance(source, BackupSource):
        names = [records_name(one.prefix) for one in source.stretches]
        return sum(source.folder.size(one) or 0 for one in names)
    if isinstance(source, LogSource):
        return sum(one.path.stat().st_size for one in source.segments if one.path.exists())
    if isinstance(source, ReplicaSource):
        return _on_broker(source)
    return None


def _on_broker(source: ReplicaSource) -> int | None:
    deadline = Deadline.after(ASK_SECONDS)
    try:
        told = read_log_dirs(source.sender, source.broker, [source.partition], deadline)
    except BreakglassError:
        return None
    held = told.get(source.partition)
    return held.size if held is not None and isinstance(held.size, int) else None
