"""Plans on disk: ours with the evidence, and bare ones in the form of KIP-1275."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.recovery.plan.document import (
    SCHEMA,
    PartitionRecord,
    Plan,
    PlanEntry,
    PlanEvidence,
)
from breakglass.services.recovery.plan.partition_file import (
    Election,
    UnreadableJson,
    elections_of,
    load_json,
    parse_json,
)
from breakglass.services.regular_file import replacing
from breakglass.services.rights import file_mode, open_new


def parse_plan(text: str, source: str) -> Plan:
    """The plan in *text*, which messages call *source*: one of ours, or in Kafka's format.

    Raises:
        MalformedInput: no JSON (with line and column), or which entry is wrong and how.
        UnsupportedSchema: written by a later release.
    """
    plan = _read_by_line(text, source)
    return _read_whole(text, source) if plan is None else plan


def _read_whole(text: str, source: str) -> Plan:
    plan = _plan(parse_json(text, source, bare_keys=True), source)
    if plan.breakglass is not None:
        _refuse_contradictions(plan, source)
    return plan


def _plan(document: object, source: str) -> Plan:
    # A plan of ours may elect nobody, a bare plan may not.
    ours = isinstance(document, dict) and document.get("breakglass") is not None
    nobody = ours and isinstance(document, dict) and document.get("partitions") == []
    elections = () if nobody else elections_of(document, source)
    entries = tuple(
        _entry(number, election, source) for number, election in enumerate(elections, start=1)
    )
    if not isinstance(document, dict) or document.get("breakglass") is None:
        return Plan(entries=entries)
    return Plan(entries=entries, breakglass=_evidence(document["breakglass"], source))


RECORDS = '\n "records": ['
LAST = "\n ]}}\n"
"""Around the records in the text of a plan, which has a line for each of them."""


def _read_by_line(text: str, source: str) -> Plan | None:
    """The plan of *text* as `rendered` yields it; None where it is not, or not a valid plan.

    Of a plan of 200,000 partitions the whole as dictionaries would take gigabytes. What is wrong
    with a text is found by `_read_whole`.
    """
    begin = text.find(RECORDS)
    if begin < 0 or not text.endswith(LAST):
        return None
    try:
        document = load_json(f"{text[:begin]}{RECORDS}]}}}}")
        section = document.get("breakglass") if isinstance(document, dict) else None
        if not isinstance(section, dict) or section.get("records") != []:
            return None
        plan = _plan(document, source)
        records = tuple(_records(text, begin + len(RECORDS), len(text) - len(LAST), source))
    except (json.JSONDecodeError, UnreadableJson):
        return None
    plan = plan.with_evidence(records=records)
    _refuse_contradictions(plan, source)
    return plan


def _records(text: str, start: int, end: int, source: str) -> Iterator[PartitionRecord]:
    """The records that stand in ``text[start:end]``, each in a line.

    Raises: JSONDecodeError, UnreadableJson, MalformedInput.
    """
    number = 0
    while start < end:
        stop = text.find(BETWEEN, start + 1, end)
        line = text[start : end if stop < 0 else stop]
        load_json(line)  # Of two values of one key, which it refuses, pydantic takes the last.
        try:
            yield PartitionRecord.model_validate_json(line, strict=True)
        except ValidationError as error:
            raise _invalid(error, source, "records", number) from error
        start = end if stop < 0 else stop + 1
        number += 1


BETWEEN = ",\n  "


def write_plan(plan: Plan, path: Path, *, replace: bool = False) -> str:
    """Write *plan*, with its digest, to a new file; with *replace* over the old one, at once.

    Returns the `fingerprint` of the file's text.

    Raises:
        UsageError: the file exists already; it is left as it is.
        StorageError: it cannot be written.
    """
    try:
        return _write_over(plan, path) if replace else _write_new(plan, path)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already and is kept: name another file.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that can."
        ) from error


def rendered(plan: Plan) -> Iterator[str]:
    """The pieces of *plan* as JSON, one line for each election and one for each record.

    A large plan is never in memory as a whole text.
    """
    yield '{"partitions": '
    yield from _lines(entry.model_dump(by_alias=True) for entry in plan.entries)
    evidence = plan.breakglass
    if evidence is None:
        yield "}\n"
        return
    head = evidence.model_copy(update={"digest": plan.digest, "seal": plan.seal, "records": ()})
    fields = head.model_dump(mode="json", by_alias=True, exclude={"records"})
    yield ',\n"breakglass": {'
    yield from (f"\n {json.dumps(key)}: {json.dumps(value)}," for key, value in fields.items())
    yield '\n "records": '
    yield from _lines(record.model_dump(mode="json") for record in evidence.records)
    yield "}}\n"


def _lines(values: Iterable[dict[str, object]]) -> Iterator[str]:
    before = "[\n  "
    for value in values:
        yield before + json.dumps(value)
        before = BETWEEN
    yield "[]" if before != BETWEEN else "\n ]"


def fingerprint(text: Iterable[str]) -> str:
    """The digest of a text in pieces, which says whether a file was changed."""
    found = hashlib.sha256()
    for piece in text:
        found.update(piece.encode())
    return found.hexdigest()


def _write_new(plan: Plan, path: Path) -> str:
    with open(path, "xb", opener=open_new) as file:
        written = _write(plan, file)
        file.flush()
        os.fsync(file.fileno())
    return written


def _write_over(plan: Plan, path: Path) -> str:
    mode = path.stat().st_mode if path.exists() else file_mode()
    with replacing(path, stat.S_IMODE(mode)) as file:
        return _write(plan, file)


def _write(plan: Plan, file: BinaryIO) -> str:
    found = hashlib.sha256()
    for piece in rendered(plan):
        encoded = piece.encode()
        found.update(encoded)
        file.write(encoded)
    return found.hexdigest()


def _entry(number: int, election: Election, source: str) -> PlanEntry:
    partition, leader = election.partition, election.designated
    if leader is None:
        raise MalformedInput(
            f'{source}, entry {number} ({partition}): it has no "designatedLeader": name the '
            "broker to elect or drop the entry."
        )
    return PlanEntry(topic=partition.topic, number=partition.partition, leader=leader)


def _evidence(section: object, source: str) -> PlanEvidence:
    schema = section.get("schema") if isinstance(section, dict) else None
    if isinstance(schema, bool) or not isinstance(schema, int):
        raise MalformedInput(
            f'{source}: "breakglass" has no schema version: take the file as it was written, or '
            "drop that key to use it as a bare plan."
        )
    if schema > SCHEMA or schema < 1:
        raise UnsupportedSchema(
            f"{source} has plan schema {schema} and this release reads {SCHEMA}: use the release "
            "that wrote it, or make the plan again."
        )
    try:
        return PlanEvidence.model_validate_json(json.dumps(section), strict=True)
    except ValidationError as error:
        raise _invalid(error, source) from error


def _invalid(error: ValidationError, source: str, *within: int | str) -> MalformedInput:
    """What is wrong with the part that stands *within* the evidence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = "".join(
        (f"[{step}]" if isinstance(step, int) else f".{step}") for step in (*within, *first["loc"])
    )
    wrong = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    return MalformedInput(
        f"{source}: breakglass{where}: {wrong}: take the file as it was written, or drop that key "
        "to use it as a bare plan."
    )


def _refuse_contradictions(plan: Plan, source: str) -> None:
    """Refuse values that no reading of the plan could make right."""
    evidence = plan.breakglass
    if evidence is not None and len(plan.records) < len(evidence.records):
        raise MalformedInput(f"{source} records a partition twice: make the plan again.")
    for number, entry in enumerate(plan.entries, start=1):
        named = f"{source}, entry {number} ({entry.partition})"
        record = plan.records.get(entry.partition)
        if record is None:
            raise MalformedInput(
                f"{named}: the plan has no evidence for it: make the plan again with it, or drop "
                'the key "breakglass" to use the file as a bare plan.'
            )
        assignment = record.evidence.state.assignment
        if entry.leader not in assignment or record.evidence.replica(entry.leader) is None:
            brokers = ", ".join(map(str, assignment))
            raise MalformedInput(
                f"{named}: designatedLeader {entry.leader} is not in its assignment {brokers}: "
                "name one of those brokers."
            )
