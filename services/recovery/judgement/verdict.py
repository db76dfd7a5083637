"""Judging an offline partition: one word, one action, and the reasons (R1..R21).

`assess` is a pure function of the evidence. The verdict is the first of these that holds:
no quorum, an EMPTY or damaged successor about to be elected, a successor worth waiting for,
something that makes every election fail, a replica that nobody has heard, a fork, and only then
the election itself.

Nearly all partitions of a large incident are plain: each replica was read, is live, stale and
whole, or is on a broker that is fenced and silent. Most of these questions have only one answer
then, and `assess_plainly` does not ask them, so that 200,000 partitions are judged in a third of
the time. It concludes what `assess_in_full` concludes, reasons included: tests compare both over
random partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from breakglass.services.model import (
    CONTENTS_UNREAD,
    EpochHistory,
    Forfeited,
    PartitionEvidence,
    PartitionState,
    Reassignment,
    ReplicaLog,
    Role,
    Unknown,
)
from breakglass.services.quick_values import maker, uncollected
from breakglass.services.recovery.judgement.assessment import (
    Action,
    Assessment,
    Verb,
    Verdict,
    action_of,
)
from breakglass.services.recovery.judgement.inputs import (
    Case,
    absent_of,
    barriers,
    case_of,
    committed_text,
    fork_text,
    hazard_text,
    named,
    remarks,
)
from breakglass.services.recovery.judgement.lineage import (
    NO_RECORDS,
    RecordCounts,
    common_epoch_end,
)
from breakglass.services.recovery.judgement.loss import (
    CutByReturn,
    Loss,
    ReplicaLoss,
    bound_of_unread,
    cut_by_return,
    led_last,
    unread_log,
)
from breakglass.services.recovery.judgement.ranking import answered, corruption, how_far_read, live
from breakglass.services.recovery.judgement.succession import (
    IF_AS_IT_WAS,
    ROLE_WORDS,
    UNASKED,
    Circumstances,
    elected_by_order,
    forecast_with,
    hazards,
    inheritors,
    shortfall,
    unregistered_text,
    without_quorum,
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
        cut = _plain_cut(evidence, first.broker, read, loss)
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


def _cure(silent: ReplicaLog) -> Action:
    """What brings a fenced broker back."""
    return action_of(_RECONNECT if silent.reachable else _START, silent.broker)


def _plain_cut(
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


def assess(evidence: PartitionEvidence, circumstances: Circumstances = UNASKED) -> Assessment:
    """Judge one offline partition.

    Raises ValueError for a partition that has a leader: there is nothing to judge.
    """
    return _assess(evidence, circumstances, partial(_reasons_again, circumstances))


def _assess(evidence: PartitionEvidence, circumstances: Circumstances, tell: Telling) -> Assessment:
    if evidence.state.leader is not None:
        raise ValueError(f"{evidence.partition} has a leader")
    plain = assess_plainly(evidence, circumstances, tell)
    return plain or assess_in_full(evidence, circumstances)


def assess_in_full(evidence: PartitionEvidence, circumstances: Circumstances) -> Assessment:
    """Judge one offline partition by asking everything, however plain it is."""
    case = case_of(evidence, circumstances)
    finding = _find(case)
    against = tuple(barriers(case)) if case.winner is not None else ()
    if finding.verdict in (Verdict.STUCK, Verdict.BOMB, Verdict.FORK):
        against = (finding.reason, *against)
    # What the restorer that the action names cuts from other logs when it leads.
    broker = finding.action.broker
    cut = cut_by_return(evidence, broker) if broker in finding.restorers else None
    gone = circumstances.ruled_out
    return Assessment(
        evidence,
        finding.verdict,
        finding.action,
        finding.designee,
        None if finding.designee is None else case.loss,
        case.unread,
        case.forecast,
        hazards(evidence, finding.designee),
        finding.restorers,
        cut,
        finding.unheard,
        tuple([broker for broker in evidence.state.assignment if broker in gone]) if gone else (),
        (sum([answered(replica) for replica in evidence.replicas]), len(evidence.replicas)),
        against,
        partial(_reasons, case, finding),
    )


class _Finding(NamedTuple):
    verdict: Verdict
    action: Action
    reason: str
    designee: int | None = None
    """The best replica, where electing it is of use."""
    restorers: tuple[int, ...] = ()
    unheard: tuple[int, ...] = ()


def _reasons(case: Case, finding: _Finding, assessment: Assessment) -> tuple[str, ...]:
    """Sentences for the operator, each once; a bomb's own says all about its broker."""
    cut = assessment.cut_by_return
    first = (finding.reason,) if cut is None else (finding.reason, cut.sentence)
    reasons = dict.fromkeys((*first, *assessment.barriers, *remarks(case)))
    bomb = finding.action.broker if finding.verdict is Verdict.BOMB else None
    if bomb is not None:
        candidate = case.ranking.candidate(bomb)
        reasons.pop(hazard_text(bomb), None)
        reasons.pop(f"b{bomb} is {candidate.remark if candidate else ''}", None)
    return tuple(reasons)


