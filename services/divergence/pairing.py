"""Which two sources can be compared, and by what: offsets, positions, or the map of a restore."""

from __future__ import annotations

from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.committed_view import CommittedView
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.opening import Opener
from breakglass.services.divergence.position_view import by_position
from breakglass.services.divergence.restored_view import RestoredView
from breakglass.services.divergence.source import Reading, Source
from breakglass.services.errors import UsageError


def refusal(left: SourceAddress, right: SourceAddress) -> str:
    """Why the two cannot be compared; empty where they can."""
    one, other = left.topic_partition, right.topic_partition
    if SourceKind.METASTORE in (left.kind, right.kind):
        others = [each for each in (left, right) if each.kind is not SourceKind.METASTORE]
        if all(each.partition == 0 for each in others):
            return ""
        return f"{left} and {right} have no positions in common: a command topic is a partition 0"
    if one == other:
        return ""
    return (
        f"{left} and {right} have no offsets in common, for they are of {one} and {other}; a topic "
        "restored under another name is compared with its backup by `breakglass diff --state`, all "
        "of it by `breakglass backup verify --against`"
    )


def compare(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """The two side by side; nothing is read of them yet.

    Where one holds committed records alone, so does what is compared of the other.

    Raises:
        UsageError: they cannot be compared, or one is not there.
        BreakglassError: as `Opener.open`.
    """
    if opener.state is not None:
        return compare_restored(opener, left, right)
    why = refusal(left, right)
    if why:
        raise UsageError(f"{why}.")
    one, other = opener.open(left), opener.open(right)
    if SourceKind.METASTORE in (left.kind, right.kind):
        return Comparison(_by_position(left, one), _by_position(right, other))
    if left.kind.committed != right.kind.committed:
        one = one if left.kind.committed else CommittedView(one)
        other = other if right.kind.committed else CommittedView(other)
    elif SourceKind.RESCUE in (left.kind, right.kind) and left.kind is not right.kind:
        # A rescue has noted that there was a marker, and not what its record held.
        one, other = CommittedView(one, uncommitted=True), CommittedView(other, uncommitted=True)
    proven = opener.proven_same(one, other) if opener.by_epochs else None
    return Comparison(one, other, proven)


def compare_restored(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """A backup and what was restored from it, by the offsets of the backup.

    Raises:
        UsageError: they are no backup and no topic, or that restore is not known here.
        BreakglassError: as `Opener.open`.
    """
    kinds = {left.kind, right.kind}
    if SourceKind.BACKUP not in kinds or not kinds & {
        SourceKind.TOPIC,
        SourceKind.REPLICA,
        SourceKind.LOG,
    }:
        raise UsageError("--state is for a backup and the topic, replica or log restored from it.")
    one, other = opener.open(left), opener.open(right)
    if left.kind is SourceKind.BACKUP:
        return Comparison(one, _restored(opener, right, other, one))
    return Comparison(_restored(opener, left, one, other), other)


def _restored(opener: Opener, address: SourceAddress, topic: Source, backup: Source) -> Source:
    from breakglass.services.pipeline.restore.offset_log import read_log

    assert opener.state is not None
    noted = opener.state / address.folder / f"partition-{address.partition}.jsonl"
    stretches = read_log(noted).runs
    if not stretches:
        raise UsageError(f"{noted} tells of no restored records: name the --state of that restore.")
    view = topic if address.kind.committed else CommittedView(topic)
    return RestoredView(view, backup, stretches)


def _by_position(address: SourceAddress, source: Source) -> Source:
    if address.kind is SourceKind.METASTORE:
        return source
    committed = source if address.kind.committed else CommittedView(source)
    return by_position(committed, Reading())
