"""A plan as a text to be edited by hand, in an editor of the operator's own, and read back.

The form is JSON, and the document of KIP-1275: a line for each election with what helps to
decide about it, then the partitions that are left out. The evidence is not in it, so no slip of
the hand falsifies it. JSON has no comments: what explains the form stands under keys that are
read over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.plan.edit import (
    BY_HAND,
    Decision,
    by_hand,
    decide,
    left_out,
    note_fault,
    notes_of,
    number_fault,
    text_fault,
    with_notes,
)
from breakglass.services.recovery.plan.make import plan_rows
from breakglass.services.recovery.plan.partition_file import UnreadableJson, load_json
from breakglass.services.words.figures import loss_text
from breakglass.services.words.inert import bounded

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.make import PlanRow

HELP = (
    'To choose another leader, change "designatedLeader" to a broker of "canLead", which says '
    "what each of them loses.",
    "To leave a partition out, delete its line, or move it to leftOut and say why.",
    'To elect a partition of leftOut, move its line to partitions and add "designatedLeader".',
    "Notes are yours. Everything else is for reading: what is changed there is ignored.",
    "To change nothing, leave without saving.",
)


def render_form(plan: Plan) -> str:
    """*plan*, which has evidence, as a text to be edited."""
    rows = plan_rows(plan)
    elected = [
        {
            **_named(row),
            "designatedLeader": row.leader,
            "verdict": row.verdict,
            "loses": "?" if row.loses is None else str(row.loses),
            "unread": row.unread,
            "recommended": row.recommended,
            "canLead": _choices(plan.records[row.partition]),
        }
        for row in rows
        if row.leader is not None
    ]
    left = [_left(plan, row) for row in rows if row.leader is None]
    return (
        f'{{"help": {_lines(HELP)},\n'
        f' "cluster_id": {printable_json(plan.cluster_id)},\n'
        f' "digest": {printable_json(plan.spoken_digest)},\n'
        f' "notes": {_lines(notes_of(plan))},\n'
        f' "partitions": {_lines(elected)},\n'
        f' "leftOut": {_lines(left)}}}\n'
    )


def printable_json(value: object) -> str:
    """*value* as JSON that an editor shows as it is: only what cannot be printed is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(
        [
            character if character.isprintable() else json.dumps(character)[1:-1]
            for character in text
        ]
    )


def _lines(values: Iterable[object]) -> str:
    body = ",\n  ".join([printable_json(value) for value in values])
    return f"[\n  {body}\n ]" if body else "[]"


def _left(plan: Plan, row: PlanRow) -> dict[str, object]:
    choices = _choices(plan.records[row.partition])
    return {**_named(row), "why": row.why, "verdict": row.verdict, "canLead": choices}


def _named(row: PlanRow) -> dict[str, object]:
    return {"topic": row.partition.topic, "partition": row.partition.partition}


def _choices(record: PartitionRecord) -> dict[str, str]:
    """What each replica that can be elected loses."""
    able = [broker for broker in record.ranking if not refusal(record.evidence, broker)]
    return {str(broker): loss_text(record.loss_of(broker)) for broker in able}


Path = tuple[str | int, ...]
"""Keys and indexes from the top: ``("partitions", 12, "designatedLeader")``."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(slots=True)
class _Open:
    """An object or array that is still open."""

    array: bool
    key: str | int | None = None
    """The key of the member being read; None: a key is expected."""


def places(text: str) -> Iterator[tuple[Path, int]]:
    """Each value of *text*, which is JSON, with the index of its first character.

    A key that stands twice in one object gives the same path twice, at its first character.
    """
    around: list[_Open] = []
    for token in _TOKEN.finditer(text):
        found = token.group()
        inside = around[-1] if around else None
        if found in "}]":
            around.pop()
        elif found == ",":
            _next(around[-1])
        elif inside is not None and inside.key is None:
            inside.key = json.loads(found)
            yield _path(around), token.start()
        elif found != ":":
            if inside is None or inside.array:
                yield _path(around), token.start()
            if found in "{[":
                around.append(_Open(found == "[", 0 if found == "[" else None))


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """Line and column, counted from 1 as in editors."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _next(inside: _Open) -> None:
    inside.key = inside.key + 1 if inside.array and isinstance(inside.key, int) else None


