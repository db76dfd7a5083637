"""The timeline that is pasted into a ticket or a chat: plain text, UTC, inert, bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import JournalStep, UnreadableJournal
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.succession import do_not_start
from breakglass.services.recovery.timeline.account import (
    Account,
    Brief,
    TopicAccount,
    moments_of,
    partition_numbers,
    words_of,
)
from breakglass.services.recovery.timeline.ending import (
    NOT_ELECTED,
    PartitionEnding,
    TotalPrice,
    agreed_stake,
    result_of,
)
from breakglass.services.regular_file import replace_regular
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text

WIDTH = 2_000
"""Of any line, in characters; enough for a path, which is worth nothing when it is cut."""
SAID = 240
"""Of what is not a path: a name, an error, a note."""
DATE = len("2026-11-21")
SHOWN_TOPICS = 50
SHOWN_PARTITIONS = 20

UNTROUBLED = frozenset(
    {"elected", "already online", "undone", "moved", "restored", "done", "started"}
)


def timeline_text(accounts: Iterable[Account]) -> str:
    """The timelines of *accounts*, oldest first, with an empty line between them."""
    ordered = sorted(
        accounts, key=lambda account: (account.view.opened_at_ms, account.view.path.name)
    )
    return "\n\n".join("\n".join(_lines(account)) for account in ordered)


def _lines(account: Account) -> Iterator[str]:
    yield from (bounded(line, WIDTH) for line in _unbounded(account))


def _unbounded(account: Account) -> Iterator[str]:
    brief = account.brief
    yield f"{brief.what[:1].upper()}{brief.what[1:]}: {brief.result}"
    yield f"Cluster  {brief.cluster_id}"
    yield f"When     {time_text(brief.opened_at_ms)} to {time_text(brief.last_at_ms)} (UTC)"
    yield f"Who      {', '.join(dict.fromkeys((brief.who, *brief.resumed_by)))}"
    if brief.stake.said:
        yield f"Loses    {_loses(brief.stake)}, as agreed to"
    if brief.digest:
        yield f"Digest   {brief.digest}"
    yield f"Journal  {brief.path}"
    yield ""
    for moment in moments_of(account.view):
        # The time of day; with the date where that is not the day it began on.
        whole, began = time_text(moment.at_ms), time_text(brief.opened_at_ms)
        same_day = whole[:DATE] == began[:DATE] and len(whole) > DATE
        clock = whole[DATE:].strip(" Z") if same_day else whole
        yield f"{clock}  {bounded(moment.says, SAID)}"
    if account.topics:
        yield ""
        yield from _topics(account.topics)
    yield from _given_up(account.endings)
    yield from _troubled(account.endings)
    places = [saved for ending in account.endings for saved in ending.rescued]
    if places:
        yield ""
        yield "Rescued records (print them with `breakglass backup cat FOLDER`):"
    for place in places[:SHOWN_PARTITIONS]:
        yield f"  {place.partition} b{place.broker}: {place.records:,} records in {place.path}"
    rest = places[SHOWN_PARTITIONS:]
    folders = Counter(str(place.path.parent.parent) for place in rest)
    for folder, number in folders.most_common(SHOWN_PARTITIONS):
        yield f"  and of {number:,} more replicas below {folder}"


def _loses(stake: TotalPrice) -> str:
    """The price in records, then what it does not count."""
    counted, comma, rest = str(stake).partition(", abandons" if stake.abandons else ", unread")
    return f"{counted} records{comma}{rest}"


def _topics(topics: Sequence[TopicAccount]) -> Iterator[str]:
    for topic in topics[:SHOWN_TOPICS]:
        numbers = partition_numbers(ending.partition.partition for ending in topic.endings)
        loses = f", loses {topic.stake}" if topic.stake.said else ""
        saved = f", {topic.rescued:,} records rescued" if topic.rescued else ""
        led = _led(topic.leaders)
        yield f"{bounded(topic.topic, 80)} [{numbers}]: {words_of(topic.counts)}{led}{loses}{saved}"
    yield from _more(len(topics) - SHOWN_TOPICS, "topic")


def _led(leaders: Mapping[int, int]) -> str:
    """``, led by b1``; ``, led by b1 (900), b2 (10)``."""
    if len(leaders) == 1:
        return f", led by b{next(iter(leaders))}"
    named = ", ".join(f"b{leader} ({number:,})" for leader, number in leaders.items())
    return f", led by {named}" if named else ""


def _given_up(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Brokers that were unread when it was agreed to, of what is led by now or may be."""
    led = [ending for ending in endings if ending.may_be_led]
    held = Counter(broker for ending in led for broker in ending.abandons)
    if held:
        yield ""
        yield "Unread when it was agreed to:"
    for broker, number in sorted(held.items()):
        of = [ending for ending in led if broker in ending.abandons]
        bound = agreed_stake(of).unread_text
        because = ", ".join(sorted({ending.unread_source for ending in of if ending.unread_source}))
        source = f" ({bounded(because, SAID)})" if because else ""
        yield f"  b{broker} of {partitions_text(number)}, unread {bound}{source}"
        yield f"  {do_not_start(broker)}"


