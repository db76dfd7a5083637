"""JSON that operators write: read by line and column, the two files of KIP-1275, and its digest.

Light enough for any command to import.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.model import TopicPartition, legal_topic
from breakglass.services.regular_file import read_regular
from breakglass.services.rights import open_new

_CONSONANTS = "bdfghjklmnprstvz"
_VOWELS = "aiou"
SPOKEN_GROUPS = 3


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: object) -> str:
    """SHA-256, in hexadecimal, of *value* as canonical JSON."""
    return digest_of_parts([canonical(value)])


def digest_of_parts(parts: Iterable[str]) -> str:
    """`digest_of` a value whose canonical JSON is *parts* one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("ascii"))
    return found.hexdigest()


def canonical(value: object) -> str:
    """*value* as the one JSON text that stands for it.

    Keys sorted, no blanks, ASCII: neither order of keys nor white space matters.
    """
    return _CANONICAL.encode(value)


def spoken(digest: str) -> str:
    """The first 48 bits of a hexadecimal *digest* as speakable groups: ``lusab-babad-gutih``.

    Proquints (arXiv:0901.4016): each group of five letters stands for 16 bits.
    """
    groups = (int(digest[4 * i : 4 * i + 4], 16) for i in range(SPOKEN_GROUPS))
    return "-".join(
        (
            _CONSONANTS[group >> 12]
            + _VOWELS[group >> 10 & 3]
            + _CONSONANTS[group >> 6 & 15]
            + _VOWELS[group >> 4 & 3]
            + _CONSONANTS[group & 15]
        )
        for group in groups
    )


MOST_BYTES = 1024 * 1024 * 1024
"""The largest file that is read, in bytes."""


def read_text(path: Path) -> str:
    """The text of *path*.

    Raises:
        StorageError: it cannot be opened or read.
        MalformedInput: it is not UTF-8.
    """
    try:
        return read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read ({error.strerror}): check the name and its permissions."
        ) from error
    except UnicodeDecodeError as error:
        raise MalformedInput(
            f"{path} is not UTF-8 text at byte {error.start}: save it as UTF-8 and run again."
        ) from error


def parse_json(text: str, source: str, *, bare_keys: bool = False) -> object:
    """The value of *text*, which messages call *source*.

    With *bare_keys*, keys may stand without quotes, as KIP-1275 prints its example
    (``topic: "foo"``): a letter, ``_`` or ``$``, then those or digits. Nothing else of JSON5.

    Raises:
        MalformedInput: not JSON, with line and column; a key twice in one object; a number
            that is none (NaN, Infinity) or has thousands of digits; nesting without end.
    """
    try:
        return load_json(text)
    except json.JSONDecodeError as error:
        if bare_keys:
            return _parse_bare_keys(text, source)
        raise _malformed(text, source, error.msg, error.pos) from error
    except UnreadableJson as error:
        raise MalformedInput(f"{source}: {error}: correct it and run again.") from error


def _parse_bare_keys(text: str, source: str) -> object:
    # text with its bare keys quoted, and where in the result a quote was put in.
    parts: list[str] = []
    inserted: list[int] = []
    copied = length = 0
    for match in _STRING_OR_BARE_KEY.finditer(text):
        if match["key"] is None:
            continue
        start, end = match.span("key")
        parts += [text[copied:start], '"', match["key"], '"']
        length += start - copied
        inserted += [length, length + 1 + end - start]
        length += 2 + end - start
        copied = end
    quoted, inserted = "".join([*parts, text[copied:]]), inserted
    try:
        return load_json(quoted)
    except json.JSONDecodeError as error:
        position = error.pos - bisect_left(inserted, error.pos)
        raise _malformed(text, source, error.msg, position) from error
    except UnreadableJson as error:
        raise MalformedInput(f"{source}: {error}: correct it and run again.") from error


class UnreadableJson(Exception):
    """JSON by its grammar, but not to be taken."""


def load_json(text: str) -> object:
    """The value of *text*.

    Raises:
        json.JSONDecodeError: not JSON.
        Unreadable: JSON, but with a key twice, a number that is none, or nested without end.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise UnreadableJson("its values are nested without end") from error
    except ValueError as error:
        raise UnreadableJson("a number in it has too many digits") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnreadableJson(f"the key {json.dumps(twice)} stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise UnreadableJson(f"{name} is not a number of JSON")


_STRING_OR_BARE_KEY = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<before>[{,]\s*)(?P<key>[A-Za-z_$][A-Za-z0-9_$]*)(?=\s*:)""",
    re.DOTALL,
)


def _malformed(text: str, source: str, message: str, position: int) -> MalformedInput:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    what = message[:1].lower() + message[1:]
    return MalformedInput(
        f"{source} is not JSON at line {line}, column {column} ({what}): "
        "correct it there and run again."
    )


LARGEST_ID = 2**31 - 1
"""Partition numbers and broker ids are int32."""


@dataclass(frozen=True, slots=True)
class Election:
    """An entry of a file for elections."""

    partition: TopicPartition
    designated: int | None = None
    """The replica to elect; None: the file leaves the choice to the controller."""