def _path(around: list[_Open]) -> Path:
    return tuple([value.key for value in around if value.key is not None])


LARGEST_FORM = 64_000_000
"""Characters of an edited text that are looked at."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that keeps an edited text from being a plan."""

    line: int
    column: int
    """Line and column, counted from 1."""
    what: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.what}"


def read_back(text: str, plan: Plan) -> Plan | tuple[Problem, ...]:
    """*plan*, which has evidence, as edited in *text*; itself if nothing was changed.

    Otherwise all that is wrong with *text*, in its order.
    """
    if len(text) > LARGEST_FORM:
        return (Problem(1, 1, f"the text has {len(text):,} characters: it is no plan"),)
    try:
        document = load_json(text)
    except json.JSONDecodeError as error:
        return (_at(text, error.pos, f"this is not JSON: {_lower(error.msg)}"),)
    except UnreadableJson as error:
        return (_unreadable(text, str(error)),)
    reading = _Reading(plan)
    edited = reading.read(document)
    if reading.faults:
        wanted = {
            path
            for fault in reading.faults
            for path in (fault.path, fault.first)
            if path is not None
        }
        found = {path: index for path, index in places(text) if path in wanted}
        problems = []
        for fault in reading.faults:
            first = fault.first
            line = "" if first is None else f" {line_and_column(text, found[first])[0]}"
            problems.append(_at(text, found[fault.path], f"{fault.what}{line}"))
        return tuple(sorted(problems))
    return edited


@dataclass(frozen=True, slots=True)
class _Fault:
    """A `Problem` whose place is not known yet."""

    path: Path
    what: str
    first: Path | None = None
    """The path at which the same value came first."""


