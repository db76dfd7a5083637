"""Reads the two files of KIP-1275, partitions to recover and leaders; writes the second."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.json_text import parse_json, read_text
from breakglass.services.rights import open_new

LARGEST_ID = 2**31 - 1
"""Partition numbers and broker ids are int32."""

LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


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
        named = f" ({topic})" if isinstance(topic, str) and LEGAL_TOPIC.fullmatch(topic) else ""
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
    if not isinstance(topic, str) or not LEGAL_TOPIC.fullmatch(topic):
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
    text = render_elections(elections)
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


def render_elections(elections: Sequence[Election]) -> str:
    """The file's text: one line for each partition, as the KIP prints it."""
    entries = [
        {"topic": election.partition.topic, "partition": election.partition.partition}
        | ({} if election.designated is None else {"designatedLeader": election.designated})
        for election in elections
    ]
    lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
    return f'{{\n  "partitions": [\n{lines}\n  ]\n}}\n'
