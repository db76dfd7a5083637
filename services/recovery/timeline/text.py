"""The timeline that is pasted into a ticket or a chat: plain text, UTC, inert, bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from breakglass.services.guard.journal_view import UNKNOWN
from breakglass.services.recovery.guarded.given_up import do_not_start
from breakglass.services.recovery.timeline.account import Account, TopicAccount, words_of
from breakglass.services.recovery.timeline.ending import NOT_ELECTED, PartitionEnding
from breakglass.services.recovery.timeline.moments import moments_of, partition_numbers
from breakglass.services.recovery.timeline.stake import TotalPrice, agreed_stake
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

UNTROUBLED = frozenset({"elected", "already online", "undone", "moved", "restored", "done"})


def timeline_text(accounts: Iterable[Account]) -> str:
    """The timelines of *accounts*, oldest first, with an empty line between them."""
    ordered = sorted(accounts, key=lambda one: (one.view.opened_at_ms, one.view.path.name))
    return "\n\n".join("\n".join(_lines(one)) for one in ordered)


def _lines(account: Account) -> Iterator[str]:
    yield from (bounded(line, WIDTH) for line in _unbounded(account))


def _unbounded(account: Account) -> Iterator[str]:
    brief = account.brief
    yield f"{_capital(brief.what)}: {brief.result}"
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
        yield f"{_clock(moment.at_ms, brief.opened_at_ms)}  {bounded(moment.says, SAID)}"
    if account.topics:
        yield ""
        yield from _topics(account.topics)
    yield from _given_up(account.endings)
    yield from _troubled(account.endings)
    yield from _rescued(account.endings)


def _loses(stake: TotalPrice) -> str:
    """The price in records, then what it does not count."""
    counted, comma, rest = str(stake).partition(", abandons" if stake.abandons else ", unread")
    return f"{counted} records{comma}{rest}"


def _topics(topics: Sequence[TopicAccount]) -> Iterator[str]:
    for one in topics[:SHOWN_TOPICS]:
        numbers = partition_numbers(ending.partition.partition for ending in one.endings)
        loses = f", loses {one.stake}" if one.stake.said else ""
        saved = f", {one.rescued:,} records rescued" if one.rescued else ""
        led = _led(one.leaders)
        yield f"{bounded(one.topic, 80)} [{numbers}]: {words_of(one.counts)}{led}{loses}{saved}"
    yield from _more(len(topics) - SHOWN_TOPICS, "topic")


def _led(leaders: Mapping[int, int]) -> str:
    """``, led by b1``; ``, led by b1 (900), b2 (10)``."""
    if len(leaders) == 1:
        return f", led by b{next(iter(leaders))}"
    named = ", ".join(f"b{one} ({number:,})" for one, number in leaders.items())
    return f", led by {named}" if named else ""


def _given_up(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Brokers that were unread when it was agreed to, of what is led by now or may be."""
    led = [one for one in endings if one.leader_epoch is not None or one.result == UNKNOWN]
    held = Counter(broker for one in led for broker in one.abandons)
    if held:
        yield ""
        yield "Unread when it was agreed to:"
    for broker, number in sorted(held.items()):
        of = [one for one in led if broker in one.abandons]
        bound = agreed_stake(of).unread_text
        because = ", ".join(sorted({one.unread_source for one in of if one.unread_source}))
        source = f" ({bounded(because, SAID)})" if because else ""
        yield f"  b{broker} of {partitions_text(number)}, unread {bound}{source}"
        yield f"  {do_not_start(broker)}"


def _troubled(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Every partition that did not end well, and why: the same reason in one line."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for one in endings:
        if one.result not in UNTROUBLED or one.order_kept:
            why = (one.partition.topic, _trouble(one), one.reason)
            alike.setdefault(why, []).append(one.partition.partition)
    if alike:
        yield ""
        yield "Not as it was meant to be:"
    for (topic, result, reason), numbers in list(alike.items())[:SHOWN_PARTITIONS]:
        because = f": {bounded(reason, SAID)}" if reason else ""
        yield f"  {bounded(topic, 80)} [{partition_numbers(numbers)}] {result}{because}"
    yield from _more(len(alike) - SHOWN_PARTITIONS, "line", "  ")


def _trouble(one: PartitionEnding) -> str:
    """How it ended; that its order was written the result may say already."""
    kept = "order not put back"
    if one.result in UNTROUBLED:
        return kept
    return f"{one.result}, {kept}" if one.order_kept and one.result != NOT_ELECTED else one.result


def _rescued(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    places = [saved for one in endings for saved in one.rescued]
    if places:
        yield ""
        yield "Rescued records (print them with `breakglass backup cat FOLDER`):"
    for one in places[:SHOWN_PARTITIONS]:
        yield f"  {one.partition} b{one.broker}: {one.records:,} records in {one.path}"
    rest = places[SHOWN_PARTITIONS:]
    folders = Counter(str(one.path.parent.parent) for one in rest)
    for folder, number in folders.most_common(SHOWN_PARTITIONS):
        yield f"  and of {number:,} more replicas below {folder}"


def _more(number: int, what: str, indent: str = "") -> Iterator[str]:
    if number > 0:
        yield f"{indent}and {number:,} more {what}{'s' * (number != 1)}"


def _clock(at_ms: int, opened_at_ms: int) -> str:
    """The time of day; with the date where that is not the day it began on."""
    whole, began = time_text(at_ms), time_text(opened_at_ms)
    same_day = whole[:DATE] == began[:DATE] and len(whole) > DATE
    return whole[DATE:].strip(" Z") if same_day else whole


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
