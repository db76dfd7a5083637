"""`breakglass checkpoint explain`: who writes, which promise holds, what better ones lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from breakglass.console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    ExplainedTopics,
    External,
    Flows,
    Groups,
    found_in,
    store_at,
)
from breakglass.console.checkpoint_take import wanted_checkpoint
from breakglass.console.options import AsJson, connected
from breakglass.console.output import Column, print_json, print_lines, print_table
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.promises import CopySettings, Explanation
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.wording import PROMISES, explained, level_words, promise
from breakglass.services.checkpoint.wording import explain as explain_now
from breakglass.services.errors import UsageError


@connected
def explain(
    connection: Connection,
    id: Annotated[
        int | None, typer.Argument(min=1, metavar="ID", help="Id of a stored checkpoint.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="URL", help="A place of backups: a folder, or s3://BUCKET/PREFIX."
        ),
    ] = None,
    topics: ExplainedTopics = None,
    group: Groups = None,
    external: External = None,
    flow: Flows = None,
    hold_retention: Annotated[
        bool,
        typer.Option(
            "--hold-retention",
            help="Stop the topics' retention until a checkpoint is copied; needs --write.",
        ),
    ] = False,
    control_topic: ControlTopic = CONTROL,
    as_json: AsJson = False,
) -> None:
    """Explain which promise a checkpoint can keep, and what is missing for a better one.

    For each topic, the last part of its logs shows who writes it: applications that use the
    participant, transactions, idempotent producers, or unknown writers. For each group on the
    topics, the command shows how the group commits. Nothing is written and nothing is copied. With
    ID and --store, the command explains a stored checkpoint from what was read when the checkpoint
    was taken; no broker is asked.
    """
    if id is not None:
        if store is None or topics:
            raise UsageError("Give --store with the ID of a checkpoint, and no --topics.")
        _explain_stored(store, id, as_json=as_json)
        return
    if store is not None or not topics:
        raise UsageError("Give --topics A,B, or the ID of a checkpoint with --store.")
    how = CopySettings(control_topic=control_topic)
    wanted = wanted_checkpoint(topics, group, None, external, flow, how, hold_retention)
    with connection.reading() as client:
        found = explain_now(client, wanted)
    if as_json:
        print_json({"schema": 1, **explanation_document(found)})
        return
    level = found.strongest
    if level is None:
        print_lines(["no promise holds: --level vector takes the checkpoint without a promise"])
    else:
        print_lines([f"strongest promise that holds: {PROMISES[level]}"])
    _print(found)


def _explain_stored(store: str, id: int, *, as_json: bool) -> None:
    stored = found_in(store_at(store), id)
    found, level = explained(stored), stored.level
    if as_json:
        told = {"id": id, "level": level, "state": stored.status, "promise": promise(stored)}
        empty = dict.fromkeys(("topics", "groups", "levels", "strongest", "flows"))
        why = empty if found is None else explanation_document(found)
        print_json({"schema": 1, **told, **why})
        return
    print_lines([f"checkpoint {id}  {level or '?'}  {stored.status}", promise(stored)])
    if found is None:
        print_lines(["? who writes its topics: that was not read when it was taken"])
    else:
        _print(found, level)


def _print(found: Explanation, promised: Level | None = None) -> None:
    print_table(
        TOPICS,
        [
            (
                row["topic"],
                f"{row['partitions']:,}",
                ", ".join(row["writers"]) or "?",
                f"{row['records_looked_at']:,}",
                ", ".join(word for word in ("external", "compacted") if row[word]),
            )
            for row in _topics(found)
        ],
    )
    if found.evidence.groups:
        print_table(
            GROUPS,
            [
                (
                    row["group"],
                    row["policy"] or "not named",
                    row["kind"],
                    row["state"],
                    ", ".join(row["reads"]),
                    row["commits"],
                )
                for row in _groups(found)
            ],
        )
    print_lines(level_words(found, promised))
    if promised is None and found.flows and not found.wanted.flows:
        print_lines(f"flow to confirm: --flow '{flow}'" for flow in found.flows)


def explanation_document(found: Explanation) -> dict[str, Any]:
    """An explanation as --json has it."""
    return {
        "strongest": found.strongest,
        "topics": list(_topics(found)),
        "groups": list(_groups(found)),
        "levels": [
            {"level": outlook.level, "possible": outlook.holds, "missing": list(outlook.missing)}
            for outlook in found.levels
        ],
        "flows": list(found.flows),
        "flows_confirmed": bool(found.wanted.flows),
    }


def _topics(found: Explanation) -> Iterator[Mapping[str, Any]]:
    for topic in found.evidence.topics:
        yield {
            "topic": topic.topic,
            "partitions": topic.partitions,
            "writers": list(topic.writers),
            "records_looked_at": topic.records,
            "external": topic.topic in found.wanted.external,
            "compacted": topic.compacted,
        }


def _groups(found: Explanation) -> Iterator[Mapping[str, Any]]:
    for group in found.evidence.groups:
        yield {
            "group": group.name,
            "kind": group.kind,
            "state": group.state,
            "reads": list(group.reads),
            "writes": list(group.writes),
            "commits": group.commits,
            "policy": found.wanted.groups.get(group.name),
        }


TOPICS = (
    Column("Topic"),
    Column("Partitions", right=True),
    Column("Written by"),
    Column("Looked at", right=True),
    Column("Declared"),
)
GROUPS = (
    Column("Group"),
    Column("Policy"),
    Column("Kind"),
    Column("State"),
    Column("Reads"),
    Column("Commits"),
)