def _reasons_again(circumstances: Circumstances, assessment: Assessment) -> tuple[str, ...]:
    """The reasons of an assessment that kept no case."""
    case = case_of(assessment.evidence, circumstances)
    return _reasons(case, _find(case), assessment)


def assess_all(
    evidence: Sequence[PartitionEvidence], circumstances: Circumstances = UNASKED
) -> list[Assessment]:
    """Judge many offline partitions, as `assess` judges each."""
    tell = partial(_reasons_again, circumstances)
    with uncollected(len(evidence)):
        return [_assess(partition, circumstances, tell) for partition in evidence]


def _find(case: Case) -> _Finding:
    return (
        _without_quorum(case)
        or _bomb(case)
        or _succession(case)
        or _waiting(case)
        or _stuck(case)
        or _election(case)
    )


def _without_quorum(case: Case) -> _Finding | None:
    """R20."""
    lost = case.circumstances.quorum_lost
    if not lost:
        return None
    reason = without_quorum(lost)
    danger = _danger(case)
    if danger:
        reason += f"; before that stop b{danger[0].broker}: {danger[1]}"
    return _Finding(Verdict.STUCK, action_of(Verb.NO_QUORUM), reason)


def _bomb(case: Case) -> _Finding | None:
    """R2: a running successor that lacks what others hold."""
    danger = _danger(case)
    if danger is None:
        return None
    replica, lack = danger
    when, then = "may elect it at any moment", ", wait until it is fenced, read again"
    if replica.fenced is True:
        when, then = "elects it as soon as it is unfenced", ", read again"
    reason = f"{lack}: the controller {when}, so stop b{replica.broker} NOW{then}"
    best = None if replica.broker == case.winner else case.winner
    return _Finding(Verdict.BOMB, action_of(Verb.STOP, replica.broker), reason, best)


def _danger(case: Case) -> tuple[ReplicaLog, str] | None:
    """The successor that would do harm, live or about to be unfenced, and what it lacks."""
    evidence, successor = case.evidence, case.heir
    if successor is not None and isinstance(successor.log_end, int):
        lack = shortfall(evidence, successor)
        return (successor, lack) if lack else None
    for replica in _inheriting(case):
        if replica.reachable and isinstance(replica.log_end, int):
            lack = shortfall(evidence, replica)
            if lack:
                return replica, lack
    return None


def _inheriting(case: Case) -> Iterator[ReplicaLog]:
    for broker in case.inheritors:
        replica = case.evidence.replica(broker)
        if replica is not None and replica.log_dir_online is not False:
            yield replica


def _succession(case: Case) -> _Finding | None:
    """R1: a live successor that is sound. There is nothing to choose, only to wait for it."""
    successor = case.heir
    if successor is None or isinstance(successor.log_end, Unknown):
        return None
    broker = successor.broker
    reason = (
        f"b{broker} is live and {ROLE_WORDS[successor.role]}: the controller elects it by itself"
    )
    if successor.corrupt_at is not None:
        reason += f", and {corruption(successor)}"
    best = broker if broker == case.winner else None
    return _Finding(Verdict.WAIT, action_of(Verb.AWAIT, broker), reason, best, (broker,))


def _waiting(case: Case) -> _Finding | None:
    """A successor that is down and would bring everything back."""
    absent = absent_of(case.evidence, case.inheritors, case.circumstances.ruled_out)
    if not absent:
        return None
    chosen = absent[0]
    verb, cure = _cure_of(case, chosen)
    whole = "would bring it back whole"
    if isinstance(chosen.log_end, Unknown):
        whole += f" {IF_AS_IT_WAS}"
    reason = f"b{chosen.broker} is {ROLE_WORDS[chosen.role]} and {whole}: {cure}"
    restorers = tuple([replica.broker for replica in absent])
    best = None if _stuck(case) else case.winner
    others = tuple([replica.broker for replica in case.unheard if replica.broker not in restorers])
    return _Finding(Verdict.WAIT, action_of(verb, chosen.broker), reason, best, restorers, others)


def _cure_of(case: Case, replica: ReplicaLog) -> tuple[Verb, str]:
    """What brings *replica* back, and what has to be done before that (R27)."""
    passed = case.circumstances.copy_first.get(replica.broker)
    if passed is None:
        if replica.fenced is False:
            return Verb.START, "it is not fenced but does not report its log, so restart or stop it"
        if replica.reachable:
            return Verb.RECONNECT, "it runs but is fenced, so restore its way to the controllers"
        return Verb.START, "start it, or declare it gone if its disk was lost or replaced"
    return Verb.SAVE if passed.proved else Verb.CHECK, passed.advice