def read_partitions(path: Path) -> tuple[TopicPartition, ...]:
    """The partitions named by a file of ``--path-to-json-file`` of kafka-unclean-recovery.

    ``{"partitions": [{"topic": "foo", "partitions": [0, 3, 5]}]}``, in the file's order; keys
    may stand without quotes, as the KIP prints them.

    Raises:
        MalformedInput: what is wrong and in which entry; nothing named, or something twice.
        StorageError: the file cannot be read.
    """
    return parse_partitions(read_text(path), str(path))


def parse_partitions(text: str, source: str) -> tuple[TopicPartition, ...]:
    """`read_partitions` of *text*, which messages call *source*."""
    document = parse_json(text, source, bare_keys=True)
    found = [named for entry in _entries(document, source) for named in _listed(entry)]
    _refuse_duplicates(found, source)
    return tuple(found)


def read_elections(path: Path) -> tuple[Election, ...]:
    """The elections of a file of ``--path-to-json-file`` of kafka-elect-leaders.

    ``{"partitions": [{"topic": "foo", "partition": 1, "designatedLeader": 0}]}``, where the
    leader may be left out; other keys are ignored, so that a plan is such a file.

    Raises:
        MalformedInput: what is wrong and in which entry; nothing named, or something twice.
        StorageError: the file cannot be read.
    """
    return elections_of(parse_json(read_text(path), str(path), bare_keys=True), str(path))


def elections_of(document: object, source: str) -> tuple[Election, ...]:
    """The elections of a parsed *document*, which messages call *source*."""
    found = [_election(entry) for entry in _entries(document, source)]
    _refuse_duplicates([named.partition for named in found], source)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A member of the list ``partitions``, and its name in messages."""

    fields: dict[str, object]
    number: int
    source: str

    def wrong(self, what: str) -> MalformedInput:
        topic = self.fields.get("topic")
        named = f" ({topic})" if isinstance(topic, str) and legal_topic(topic) else ""
        return MalformedInput(f"{self.source}, entry {self.number}{named}: {what}.")


def _entries(document: object, source: str) -> Iterator[_Entry]:
    listed = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise MalformedInput(
            f'{source} has no list "partitions": it must be {{"partitions": [...]}} with one entry '
            "for each topic or partition."
        )
    if not listed:
        raise MalformedInput(f"{source} names no partition: list those that are meant.")
    for number, fields in enumerate(listed, start=1):
        if not isinstance(fields, dict):
            raise MalformedInput(
                f'{source}, entry {number}: it must be an object {{"topic": ...}}, '
                f"not {_shown(fields)}."
            )
        yield _Entry(fields, number, source)


def _listed(entry: _Entry) -> Iterator[TopicPartition]:
    topic, numbers = _topic(entry), entry.fields.get("partitions")
    if not isinstance(numbers, list):
        raise entry.wrong('it needs a list "partitions" of numbers, such as [0, 3, 5]')
    if not numbers:
        raise entry.wrong("it lists no partition: name those that are meant or drop the entry")
    for number in numbers:
        yield TopicPartition(topic, _number(entry, "partitions", number))


def _election(entry: _Entry) -> Election:
    fields, topic = entry.fields, _topic(entry)
    if "partition" not in fields:
        raise entry.wrong('it has no "partition": give its number')
    partition = TopicPartition(topic, _number(entry, "partition", fields["partition"]))
    if fields.get("designatedLeader") is None:
        return Election(partition)
    return Election(partition, _number(entry, "designatedLeader", fields["designatedLeader"]))


def _topic(entry: _Entry) -> str:
    topic = entry.fields.get("topic")
    if topic is None:
        raise entry.wrong('it has no "topic": name one')
    if topic == "":
        raise entry.wrong("its topic is empty: name one")
    if not isinstance(topic, str) or not legal_topic(topic):
        raise entry.wrong(f"{_shown(topic)} is no name of a topic: correct it")
    return topic


def _number(entry: _Entry, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise entry.wrong(f'"{key}" must be a whole number, not {_shown(value)}')
    if value < 0:
        raise entry.wrong(f'"{key}" is {value}, which is negative: give a number from 0 upwards')
    if value > LARGEST_ID:
        raise entry.wrong(f'"{key}" is {value}, which is above {LARGEST_ID}: correct it')
    return value


def _refuse_duplicates(partitions: list[TopicPartition], source: str) -> None:
    seen: set[TopicPartition] = set()
    for partition in partitions:
        if partition in seen:
            raise MalformedInput(f"{source} names {partition} twice: keep one of the entries.")
        seen.add(partition)


def _shown(value: object) -> str:
    """*value* as JSON, short and in ASCII: it may be hostile."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def write_elections(elections: Sequence[Election], path: Path) -> None:
    """Write *elections* to a new file at *path*, on disk when this returns.

    Raises:
        StorageError: the file exists, or cannot be written; nothing is overwritten.
    """
    # The file's text: one line for each partition, as the KIP prints it.
    entries = [
        {"topic": election.partition.topic, "partition": election.partition.partition}
        | ({} if election.designated is None else {"designatedLeader": election.designated})
        for election in elections
    ]
    lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
    text = f'{{\n  "partitions": [\n{lines}\n  ]\n}}\n'
    try:
        with open(path, "x", encoding="utf-8", opener=open_new) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise StorageError(f"{path} exists and is not overwritten: name a new file") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder of yours"
        ) from error
