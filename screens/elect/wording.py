"""What the screen of an election says: headline, rescue, phrases, progress, what is left to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import Unknown
from breakglass.services.recovery.acts.add_replicas import waits_for
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.aftermath import Aftermath, CheckedAgain, left_open_text
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, empty_over_unread
from breakglass.services.recovery.plan.partition_file import spoken
from breakglass.services.words.figures import partitions_text, unread_told

if TYPE_CHECKING:
    from breakglass.screens.elect.state import ElectionProgress

SHOWN = 5
"""Sentences of one kind; the rest is counted."""

READ_ONLY = "{doing} changes the cluster and this session is read-only: start again with --write."


def read_only(doing: str) -> str:
    """Why nothing can be agreed to here."""
    return READ_ONLY.format(doing=doing[:1].upper() + doing[1:])


def headline(subject: ElectionSubject, *, undo: bool = False) -> str:
    """What is carried out, and what it loses."""
    if not subject.wanted:
        if not subject.led:
            return "Nothing is left to elect."
        held = partitions_text(len(subject.led))
        if undo:
            return f"Put the order of {held} back, where nobody leads yet. Nothing is elected."
        return f"Confirm {held} and put their order back. Nothing is elected."
    if len(subject.wanted) == 1:
        (priced,) = subject.wanted
        what = f"Elect b{priced.target.designee} for {priced.partition}"
    else:
        what = f"Elect {partitions_text(len(subject.wanted))}"
    return f"{what}: loses {loss_told(subject)}, {unread_told(subject.unread)}."


def loss_told(subject: ElectionSubject) -> str:
    """``50 records``; apart from it, of how many elections the loss is not known."""
    known, unknown = subject.known_loss, subject.unknown_losses
    if unknown == len(subject.wanted):
        return "unknown" if unknown == 1 else f"unknown for all {unknown:,}"
    records = f"{known} record{'' if known.records == 1 else 's'}"
    return f"{records}, and unknown for {unknown:,}" if unknown else records


def spared(subject: ElectionSubject) -> Iterator[str]:
    """What would make elections needless."""
    if len(subject.wanted) == 1:
        yield from (
            f"It needs no election if you {instead}." for instead in subject.spared.values()
        )
        return
    for instead, number in Counter(subject.spared.values()).most_common(SHOWN):
        need = "needs" if number == 1 else "need"
        yield f"{number:,} of them {need} no election if you {instead}."


def remarks(subject: ElectionSubject) -> Iterator[str]:
    """What else an operator should know before consenting."""
    elections = (
        (priced.evidence, priced.target.designee, priced.stake.abandons)
        for priced in subject.wanted
    )
    yield from (f"{sentence}." for sentence in empty_over_unread(elections))
    if subject.left:
        first = subject.left[0]
        more = f" (and {len(subject.left) - 1:,} more)" if len(subject.left) > 1 else ""
        yield f"Left out: {first.partition}{more}: {first.reason}."
    if subject.digest:
        names, approved = subject.approved_by, ""
        if names is not None:
            approved = f", approved by {' and '.join(names) or 'nobody'}"
        yield f"Plan {spoken(subject.digest)}{approved}."


def rescue_told(subject: ElectionSubject, choice: RescueChoice) -> str:
    """Whether what is cut off is saved first, how much that is, and where it goes."""
    held = subject.rescue
    if not held.records and not held.impossible:
        return "Rescue: no records that could be saved are cut off."
    if choice.without:
        return f"Rescue first: OFF: {held.records:,} records are cut off and not saved."
    size = "" if isinstance(held.size, Unknown) else f", {size_text(held.size)}"
    lost = f"; {held.impossible:,} cannot be saved" if held.impossible else ""
    return f"Rescue first: on: {held.records:,} records{size} to {choice.folder}{lost}."


def size_text(size: int) -> str:
    """``640 B``, ``12 kB``, ``3.4 GB``."""
    for unit, least in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= least:
            return f"{size / least:,.1f} {unit}"
    return f"{size} B"


def asking(asked: ConsentPhrase, number: int, total: int) -> str:
    """Which phrase is to be typed, and why it stands alone."""
    place = f"{number} of {total}: " if total > 1 else ""
    alone = f"{place}this partition needs its own consent: {asked.why}.\n" if asked.why else ""
    return f"{alone}{'' if asked.why else place}Type to confirm: "


def changed_told(changed: Mapping[str, str], subject: ElectionSubject) -> str:
    """Nothing was sent, because the consent does not hold any more; empty where it does."""
    if not changed:
        return ""
    first, why = next(iter(changed.items()))
    what = f"{partitions_text(len(changed))} changed since you agreed: nothing was sent."
    told = f"{what} {first}: {why}."
    if not subject.wanted and not subject.led:
        return told
    return f"{told} Check what it would lose now, then consent to that."


def progress_told(progress: ElectionProgress) -> str:
    """One line while it runs."""
    rescuing = progress.rescuing
    if rescuing is not None:
        return (
            f"Saving what will be cut off: {rescuing.copied:,} of at most {rescuing.at_most:,} "
            f"records of {partitions_text(rescuing.partitions)}."
        )
    if progress.journal is None:
        return "Connecting to elect."
    told = f"{len(progress.outcomes):,} of {progress.total:,} done"
    words = _words(progress.by_word)
    return f"Electing: {told}: {words}." if words else f"Electing: {told}."


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts.most_common())


def ended_told(progress: ElectionProgress) -> str:
    """One line when it is over."""
    words = _words(progress.by_word)
    if not progress.finished:
        untold = f"{progress.total - len(progress.outcomes):,} without an answer"
        told = f"{words}, {untold}" if words else untold
        return f"Interrupted: {told}: the journal has what was sent."
    return (
        f"{'Stopped' if progress.result is None else 'Done'}: {words or 'there was nothing to do'}."
    )


def what_next(progress: ElectionProgress, aftermath: Aftermath | None) -> Iterator[str]:
    """What is still to be done and by which key, the most urgent first."""
    outcomes = progress.outcomes.values()
    for outcome in outcomes:
        if outcome.result is RecoveryResult.ELECTED_ANOTHER:
            yield f"{outcome.partition}: {outcome.reason}."
    unknown = progress.count(RecoveryResult.UNKNOWN)
    if unknown:
        yield (
            f"{partitions_text(unknown)} unknown: it may or may not have happened. u asks the "
            "cluster again and elects nothing."
        )
    # Whose assignment may still have the order that was written, elected or not.
    reordered = progress.count(RecoveryResult.REORDERED)
    if reordered:
        yield (
            f"{partitions_text(reordered)} reordered and not elected: r resumes the journal, and "
            f"elects or puts the order back."
        )
    kept = sum(outcome.order_restored is False for outcome in outcomes) - reordered
    if kept:
        yield f"The order of {partitions_text(kept)} was not put back: r resumes the journal."
    yield from _not_elected(progress)
    how = "a adds a replica on a live broker"
    yield from (f"{waiting}." for waiting in waits_for(outcomes, how))
    # Brokers that would cut their unread logs.
    for abandoned in () if aftermath is None else aftermath.given_up:
        yield f"{abandoned.advice[:1].upper()}{abandoned.advice[1:]}."
    saved = [place for result in progress.rescued for place in result.saved]
    if saved:
        records = sum(place.records for place in saved)
        yield (
            f"Rescued {records:,} records; p copies the command that puts them back, and they are "
            f"read with: breakglass backup cat {saved[0].path}"
        )
    if aftermath is None:
        if progress.count(RecoveryResult.ELECTED):
            yield "Looking for open transactions and groups past the log end."
    else:
        yield from _transactions(aftermath.open_transactions, progress)
        told = (
            f"Group {lag.group} committed {lag.committed:,} on {lag.partition}, whose log ends at "
            f"{lag.log_end:,}: clients without epochs meet OFFSET_OUT_OF_RANGE; o, or `breakglass "
            f"after groups reset`, mends it."
            for lag in aftermath.groups_past_end
        )
        yield from _some(told, len(aftermath.groups_past_end), "groups past the end")
        yield from (
            f"When this was read, {reason}. `breakglass after groups list` looks again."
            for reason in aftermath.groups_unread
        )
    if progress.journal is not None:
        yield f"l accounts for every record. Journal: {progress.journal}"


def _not_elected(progress: ElectionProgress) -> Iterator[str]:
    for result, what in (
        (RecoveryResult.FAILED, "failed"),
        (RecoveryResult.REFUSED, "refused by a guard"),
    ):
        number = progress.count(result)
        if number:
            first = next(
                outcome for outcome in progress.outcomes.values() if outcome.result is result
            )
            yield f"{partitions_text(number)} {what}: {first.partition}: {first.reason}."
    waiting = progress.count(RecoveryResult.NOT_ATTEMPTED)
    if waiting:
        yield f"{partitions_text(waiting)} not attempted: r resumes the journal."


def _transactions(
    found: Sequence[OpenTransaction] | Unknown, progress: ElectionProgress
) -> Iterator[str]:
    if isinstance(found, Unknown):
        if progress.count(RecoveryResult.ELECTED):
            yield f"Open transactions are not known: {found.reason}."
        return
    told = (f"{left_open_text(transaction)}." for transaction in found)
    yield from _some(told, len(found), "open transactions")


def _some(told: Iterable[str], number: int, what: str) -> Iterator[str]:
    for place, sentence in enumerate(told):
        if place == SHOWN:
            yield f"And {number - SHOWN:,} more {what}."
            return
        yield sentence


def answers_told(found: CheckedAgain) -> str:
    """What asking again has found out."""
    if not found.answers:
        return "Every step of the journal is settled."
    counts = Counter(f"{answer.step} {answer.result}" for answer in found.answers)
    left = found.remains
    open_ones = len(left.offline) + len(left.led)
    more = f" {partitions_text(open_ones)} left to finish: r resumes." if open_ones else ""
    return f"Asked again: {_words(counts)}.{more}"


def journal_told(path: Path, who: str, ended: str | None) -> str:
    """Which journal is taken up."""
    return f"Journal {path.name}, begun by {who}, {ended or 'interrupted'}."