def _stuck(case: Case) -> _Finding | None:
    """R12: what makes the reorder before an election fail, or do harm."""
    evidence = case.evidence
    if evidence.unregistered and elected_by_order(evidence) != case.winner:
        reason = unregistered_text(evidence)
        return _Finding(Verdict.STUCK, action_of(Verb.UNREGISTERED), reason)
    if isinstance(evidence.state.reassignment, Reassignment):
        reason = "a reassignment is under way, which a reorder would alter: finish or cancel it"
        return _Finding(Verdict.STUCK, action_of(Verb.REASSIGNMENT), reason)
    return None


def _election(case: Case) -> _Finding:
    loss = case.loss
    if loss is None:
        return _nobody(case)
    winner = loss.candidate
    forked = _fork(loss)
    if case.unheard:
        return _unheard(case, None if forked else winner)
    if forked:
        return _Finding(Verdict.FORK, action_of(Verb.DECIDE), forked)
    lost = _lost(case, loss)
    if lost:
        return _Finding(Verdict.LOSS, action_of(Verb.ELECT, winner), lost, winner)
    reason = f"b{winner} holds everything that can be read"
    chosen = case.evidence.replica(winner)
    if chosen is not None:
        reason += f"; {how_far_read(chosen)}"
    return _Finding(Verdict.SAFE, action_of(Verb.ELECT, winner), reason, winner)


def _unheard(case: Case, designee: int | None) -> _Finding:
    """A replica outside ISR and ELR that may hold more: what it holds decides who should lead."""
    chosen, *others = case.unheard
    name = f"b{chosen.broker}"
    verb, state, cure = _way_to_hear(case, chosen)
    also = f", and so may {named([replica.broker for replica in others])}" if others else ""
    reason = f"{name} {state} and may hold more than b{case.winner}{also}: {cure}"
    unheard = tuple([replica.broker for replica in case.unheard])
    action = action_of(verb, chosen.broker)
    return _Finding(Verdict.WAIT, action, reason, designee, unheard=unheard)


def _way_to_hear(case: Case, replica: ReplicaLog) -> tuple[Verb, str, str]:
    """What makes *replica* report its log: the act, how it is now, and the act in words."""
    if not case.circumstances.deadline_passed and live(replica):
        return Verb.AWAIT, "has not answered yet", "wait until the recovery duration has passed"
    verb, cure = _cure_of(case, replica)
    if verb in (Verb.SAVE, Verb.CHECK):
        return verb, "is unread", cure
    if verb is Verb.RECONNECT or replica.fenced is False:
        return verb, "is unread", f"{cure} (or declare it gone)"
    return verb, "is down", "start it, read again, then elect (or declare it gone)"


_NONE_LEFT = (
    "each is declared gone or kept down, so withdraw the --gone of a broker whose disk can still "
    "be read, or restore the partition from a backup"
)


def _nobody(case: Case) -> _Finding:
    """R15, R16: no replica answers, or none that does can be elected."""
    replicas = case.evidence.replicas
    if not any(isinstance(replica.log_end, int) for replica in replicas):
        copied = case.circumstances.copy_first
        assignment = case.evidence.state.assignment
        gone = case.circumstances.ruled_out
        able = [broker for broker in assignment if broker not in gone]
        start = [broker for broker in able if broker not in copied]
        acts = [f"start {'one of ' * (len(start) > 1)}{named(start)}"] if start else []
        acts += [copied[broker].advice for broker in able if broker in copied]
        reason = f"no replica answers: {', and '.join(acts or [_NONE_LEFT])}"
        return _Finding(Verdict.STUCK, action_of(Verb.NO_ANSWER), reason)
    why = "; ".join([candidate.eligibility.reason for candidate in case.ranking.candidates])
    return _Finding(Verdict.STUCK, action_of(Verb.INELIGIBLE), f"no electable replica: {why}")


def _fork(loss: Loss) -> str:
    """R9: committed records past the divergence, and records of the winner's there too."""
    for other in loss.against:
        if other.committed_past_divergence is True and other.both_sides:
            return fork_text(other, loss.candidate)
    return ""


def _lost(case: Case, loss: Loss) -> str:
    total = loss.total
    if isinstance(total, Unknown):
        return f"the loss is unknown: {total.reason}"
    if total:
        about = "about " if loss.approximate else ""
        return f"electing b{loss.candidate} loses {about}{_records(total)}"
    unread = case.unread
    if isinstance(unread.at_least, int) and unread.at_least:
        are = "is" if unread.at_least == 1 else "are"
        least = _records(unread.at_least)
        return f"at least {least} {are} in no readable replica ({unread.source})"
    if case.empty_over_unread:
        return f"b{loss.candidate} is EMPTY, and {named(case.abandoned)} could not be read"
    # A replica that a start does not bring, and that nobody gave up: it may have more.
    for replica in case.out_of_reach:
        more = f"b{replica.broker} may hold more than b{case.winner}"
        if replica.log_dir_online is False:
            return f"{more}: repair its log directory (or declare it gone)"
        return f"{more}, and is better left down: declare it gone once its log is copied"
    return ""


def _records(number: int) -> str:
    return f"{number:,} record{'' if number == 1 else 's'}"
