"""Where two replicas of a partition stop being the same log.

Everything here rests on one property, log matching: a leader epoch has one leader, a leader
gives each offset to one record only, and a follower appends a leader's records only where its
log agrees with the leader's up to there. So two replicas that hold the same epoch at the same
offset hold the same records at every lower offset that both still have. The offsets on which
two replicas agree are therefore a prefix of what they share, and it ends where the highest
epoch that both of them wrote ends first: no record has to be compared.

Sources: KIP-101 (truncation by epoch), KIP-279 (more than one step), KIP-595 (DivergingEpoch in
Fetch); LeaderEpochFileCache.endOffsetFor, Partition.fetchRecords and
AbstractFetcherThread.getOffsetTruncationState, fetchOffsetAndTruncate of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.model import EpochHistory, ReplicaLog, Unknown


def divergence(log: ReplicaLog, other: ReplicaLog) -> int | Unknown:
    """The first offset at which *log* and *other* stop being the same log.

    A log that is a prefix of the other diverges at its own end. Where the divergence is below
    one log's start, it is known only if they share an epoch; otherwise it is given as the first
    offset that both hold, below which nothing of both is left. A log without records diverges
    at its end, as brokers have it. Symmetric.

    Unknown when an end or a history could not be read, when the histories do not reach back
    to a common epoch, or when the logs share neither offsets nor an order of epochs.
    """
    if isinstance(log.epochs, Unknown):
        return log.epochs
    if isinstance(other.epochs, Unknown):
        return other.epochs
    common = common_epoch_end(log.epochs, other.epochs)
    if common is not None:
        return common
    return _without_common_epoch(log, log.epochs, other, other.epochs)


def common_epoch_end(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """Where the highest epoch that both wrote ends first; None without a known common one."""
    i, j = len(ours.ranges) - 1, len(theirs.ranges) - 1
    while i >= 0 and j >= 0:
        left, right = ours.ranges[i], theirs.ranges[j]
        if left.epoch == right.epoch:
            return left.end if left.end < right.end else right.end
        if left.epoch > right.epoch:
            i -= 1
        else:
            j -= 1
    return None


def _without_common_epoch(
    log: ReplicaLog, ours: EpochHistory, other: ReplicaLog, theirs: EpochHistory
) -> int | Unknown:
    if isinstance(log.log_end, Unknown):
        return log.log_end
    if isinstance(other.log_end, Unknown):
        return other.log_end
    gap = history_gap(log, ours) or history_gap(other, theirs)
    if gap:
        return gap
    if not ours.ranges or not theirs.ranges:
        return min(log.log_end, other.log_end)
    first, second = sorted((ours.ranges, theirs.ranges), key=lambda ranges: ranges[-1].end)
    starts = [each.log_start for each in (log, other) if isinstance(each.log_start, int)]
    shared_start = max(first[0].start, second[0].start, *starts)
    if shared_start < first[-1].end:
        return shared_start
    if first[-1].epoch < second[0].epoch:
        return first[-1].end
    return Unknown(f"b{log.broker} and b{other.broker} have no offset in common")


def history_gap(log: ReplicaLog, history: EpochHistory) -> Unknown | None:
    """Why *history*, of *log*, does not reach back to its start; None when it does."""
    if isinstance(log.log_start, Unknown):
        return log.log_start
    if not history.ranges:
        return None if log.empty else Unknown(f"the records of b{log.broker} carry no leader epoch")
    if max(history.complete_from, history.ranges[0].start) > log.log_start:
        return Unknown(
            f"the epochs of b{log.broker} before offset {history.complete_from} were not read"
        )
    return None


class Divergences:
    """Where each two replicas of one partition diverge, worked out when asked and kept.

    A pair whose histories do not reach a common epoch may be settled by a third replica: if
    it parts from one of them earlier than from the other, they part there as well. Only a third
    that shares an epoch with each of them can help: without one, its divergence is where its own
    log begins or ends, and the two may have parted before.
    """

    def __init__(self, replicas: Iterable[ReplicaLog]) -> None:
        self._replicas = tuple(replicas)
        self._found: dict[tuple[int, int], int | Unknown] = {}

    def between(self, log: ReplicaLog, other: ReplicaLog) -> int | Unknown:
        """`divergence` of *log* and *other*, with the help of the other replicas."""
        left, right = log.broker, other.broker
        pair = (left, right) if left < right else (right, left)
        found = self._found.get(pair)
        if found is None:
            found = divergence(log, other)
            if isinstance(found, Unknown):
                found = self._through_a_third(log, other, found)
            self._found[pair] = found
        return found

    def _through_a_third(
        self, log: ReplicaLog, other: ReplicaLog, unsettled: Unknown
    ) -> int | Unknown:
        for third in self._replicas:
            if third.broker not in (log.broker, other.broker):
                left, right = _exact(log, third), _exact(third, other)
                if left is not None and right is not None and left != right:
                    return min(left, right)
        return unsettled


def _exact(log: ReplicaLog, other: ReplicaLog) -> int | None:
    """Their divergence where a common epoch shows it, whatever either log has deleted."""
    if isinstance(log.epochs, Unknown) or isinstance(other.epochs, Unknown):
        return None
    return common_epoch_end(log.epochs, other.epochs)