class _Reading:
    """A text being read: its decision for each partition, and its faults."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._named: dict[TopicPartition, Path] = {}
        self._decisions: dict[TopicPartition, Decision] = {}
        self.faults: list[_Fault] = []

    def read(self, document: object) -> Plan:
        """The edited plan; not to be used where there are faults."""
        if not isinstance(document, dict):
            self._fault((), 'the text must be an object {"partitions": [...]}')
            return self._plan
        digest = document.get("digest", self._plan.spoken_digest)
        if digest != self._plan.spoken_digest:
            what = f"this is another plan: the one being edited is {self._plan.spoken_digest}"
            self._fault(("digest",), what)
        if "partitions" not in document:
            self._fault((), 'there is no list "partitions"')
        for path, entry in self._entries(document, "partitions"):
            self._elect(path, entry)
        for path, entry in self._entries(document, "leftOut"):
            self._leave(path, entry)
        for partition in self._plan.leaders:
            if partition not in self._named:
                self._decisions[partition] = left_out(BY_HAND)
        notes = self._notes(document)
        if self.faults:
            return self._plan
        return with_notes(decide(self._plan, self._decisions), notes)

    def _fault(self, path: Path, what: str, first: Path | None = None) -> None:
        self.faults.append(_Fault(path, what, first))

    def _entries(
        self, document: dict[str, object], key: str
    ) -> Iterator[tuple[Path, dict[str, object]]]:
        listed = document.get(key, [])
        if not isinstance(listed, list):
            self._fault((key,), f'"{key}" must be a list')
            return
        for number, entry in enumerate(listed):
            if isinstance(entry, dict):
                yield (key, number), entry
            else:
                self._fault((key, number), 'this must be an object {"topic": ...}')

    def _record(self, path: Path, entry: dict[str, object]) -> PartitionRecord | None:
        """The record of the partition that *entry* names; None if the entry is at fault."""
        topic = self._value(path, entry, "topic", str)
        number = self._value(path, entry, "partition", int)
        if not isinstance(topic, str) or not isinstance(number, int):
            return None
        partition = TopicPartition(topic, number)
        record = self._plan.records.get(partition)
        if record is None:
            named = bounded(str(partition), 80)
            what = f"the plan has no evidence for {named}: make a plan that includes it"
            self._fault((*path, "topic"), what)
        elif partition in self._named:
            first = self._named[partition]
            self._fault((*path, "topic"), f"{partition} stands twice, first on line", first)
            return None
        else:
            self._named[partition] = path
        return record

    def _elect(self, path: Path, entry: dict[str, object]) -> None:
        record = self._record(path, entry)
        leader = self._value(path, entry, "designatedLeader", int)
        if record is None or not isinstance(leader, int):
            return
        partition = record.partition
        if leader == self._plan.leaders.get(partition):
            return
        barred = refusal(record.evidence, leader)
        if barred:
            self._fault((*path, "designatedLeader"), f"b{leader} cannot lead {partition}: {barred}")
        self._decisions[partition] = by_hand(leader)

    def _leave(self, path: Path, entry: dict[str, object]) -> None:
        record = self._record(path, entry)
        reason = self._value(path, {"why": "", **entry}, "why", str)
        if record is None or not isinstance(reason, str):
            return
        elected = record.partition in self._plan.leaders
        if elected or ("why" in entry and reason != record.left_out):
            fault = text_fault(reason, "the reason")
            if fault:
                self._fault((*path, "why"), fault)
            self._decisions[record.partition] = left_out(reason.strip() or BY_HAND)

    def _notes(self, document: dict[str, object]) -> tuple[str, ...]:
        kept = notes_of(self._plan)
        listed = document.get("notes", list(kept))
        if not isinstance(listed, list):
            self._fault(("notes",), '"notes" must be a list of texts')
            return kept
        if listed == list(kept):
            return kept
        if number_fault(listed):
            self._fault(("notes",), number_fault(listed))
        for number, note in enumerate(listed):
            fault = note_fault(note) if isinstance(note, str) else "a note must be a text"
            if fault:
                self._fault(("notes", number), fault)
        return tuple(map(str, listed))

    def _value(
        self, path: Path, entry: dict[str, object], key: str, kind: type[int] | type[str]
    ) -> object:
        """The value of *entry* under *key*; None if the value is at fault."""
        value = entry.get(key)
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        if key not in entry:
            self._fault(path, f'"{key}" is missing')
        else:
            needed = "a whole number" if kind is int else "a text"
            shown = bounded(json.dumps(value), 60)
            self._fault((*path, key), f'"{key}" must be {needed}, not {shown}')
        return None


def _unreadable(text: str, what: str) -> Problem:
    """The place of text that JSON allows and a plan does not."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _at(text, error.pos, f"this is not JSON: {_lower(error.msg)}")
    except RecursionError:
        return _at(text, 0, what)
    except ValueError:
        return _at(text, _index(_LONG_NUMBER, text), what)
    seen: set[Path] = set()
    for path, index in places(text):
        if path in seen:
            return _at(text, index, what)
        seen.add(path)
    return _at(text, _index(_NO_NUMBER, text), what)


_LONG_NUMBER = re.compile(r"\d{4301}")
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<found>-?Infinity|NaN)', re.DOTALL)


def _index(pattern: re.Pattern[str], text: str) -> int:
    """The place of *pattern* in *text*, or of its group ``found``, if it has that group."""
    group = "found" if "found" in pattern.groupindex else 0
    return next(
        (match.start(group) for match in pattern.finditer(text) if match.start(group) >= 0), 0
    )


def _at(text: str, index: int, what: str) -> Problem:
    return Problem(*line_and_column(text, index), what)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
