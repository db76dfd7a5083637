"""`breakglass backup verify`: files and hashes, and every record against a topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.exits import StopSignal
from breakglass.console.option_values import store_of
from breakglass.console.options import (
    AsJson,
    BackupStore,
    KeyFrom,
    Master,
    Progress,
    TopicNames,
    connected,
)
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import BreakglassError, StorageError, UsageError

if TYPE_CHECKING:
    from breakglass.services.pipeline.verify import ContentVerified
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.verification import FilesVerified


@connected
def verify(
    connection: Connection,
    store: BackupStore,
    topics: TopicNames = (),
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TOPIC", help="Compare the records with this topic."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Compare the backup with the topics of the cluster."),
    ] = False,
    key: KeyFrom = None,
    progress: Progress = None,
    master: Master = "local[*,4]",
    as_json: AsJson = False,
) -> None:
    """Check the files of a backup, and with --against or --live its records.

    Files are compared with their hashes, without a broker. With --against or --live, every record
    is compared with the topic by its offset. A record that does not match is missing from the
    backup, extra in the backup, or different. Records that the topic's retention has removed are
    counted separately. A topic that was restored from this backup is compared by the offsets in the
    restore's progress. Exits with 1 if anything differs, except for records that retention has
    removed.
    """
    from breakglass.services.topic_backup.catalog import held_topics, newest
    from breakglass.services.topic_backup.verification import verify_files

    held = held_topics(store_of(store, key), topics)
    files = [(topic, verify_files(topic.folder)) for topic in held]
    pairs = _pairs(newest(held), against, live=live)
    content, failed = _content(connection, master, pairs, progress) if pairs else ({}, {})
    _keep(files, content)
    if as_json:
        print_json(
            {
                "schema": 1,
                "topics": [
                    {
                        "topic": held.topic,
                        "generation": held.generation,
                        "files": found,
                        "content": content.get(held),
                        "identical": content[held].identical if held in content else None,
                        "not_compared": failed.get(held),
                    }
                    for held, found in files
                ],
            }
        )
    else:
        _print(files, content)
    for topic, why in failed.items():
        say(f"{topic.name}  not compared: {why}")
    whole = not failed and all(found.whole for _, found in files)
    raise typer.Exit(0 if whole and all(compared.identical for compared in content.values()) else 1)


def _pairs(
    held: Sequence[HeldTopic], against: str | None, *, live: bool
) -> list[tuple[HeldTopic, str]]:
    if against is not None:
        if len(held) != 1 or live:
            raise UsageError("--against compares one topic: name it with --topics, or use --live.")
        return [(held[0], against)]
    return [(topic, topic.topic) for topic in held] if live else []


def _content(
    connection: Connection,
    master: str,
    pairs: Sequence[tuple[HeldTopic, str]],
    restored: Path | None,
) -> tuple[dict[HeldTopic, ContentVerified], dict[HeldTopic, str]]:
    """The comparisons, and why topics could not be compared; a single one that cannot raises."""
    from breakglass.console.restoring import default_progress, progress
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.restore.proof import verify_against
    from breakglass.services.pipeline.session import Spark

    found: dict[HeldTopic, ContentVerified] = {}
    failed: dict[HeldTopic, str] = {}
    with StopSignal(), Spark(master) as spark, connection.reading() as client:
        spark.begin()
        access = connection.access()
        cluster_id = client.describe(deadline_after(patience.JOB)).cluster_id
        for held, topic in pairs:
            with progress() as (tell, _):
                settings = BackupSettings(held.store)
                run = BackupRun(client, spark, access, settings, Meter(tell))
                root = restored or default_progress(cluster_id)
                try:
                    found[held] = verify_against(run, held, topic, root)
                except BreakglassError as error:
                    # The other topics are compared all the same.
                    if len(pairs) == 1:
                        raise
                    failed[held] = str(error)
    return found, failed


def _keep(
    files: Sequence[tuple[HeldTopic, FilesVerified]], content: dict[HeldTopic, ContentVerified]
) -> None:
    """Note each verification beside the backup, where it can be written."""
    from breakglass.services.topic_backup.manifest import read_manifest
    from breakglass.services.topic_backup.notes import note_verified

    for held, found in files:
        compared = content.get(held)
        manifest = read_manifest(held.folder)
        if manifest is None:
            continue
        how, against = ("content", compared.against) if compared else ("files", None)
        whole = found.as_committed and (compared is None or compared.identical)
        try:
            note_verified(held.folder, manifest.commit, how, against, whole=whole)
        except StorageError as error:
            say(f"the verification is not noted: {error}")


def _print(
    files: Sequence[tuple[HeldTopic, FilesVerified]], content: dict[HeldTopic, ContentVerified]
) -> None:
    rows: list[tuple[object, ...]] = []
    for held, found in files:
        verdict = "whole" if found.manifest else "readable"
        if not found.whole:
            lacks = "salvaged" if found.salvaged else "lacks groups"
            verdict = lacks if found.as_committed and found.manifest else "damaged"
        counts = (f"{found.segments:,}", f"{found.records:,}", f"{found.bytes:,}")
        rows.append((held.name, *counts, verdict))
    print_table(FILES, rows)
    for _, found in files:
        for damage in found.damages:
            say(f"{damage.file}: {damage.reason}")
        for doubt in found.unproved:
            say(f"{found.folder}  not proved: {doubt}")
        for left in found.uncommitted:
            say(left)
        for lack in (*found.groups_lacking, *found.groups_lost):
            say(f"{found.folder}  {lack}")
        if not found.manifest:
            say(f"{found.folder} has no manifest: its format was checked, there are no hashes")
    if content:
        rows = []
        for compared in content.values():
            for part in compared.partitions:
                kinds = (part.counts.get(kind, 0) for kind in ("missing", "extra", "different"))
                figures = (part.equal, *kinds, part.expired)
                name = f"{compared.against}-{part.partition}"
                rows.append((name, *(f"{figure:,}" for figure in figures)))
        print_table(CONTENT, rows)
    for compared in content.values():
        for what, count in compared.declared.items():
            say(f"{compared.against}  {count:,} records are not as they were: {what}")
        for part in compared.partitions:
            for kind, offsets in part.offsets.items():
                shown = ", ".join(map(str, offsets[:SHOWN_OFFSETS]))
                more = ", ..." if part.counts[kind] > SHOWN_OFFSETS else ""
                say(f"{compared.against}-{part.partition}  {kind} at {shown}{more}")


SHOWN_OFFSETS = 10
FILES = columns("Topic", ">Segments", ">Records", ">Bytes", "Files")
CONTENT = columns("Against", ">Equal", ">Missing", ">Extra", ">Different", ">Expired")
