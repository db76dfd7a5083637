"""`breakglass backup verify`: files and hashes, and every record against a topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.backup_place import EncryptKey, OnlyTopics, Source, place
from breakglass.console.backup_run import Master
from breakglass.console.option_values import names_in
from breakglass.console.options import AsJson, connected
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.pipeline.verify import ContentVerified
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.verification import FilesVerified


@connected
def verify(
    connection: Connection,
    source: Source,
    topics: OnlyTopics = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TOPIC", help="Compare every record with this topic."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Compare each topic with the one of its own name.")
    ] = False,
    encrypt_key: EncryptKey = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where a restore into that topic keeps its offsets (--state)."
        ),
    ] = None,
    master: Master = "local[*,4]",
    as_json: AsJson = False,
) -> None:
    """Check a backup: its files against their hashes, then its records against a topic.

    Files are checked without a broker. With --against or --live every record is compared with
    the topic's, by offset: missing from it, extra in it, or different. What its retention has
    removed since is counted apart. A topic that was restored from this backup is compared by the
    offsets that the restore noted; what no restore can keep is declared. Ends with 1 when
    anything else differs.
    """
    from breakglass.services.topic_backup.catalog import held_topics, newest
    from breakglass.services.topic_backup.verification import verify_files

    named = names_in(topics)
    held = held_topics(place(source, encrypt_key), named)
    files = [(one, verify_files(one.folder)) for one in held]
    pairs = _pairs(newest(held), against, live=live)
    content = _content(connection, master, pairs, state) if pairs else {}
    _keep(files, content)
    if as_json:
        print_json(_document(files, content))
    else:
        _print(files, content)
    whole = all(found.whole for _, found in files)
    raise typer.Exit(0 if whole and all(one.identical for one in content.values()) else 1)


def _pairs(
    held: Sequence[HeldTopic], against: str | None, *, live: bool
) -> list[tuple[HeldTopic, str]]:
    """What is compared with which topic."""
    from breakglass.services.errors import UsageError

    if against is not None:
        if len(held) != 1 or live:
            raise UsageError("--against compares one topic: name it with --topics, or use --live.")
        return [(held[0], against)]
    return [(one, one.topic) for one in held] if live else []


def _content(
    connection: Connection,
    master: str,
    pairs: Sequence[tuple[HeldTopic, str]],
    state: Path | None,
) -> dict[HeldTopic, ContentVerified]:
    from breakglass.console.backup_progress import progress
    from breakglass.console.restoring import default_state
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.restore.proof import verify_against
    from breakglass.services.pipeline.session import Spark

    found = {}
    with StopSignal(), Spark(master) as spark, connection.reading() as client:
        spark.begin()
        access = connection.access()
        cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
        for held, topic in pairs:
            with progress(as_json=False) as tell:
                settings = BackupSettings(held.store)
                run = BackupRun(client, spark, access, settings, Meter(tell))
                root = state or default_state(cluster_id)
                found[held] = verify_against(run, held, topic, root)
    return found


def _keep(
    files: Sequence[tuple[HeldTopic, FilesVerified]], content: dict[HeldTopic, ContentVerified]
) -> None:
    """Note each verification beside the backup, where it can be written."""
    from breakglass.services.errors import StorageError
    from breakglass.services.topic_backup import verified
    from breakglass.services.topic_backup.manifest import read_manifest

    for held, found in files:
        compared = content.get(held)
        manifest = read_manifest(held.folder)
        if manifest is None:
            continue
        how, against = ("content", compared.against) if compared else ("files", None)
        whole = found.whole and (compared is None or compared.identical)
        try:
            verified.note(held.folder, manifest.commit, how, against, whole=whole)
        except StorageError as error:
            say(f"the verification is not noted: {error}")


def _document(
    files: Sequence[tuple[HeldTopic, FilesVerified]], content: dict[HeldTopic, ContentVerified]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "topics": [
            {
                "topic": held.topic,
                "generation": held.generation,
                "files": found,
                "content": content.get(held),
                "identical": content[held].identical if held in content else None,
            }
            for held, found in files
        ],
    }


def _print(
    files: Sequence[tuple[HeldTopic, FilesVerified]], content: dict[HeldTopic, ContentVerified]
) -> None:
    print_table(FILES, (_files_row(held, found) for held, found in files))
    for _, found in files:
        for damage in found.damages:
            say(f"{damage.file}: {damage.reason}")
        if not found.manifest:
            say(f"{found.folder} has no manifest: its format was checked, there are no hashes")
    if content:
        print_table(CONTENT, (row for one in content.values() for row in _content_rows(one)))
    for one in content.values():
        for what, count in one.declared.items():
            say(f"{one.against}  {count:,} records are not as they were: {what}")
        for part in one.partitions:
            for kind, offsets in part.offsets.items():
                shown = ", ".join(map(str, offsets[:SHOWN_OFFSETS]))
                more = ", ..." if part.counts[kind] > SHOWN_OFFSETS else ""
                say(f"{one.against}-{part.partition}  {kind} at {shown}{more}")


def _files_row(held: HeldTopic, found: FilesVerified) -> tuple[object, ...]:
    verdict = "damaged" if not found.whole else "whole" if found.manifest else "readable"
    counts = (f"{found.segments:,}", f"{found.records:,}", f"{found.bytes:,}")
    return (held.name, *counts, verdict)


def _content_rows(one: ContentVerified) -> Iterator[tuple[object, ...]]:
    for part in one.partitions:
        kinds = (f"{part.counts.get(kind, 0):,}" for kind in ("missing", "extra", "different"))
        name = f"{one.against}-{part.partition}"
        yield (name, f"{part.equal:,}", *kinds, f"{part.expired:,}")


SHOWN_OFFSETS = 10
ASK_SECONDS = 60.0
FILES = (
    Column("Topic"),
    Column("Segments", right=True),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Files"),
)
CONTENT = (
    Column("Against"),
    Column("Equal", right=True),
    Column("Missing", right=True),
    Column("Extra", right=True),
    Column("Different", right=True),
    Column("Expired", right=True),
)
