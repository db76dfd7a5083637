"""Which ACLs a user lacks, found out from what it was not told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from breakglass.services.model import ClusterSnapshot, Denied
from breakglass.services.recovery.evidence.assemble import BrokerAnswer


def missing_acls(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> frozenset[str]:
    """``READ on topic orders`` and so on: each would show something that is not known."""
    return frozenset(
        value.needs for value in _values(snapshot, answers) if isinstance(value, Denied)
    )


def _values(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> Iterator[object]:
    """Everything that an ACL may keep from being read."""
    yield snapshot.quorum
    for settings in snapshot.settings.values():
        yield settings.min_insync_replicas
    for state in snapshot.offline:
        yield state.reassignment
    for answer in answers:
        yield answer.log_dirs
        for reading in answer.readings.values():
            yield reading.epochs
