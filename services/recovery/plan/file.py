"""Plans on disk: ours with the evidence, and bare ones in the form of KIP-1275."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pydantic import ValidationError

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.recovery.plan.document import SCHEMA, Plan, PlanEntry, PlanEvidence
from breakglass.services.recovery.plan.json_text import parse_json, read_text
from breakglass.services.recovery.plan.partition_file import Election, elections_of
from breakglass.services.rights import open_new


def read_plan(path: Path) -> Plan:
    """The plan in *path*: one of ours, or a bare file in Kafka's form.

    Raises:
        MalformedInput: no JSON (with line and column), or which entry is wrong and how.
        UnsupportedSchema: written by a later release.
        StorageError: the file cannot be read.
    """
    return parse_plan(read_text(path), str(path))


def parse_plan(text: str, source: str) -> Plan:
    """`read_plan` of *text*, which messages call *source*."""
    document = parse_json(text, source, bare_keys=True)
    elections = _elections(document, source)
    entries = tuple(_entry(number, one, source) for number, one in enumerate(elections, start=1))
    if not isinstance(document, dict) or document.get("breakglass") is None:
        return Plan(entries=entries)
    evidence = _evidence(document["breakglass"], source)
    plan = Plan(entries=entries, breakglass=evidence)
    _refuse_contradictions(plan, source)
    return plan


def write_plan(plan: Plan, path: Path, *, replace: bool = False) -> None:
    """Write *plan*, with its digest, to a new file; with *replace* over the old one, at once.

    Raises:
        UsageError: the file exists already; it is left as it is.
        StorageError: it cannot be written.
    """
    try:
        if replace:
            _write_over(render_plan(plan), path)
        else:
            _write_new(render_plan(plan), path)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already and is kept: name another file.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that can."
        ) from error


def render_plan(plan: Plan) -> str:
    """*plan* as text: JSON with one line for each election and one for each record."""
    elections = _lines([entry.model_dump(by_alias=True) for entry in plan.entries])
    if plan.breakglass is None:
        return f'{{"partitions": {elections}}}\n'
    evidence = plan.breakglass.model_copy(update={"digest": plan.digest})
    head = evidence.model_dump(mode="json", by_alias=True)
    records = _lines(head.pop("records"))
    fields = "".join(f"\n {json.dumps(key)}: {json.dumps(head[key])}," for key in head)
    return (
        f'{{"partitions": {elections},\n'
        f'"breakglass": {{{fields}\n "records": {records}}}}}\n'
    )  # fmt: skip


def _lines(values: list[dict[str, object]]) -> str:
    body = ",\n  ".join(json.dumps(value) for value in values)
    return f"[\n  {body}\n ]" if values else "[]"


def _write_new(text: str, path: Path) -> None:
    with open(path, "x", encoding="utf-8", opener=open_new) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write_over(text: str, path: Path) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _write_new(text, beside)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _elections(document: object, source: str) -> tuple[Election, ...]:
    """Those of *document*; a plan of ours may elect nobody, a bare one may not."""
    ours = isinstance(document, dict) and document.get("breakglass") is not None
    if ours and isinstance(document, dict) and document.get("partitions") == []:
        return ()
    return elections_of(document, source)


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
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = "".join(_step(step) for step in first["loc"])
        raise MalformedInput(
            f"{source}: breakglass{where}: {_lower(first['msg'])}: take the file as it was "
            "written, or drop that key to use it as a bare plan."
        ) from error


def _step(step: int | str) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _refuse_contradictions(plan: Plan, source: str) -> None:
    """What no reading of the plan could make right."""
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
            held = ", ".join(map(str, assignment))
            raise MalformedInput(
                f"{named}: designatedLeader {entry.leader} is not in its assignment {held}: "
                "name one of those brokers."
            )
