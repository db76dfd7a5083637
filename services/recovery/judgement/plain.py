"""Judges at once the partitions to which nothing unusual happened: nearly all of a large incident.

Each replica of such a partition was read, is live, stale and whole, or is on a broker that is
fenced and silent. Most questions of `verdict` have only one answer then, and are not asked, so
that 200,000 partitions are judged in a third of the time. All other partitions are left to
`verdict`. What is concluded here equals what `verdict` concludes in full, reasons included:
`tests/unit/recovery/judgement/test_plain.py` compares them over random partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from breakglass.services.model import (
    CONTENTS_UNREAD,
    EpochHistory,
    Forfeited,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    Unknown,
)
from breakglass.services.quick_values import maker
from breakglass.services.recovery.judgement.assessment import (
    Action,
    Assessment,
    Verb,
    Verdict,
    action_of,
)
from breakglass.services.recovery.judgement.cut_by_return import (
    CutByReturn,
    cut_by_return,
    led_last,
    unread_log,
)
from breakglass.services.recovery.judgement.inputs import committed_text, fork_text
from breakglass.services.recovery.judgement.lineage import (
    NO_RECORDS,
    RecordCounts,
    common_epoch_end,
)
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss, bound_of_unread
from breakglass.services.recovery.judgement.succession import (
    Circumstances,
    forecast_with,
    inheritors,
)

Telling = Callable[[Assessment], tuple[str, ...]]
"""Puts the reasons of an assessment into words; what they need is worked out then."""


# Of 200,000 partitions a microsecond for each is a fifth of a second: what is made for each replica
# below is a plain tuple, values are made by functions with their fields by place, and the members
# of enumerations, which Python 3.11 looks up by a call, are looked up once.

_assessment, _loss_value, _replica_loss = maker(Assessment), maker(Loss), maker(ReplicaLoss)
_record_counts, _cut_by_return = maker(RecordCounts), maker(CutByReturn)
_STALE = Role.STALE
_WAIT, _FORK, _LOSS, _SAFE = Verdict.WAIT, Verdict.FORK, Verdict.LOSS, Verdict.SAFE
_START, _RECONNECT, _ELECT, _DECIDE = Verb.START, Verb.RECONNECT, Verb.ELECT, Verb.DECIDE


def assess_plainly(
    evidence: PartitionEvidence, circumstances: Circumstances, tell: Telling
) -> Assessment | None:
    """The judgement of an offline partition; None where something about it is unusual."""
    replicas = _replicas(evidence, circumstances)
    if replicas is None:
        return None
    read, silent, best, longest = replicas
    loss = _loss(read, best, evidence.settings.compacted is not False)
    if loss is None:
        return None
    silent_brokers = tuple([replica.broker for replica in silent]) if silent else ()
    unread = bound_of_unread(evidence, silent_brokers, longest)
    successors = inheritors(evidence.state)
    holders = [lost.broker for lost in loss.against if lost.committed_past_divergence is True]
    barriers = (committed_text(holders, loss.candidate),) if holders else ()
    winner, fork = loss.candidate, _fork(loss) if barriers else ""
    designee: int | None = winner
    unheard, cut = silent_brokers, None
    if successors:
        first = evidence.replica(successors[0])
        if first is None or not set(successors).issubset(silent_brokers):
            return None
        verdict, action = _WAIT, _cure(first)
        unheard = tuple([broker for broker in unheard if broker not in successors])
        cut = _cut(evidence, first.broker, read, loss)
    elif silent:
        verdict, action = _WAIT, _cure(silent[0])
        designee = None if fork else winner
    elif fork:
        verdict, action, designee = _FORK, action_of(_DECIDE), None
        barriers = (fork, *barriers)
    else:
        losing = loss.tail is not NO_RECORDS or unread.at_least
        verdict, action = _LOSS if losing else _SAFE, action_of(_ELECT, winner)
    return _assessment(
        evidence,
        verdict,
        action,
        designee,
        None if designee is None else loss,
        unread,
        forecast_with(evidence, circumstances, None),
        (),
        successors,
        cut,
        unheard,
        (),
        (len(read), len(evidence.replicas)),
        barriers,
        tell,
    )


_ReadLog = tuple[int, int, int, int, EpochHistory, ReplicaLog]
"""A replica all of whose figures are known: last written epoch, end, start, high watermark."""

_SortedOut = tuple[list[_ReadLog], list[ReplicaLog], _ReadLog, int]
"""Those that were read, one at least, and the silent ones; the first by rank, the longest end."""


def _replicas(evidence: PartitionEvidence, circumstances: Circumstances) -> _SortedOut | None:
    """The replicas, sorted out; None where anything is unusual."""
    state, replicas = evidence.state, evidence.replicas
    if (
        evidence.unregistered
        or state.reassignment is not None
        or _interfering(state, circumstances)
    ):
        return None
    assignment = state.assignment
    if len(assignment) != len(replicas):
        return None
    read: list[_ReadLog] = []
    silent: list[ReplicaLog] = []
    best, best_epoch, best_end, longest = None, -1, -1, 0
    for broker, replica in zip(assignment, replicas, strict=True):
        end = replica.log_end
        if (
            replica.broker != broker
            or replica.last_heard is not None
            or replica.log_dir_online is False
        ):
            return None
        if isinstance(end, Unknown):
            if replica.fenced is not True or isinstance(end, Forfeited):
                return None
            silent.append(replica)
            continue
        start, mark, history = replica.log_start, replica.high_watermark, replica.epochs
        if (
            replica.fenced is not False
            or replica.role is not _STALE
            or isinstance(start, Unknown)
            or isinstance(mark, Unknown)
            or isinstance(history, Unknown)
            or not history.ranges
            or not 0 <= start < end
            or (replica.contents is not CONTENTS_UNREAD and replica.corrupt_at is not None)
        ):
            return None
        epoch = history.ranges[-1].epoch
        log = (epoch, end, start, mark, history, replica)
        read.append(log)
        # By epoch, then by end (R8).
        if epoch > best_epoch or (epoch == best_epoch and end > best_end):
            best, best_epoch, best_end = log, epoch, end
        if end > longest:
            longest = end
    return (read, silent, best, longest) if best is not None else None


def _interfering(state: PartitionState, circumstances: Circumstances) -> bool:
    """Whether what holds for the whole cluster changes what is concluded."""
    if not circumstances.deadline_passed or circumstances.quorum_lost:
        return True
    gone, copied = circumstances.ruled_out, circumstances.copy_first
    if not gone and not copied:
        return False
    return not {*gone, *copied}.isdisjoint(state.assignment)


def _loss(read: list[_ReadLog], best: _ReadLog, approximate: bool) -> Loss | None:
    """The loss of electing *best*; None where it takes more than a subtraction."""
    _, best_end, best_start, _, best_history, chosen = best
    tail, against = NO_RECORDS, []
    for _, end, start, mark, history, replica in read:
        if replica is chosen:
            continue
        parting = common_epoch_end(history, best_history)
        if parting is None or start < best_start:
            return None
        first = parting if parting > start else start
        lost = end - first if end > first else 0
        if lost:
            if tail is not NO_RECORDS:
                return None
            committed = min(end, mark) - first if mark > first else 0
            tail = _record_counts(lost, committed, lost - committed)
        against.append(
            _replica_loss(
                replica.broker, parting, lost, 0, False, mark > parting, best_end > parting
            )
        )
    counted = approximate and tail is not NO_RECORDS
    return _loss_value(chosen.broker, tail, NO_RECORDS, tuple(against), counted)


def _fork(loss: Loss) -> str:
    for dropped in loss.against:
        if dropped.both_sides and dropped.committed_past_divergence is True:
            return fork_text(dropped, loss.candidate)
    return ""


def _cure(silent: ReplicaLog) -> Action:
    """What brings a fenced broker back."""
    return action_of(_RECONNECT if silent.reachable else _START, silent.broker)


def _cut(
    evidence: PartitionEvidence, broker: int, read: list[_ReadLog], loss: Loss
) -> CutByReturn | None:
    """What the return of silent *broker* cuts of what was read, or may cut."""
    led = led_last(evidence.state, broker)
    if led and any(log[0] >= evidence.state.leader_epoch - 1 for log in read):
        return cut_by_return(evidence, broker)
    if len(read) > 2:
        return cut_by_return(evidence, broker)
    holders = tuple([log[5].broker for log in read])
    at_least = _lacked_by_either(read, loss)
    compacted = evidence.settings.compacted is not False
    return _cut_by_return(broker, holders, unread_log(broker), at_least, compacted)


def _lacked_by_either(read: list[_ReadLog], loss: Loss) -> int:
    """Records that a log lacks at least, whichever of two logs it agrees with; 0 beside one."""
    for lost in loss.against:
        if lost.tail and isinstance(lost.tail, int) and isinstance(lost.divergence, int):
            start = max([lost.divergence, *[log[2] for log in read]])
            (best_end,) = [log[1] for log in read if log[5].broker == loss.candidate]
            return max(0, min(lost.tail, best_end - start))
    return 0