def _troubled(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Every partition that did not end well, and why: the same reason in one line."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for ending in endings:
        if ending.result not in UNTROUBLED or ending.order_kept:
            why = (ending.partition.topic, _trouble(ending), ending.reason)
            alike.setdefault(why, []).append(ending.partition.partition)
    if alike:
        yield ""
        yield "Not as it was meant to be:"
    for (topic, result, reason), numbers in list(alike.items())[:SHOWN_PARTITIONS]:
        because = f": {bounded(reason, SAID)}" if reason else ""
        yield f"  {bounded(topic, 80)} [{partition_numbers(numbers)}] {result}{because}"
    yield from _more(len(alike) - SHOWN_PARTITIONS, "line", "  ")


def _trouble(ending: PartitionEnding) -> str:
    """How it ended; that its order was written the result may say already."""
    kept = "order not put back"
    if ending.result in UNTROUBLED:
        return kept
    return (
        f"{ending.result}, {kept}"
        if ending.order_kept and ending.result != NOT_ELECTED
        else ending.result
    )


def _more(number: int, what: str, indent: str = "") -> Iterator[str]:
    if number > 0:
        yield f"{indent}and {number:,} more {what}{'s' * (number != 1)}"


SCHEMA = 1


def list_document(journals: list[Brief | UnreadableJournal]) -> dict[str, Any]:
    """All of *journals*, newest first."""
    return {"schema": SCHEMA, "journals": [_listed(journal) for journal in journals]}


def account_document(account: Account) -> dict[str, Any]:
    """One journal: how it ended for each partition, and each step."""
    return {
        "schema": SCHEMA,
        **brief_document(account.brief),
        "partitions": [_ending(ending) for ending in account.endings],
        "steps": [_step(step) for step in account.view.steps],
    }


def timeline_document(accounts: list[Account]) -> dict[str, Any]:
    """The timelines of *accounts*."""
    return {
        "schema": SCHEMA,
        "timelines": [
            {
                **brief_document(account.brief),
                "moments": list(moments_of(account.view)),
                "topics": [
                    {
                        "topic": topic.topic,
                        "partitions": [ending.partition.partition for ending in topic.endings],
                        "outcomes": topic.counts,
                        "stake": topic.stake,
                        "records_rescued": topic.rescued,
                    }
                    for topic in account.topics
                ],
            }
            for account in accounts
        ],
    }


def brief_document(brief: Brief) -> dict[str, Any]:
    """A journal in a line."""
    return {
        "journal": brief.path,
        "cluster_id": brief.cluster_id,
        "who": brief.who,
        "resumed_by": brief.resumed_by,
        "opened_at_ms": brief.opened_at_ms,
        "last_at_ms": brief.last_at_ms,
        "what": brief.what,
        "result": brief.result,
        "outcomes": brief.counts,
        "unknown": brief.unknown,
        "stake": brief.stake,
        "digest": brief.digest,
        "resumable": brief.resumable,
    }


def _listed(journal: Brief | UnreadableJournal) -> dict[str, Any]:
    if isinstance(journal, UnreadableJournal):
        return {"journal": journal.path, "unreadable": journal.reason}
    return brief_document(journal)


def _ending(ending: PartitionEnding) -> dict[str, Any]:
    return {
        **_named(ending.partition),
        "result": ending.result,
        "reason": ending.reason,
        "leader": ending.leader,
        "leader_epoch": ending.leader_epoch,
        "rung": ending.rung,
        "price": ending.price,
        "abandons": ending.abandons,
        "unread_at_least": ending.unread_at_least,
        "unread_source": ending.unread_source,
        "order_kept": ending.order_kept,
        "rescued": [
            {"broker": saved.broker, "records": saved.records, "path": saved.path}
            for saved in ending.rescued
        ],
    }


def _step(step: JournalStep) -> dict[str, Any]:
    outcomes = {partition: result_of(step, partition) for partition in step.items}
    return {
        "step": step.name,
        "at_ms": step.request.at_ms,
        "partitions": [
            {**_named(partition), **told.details, "result": told.result}
            for partition, told in outcomes.items()
        ],
    }


def _named(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def save_timeline(text: str, folder: Path, name: str, suffix: str = ".txt") -> Path:
    """Write *text* to the file of that *name* and *suffix* in *folder*, in place of an older one.

    Only its owner can read it: topics, people and paths are in it.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / f"{name}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_regular(path, f"{text}\n".encode(), 0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): check that folder's rights and space"
        ) from error
    return path
