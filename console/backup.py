"""The command `breakglass backup`: make topic backups, look into them, prune them, repair them.

`breakglass backup restore`: put topics back from a backup, under guard.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_run import run
from breakglass.console.backup_status import status
from breakglass.console.backup_verify import verify
from breakglass.console.commands import new_app
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import key_of, moment_ms, names_in, pairs_in, store_of
from breakglass.console.options import (
    PLACE,
    AsJson,
    BackupStore,
    DryRun,
    GivenConsent,
    KeyFrom,
    Master,
    OldDelete,
    OlderThan,
    Progress,
    TopicNames,
    Write,
    connected_for_writing,
    size,
    with_groups,
)
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.restoring import (
    Compared,
    Renamed,
    Replicas,
    Resume,
    default_progress,
    exit_code,
    print_restored,
    restoring,
    say_doubts,
)
from breakglass.console.stores import ConnectorFile, connector, place_named
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import ReadOnly, Refused, UsageError
from breakglass.services.extras import need
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES, BytesAs, as_json, is_text
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.pipeline.acts.files import Segments
    from breakglass.services.pipeline.restore.options import RestoreOptions, RestorePlan
    from breakglass.services.topic_backup.mending import MendedPartition
    from breakglass.services.topic_backup.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """The options of one restore."""

    store: Annotated[
        str | None,
        typer.Option("--store", "--from", "--to", "--source-dir", metavar="URL", help=PLACE),
    ] = None
    connector_config: ConnectorFile = None
    topics: TopicNames
    tail_of: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN|DIR",
            help="Restore only what the elections of this plan cut off, after the present records; "
            "--store is the folder of a rescue or of a backup. Given a folder in place of a plan, "
            "restore what the present leaders lack of it.",
        ),
    ] = None
    renamed: Renamed = None
    partitions: Annotated[
        str | None, typer.Option("--partitions", metavar="0,2", help="Only these partitions.")
    ] = None
    generation: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Restore this generation of a topic that was deleted, cut or copied again since "
            "(default: the newest).",
        ),
    ] = None
    until_offset: Annotated[
        int | None, typer.Option(min=0, help="Leave out this offset and later ones.")
    ] = None
    until_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End each partition before its first later record (ISO 8601, or ms).",
        ),
    ] = None
    topic_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Topic setting (repeatable); KEY= leaves out a saved setting."
        ),
    ] = None
    replication_factor: Replicas = None
    groups: Annotated[
        bool | None,
        typer.Option(
            "--groups/--no-groups",
            help="Also restore the offsets of consumer groups (default with --connector-config).",
            show_default=False,
        ),
    ] = None
    groups_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="As --groups, with the offsets of that time (ISO 8601, or ms)."
        ),
    ] = None
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Add records to topics that have records.")
    ] = False
    compacted: Annotated[
        bool,
        typer.Option(
            "--compacted", help="Restore only the latest value of each key, as compacted."
        ),
    ] = False
    accept_gaps: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"TOPIC-N A..B"',
            help="Restore the rest of a backup that is damaged at these offsets; a refusal prints "
            "them (repeatable).",
        ),
    ] = None
    resume: Resume = False
    batch_records: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Records in one transaction.")
    ] = 20_000
    transactions: Annotated[
        bool, typer.Option(help="Write in transactions, so that a crash duplicates nothing.")
    ] = True
    check: Compared = True
    dry_run: DryRun = False
    progress: Progress = None
    key: KeyFrom = None
    master: Master = "local[*,4]"
    consent: GivenConsent
    as_json: AsJson = False

    def options(self, *, groups: bool) -> RestoreOptions:
        """What is restored of the backup, and how; *groups*: offsets of groups, too."""
        from breakglass.services.pipeline.restore.options import RestoreOptions

        return RestoreOptions(
            renamed=pairs_in(self.renamed, "--map"),
            partitions=frozenset(
                _number(name, "--partitions") for name in names_in(self.partitions)
            ),
            until_offset=self.until_offset,
            until_ms=moment_ms(self.until_time, "--until-time"),
            groups_at_ms=moment_ms(self.groups_at, "--groups-at"),
            settings=pairs_in(self.topic_config, "--topic-config", empty=True),
            accepted_gaps=tuple(self.accept_gaps or ()),
            groups=groups or self.groups_at is not None,
            into_existing=self.into_existing,
            compacted=self.compacted,
            resume=self.resume,
            generation=self.generation,
        )


@connected_for_writing
def restore(connection: Connection, wanted: RestoreRequest) -> None:
    """Restore topics: keys, values, headers, timestamps, order and partitions.

    Topics are created with their saved settings. Nothing in them expires until every record has
    been compared with the backup. Before anything is written, every byte of the backup is checked;
    offsets that the backup cannot give back must be named by --accept-gaps. An interrupted restore
    resumes with --resume, without duplicates. `after groups rollback` undoes what --groups did.

    --connector-config takes over a restore of Kafka Backup: its source.dir, topics and cluster.*
    are read, and each key without effect is named.
    """
    need("pipeline")
    from breakglass.services.pipeline.acts.restore import RestoreTopics
    from breakglass.services.pipeline.restore.groups import groups_to_reset
    from breakglass.services.pipeline.restore.options import RestoreSettings
    from breakglass.services.topic_backup.connector import ConnectorKind

    file, tail_of = wanted.connector_config, wanted.tail_of
    found, connection = connector(file, ConnectorKind.SOURCE, connection)
    topics, groups = wanted.topics or names_in(found.topics), wanted.groups
    if file is not None:
        if tail_of is not None:
            raise UsageError(
                "--tail-of puts back the records of a plan, which no connector does: leave "
                "--connector-config out and give --store."
            )
        if not topics:
            # A connector never restores all there are.
            raise UsageError(f"{file.name} has no topics: name them there or by --topics.")
        if groups is None:
            groups = True
            say(f"{file.name}: groups are restored, as Kafka Backup does: --no-groups.")
    options = wanted.options(groups=bool(groups))
    backup = store_of(place_named(wanted.store, found, "source.dir"), wanted.key)

    def find(client: ReadClient) -> RestorePlan:
        if tail_of is not None:
            return _tail_plan(client, backup, topics, tail_of, options, wanted.progress)
        return _plan(client, backup, topics, options, wanted.progress)

    how = RestoreSettings(
        master=wanted.master,
        records_a_transaction=wanted.batch_records,
        transactional=wanted.transactions,
        verify=wanted.check,
        replication_factor=wanted.replication_factor or -1,
    )
    act, job = RestoreTopics(backup, find, how), ("restore", backup.where())
    with restoring(act, wanted.consent, connection, job) as command:
        frozen = command.freeze()
        # Once: the second look before the first write reads no groups.
        with connection.access().reading() as client:
            notes = (*frozen.plan.notes, *groups_to_reset(client, frozen.plan))
        plan = replace(frozen.plan, notes=notes)
        if wanted.dry_run:
            print_json({"schema": 1, "phrase": plan.phrase, "plan": plan.document()})
            return
        _say_plan(plan, wanted)
        if tail_of is not None and not plan.records and not wanted.resume:
            say("Nothing is to be put back.")
            raise typer.Exit(1 if any(topic.elsewhere for topic in plan.topics) else 0)
        if frozen.remarks:
            raise Refused(frozen.remarks[0])
        done = command.carry_out(frozen, write=connection.write).value
    if wanted.as_json:
        print_json({"schema": 1, "topics": done})
    print_restored(done, table=not wanted.as_json)
    raise typer.Exit(exit_code(done))


def _plan(
    client: ReadClient,
    store: Store,
    topics: tuple[str, ...],
    options: RestoreOptions,
    progress: Path | None,
) -> RestorePlan:
    from breakglass.services.pipeline.restore.plan import make_plan
    from breakglass.services.topic_backup.catalog import held_topics

    held = held_topics(store, topics)
    cluster_id = client.describe(deadline_after(patience.JOB)).cluster_id
    return make_plan(client, held, options, progress or default_progress(cluster_id))


def _tail_plan(
    client: ReadClient,
    store: Store,
    topics: tuple[str, ...],
    plan: Path,
    options: RestoreOptions,
    progress: Path | None,
) -> RestorePlan:
    from breakglass.console.plan_edits import opened
    from breakglass.services.pipeline.restore.options import RestoreOptions
    from breakglass.services.pipeline.restore.tail_plan import (
        TailOptions,
        plan_of_leaders,
        tail_plan,
    )

    if options != RestoreOptions(partitions=options.partitions, resume=options.resume):
        raise UsageError(
            "--tail-of puts records back where they were: of the others it goes with --topics, "
            "--partitions and --resume."
        )
    kept = TailOptions(topics, frozenset(options.partitions), options.resume)
    cluster_id = client.describe(deadline_after(patience.JOB)).cluster_id
    root = progress or default_progress(cluster_id)
    of = plan_of_leaders(client, store) if plan.is_dir() else opened(plan).plan
    return tail_plan(client, of, store, kept, root)


def _number(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{option} {text!r} is no partition: write numbers with commas between.")
    return int(text)


def _say_plan(plan: RestorePlan, wanted: RestoreRequest) -> None:
    for note in plan.notes:
        say(note)
    for topic in plan.topics:
        what = "into the topic that is there" if topic.exists else "into a new topic"
        if not topic.exists and wanted.replication_factor is None:
            what = f"{what} with the brokers' default replication factor"
        say(
            f"{topic.topic} -> {topic.target}  {topic.records:,} records {what}, "
            f"from {topic.source}"
        )
        if topic.others:
            say(
                f"{topic.topic}  generation {topic.generation} is restored. Not restored, unless "
                f"--generation names it: {'; '.join(topic.others)}"
            )
        if topic.before_all:
            say(f"{topic.target}  {topic.before_all}")
        for left in topic.uncommitted:
            say(left)
        if topic.expired_at_once:
            say(
                f"{topic.target}  its settings let the broker remove about "
                f"{topic.expired_at_once:,} of them at once: --topic-config retention.ms=-1 "
                "--topic-config retention.bytes=-1 keeps them"
            )
        for gap in topic.gaps:
            say(f"{topic.target}  the backup cannot give back {gap}")
        if topic.more_partitions > 0:
            now = topic.partition_count + topic.more_partitions
            say(
                f"{topic.target}  has {now:,} partitions, {topic.partition_count:,} are restored: "
                "producers that choose a partition by the key put later records of many keys into "
                "another one than their restored records"
            )
        say_doubts(topic, topic.groups_lacking)
        if topic.compacted:
            say(
                f"{topic.target}  is compacted, and these records are added after newer ones: if a "
                "key was written again since the election, its older value replaces the newer one; "
                "restore into a topic of another name, without --tail-of, to choose by key"
            )
        for reason, count in topic.left_out.items():
            say(f"{topic.target}  {count:,} records are left out: {reason}")
        if topic.elsewhere:
            say(f"{topic.target}  to have those in another topic: {topic.elsewhere}")
        if topic.exists and not topic.empty:
            say(
                f"{topic.target}  while records are added nothing in it expires or is compacted, "
                "and all records keep their producers' times"
            )
    if not wanted.transactions:
        say(
            "without transactions: if this restore is killed and resumed, up to one batch of "
            "each partition may be there twice"
        )


def prune(
    store: BackupStore,
    *,
    topics: TopicNames,
    older_than: OlderThan = None,
    keep_bytes: Annotated[
        int | None,
        size(
            "--keep-bytes",
            example="10GB",
            help="Select the oldest segments of a partition that is larger than this.",
        ),
    ] = None,
    keep_segments: Annotated[
        int | None,
        typer.Option(min=1, help="Select the oldest segments of a partition that has more than N."),
    ] = None,
    before_offset: Annotated[
        int | None, typer.Option(min=0, help="Select segments in which every offset is lower.")
    ] = None,
    write: Write = False,
    delete: OldDelete = False,
    key: KeyFrom = None,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """List the segments of a backup that may be deleted; with --write, delete them.

    Only whole segments are deleted, the oldest first. The last segment of a partition always stays.
    Manifest and indexes are updated, so that the rest can be restored. In a folder that Kafka
    Backup wrote, records are read to find how old a segment is; stop its connector first.
    """
    from breakglass.services.pipeline.acts.files import PruneBackup
    from breakglass.services.topic_backup.prune import PruneLimits

    limits = PruneLimits(older_than, keep_bytes, before_offset, keep_segments)
    act = PruneBackup(store_of(store, key), topics, limits)
    command = GuardedCommand(act, consent)
    frozen = command.freeze()
    found = frozen.plan
    deleting = write or delete
    if deleting and frozen.asked:
        if not as_json:
            _print(found)
        if frozen.remarks:
            raise Refused(frozen.remarks[0])
        found = command.carry_out(frozen, write=write).value
    if as_json:
        print_json({"schema": 1, "deleted": deleting, "segments": found})
    elif deleting:
        say(f"{sum(map(len, found.values())):,} segments deleted")
    else:
        _print(found)
    if not any(found.values()):
        say(
            "No segment is selected: whole segments go alone, the last one of a partition always "
            "stays, and all others are within these limits."
        )


def _print(found: Segments) -> None:
    rows = [
        (
            topic,
            segment.partition,
            segment.prefix,
            "-"
            if segment.first_offset is None
            else f"{segment.first_offset:,}-{segment.last_offset:,}",
            f"{segment.records:,}",
            f"{segment.bytes:,}",
            time_text(segment.max_timestamp),
        )
        for topic, some in found.items()
        for segment in some
    ]
    if not rows:
        say("No segment may be deleted.")
        return
    print_table(COLUMNS, rows)
    say(f"{len(rows):,} segments may be deleted")


COLUMNS = columns("Topic", ">Partition", "Segment", "Offsets", ">Records", ">Bytes", "Newest")


MOST_SAID = 100

app = new_app("Back up topics in the Kafka Backup format; verify, restore and prune backups.")
app.command()(run)
app.command()(verify)
app.command()(restore)
app.command("list")(status)
app.command()(with_groups(prune))


@app.callback()
def backup() -> None:
    """Back up topics in the Kafka Backup format; verify, restore and prune backups."""


@app.command()
def cat(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL/TOPIC/PARTITION", help="Folder of the backup, topic and partition."
        ),
    ],
    start: Annotated[int, typer.Option("--from", min=0, help="First offset.")] = 0,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Offset to stop before.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    bytes_as: Annotated[
        BytesAs,
        typer.Option(
            "--bytes",
            help="How keys, values and headers are printed; utf8 prints other bytes as U+FFFD.",
        ),
    ] = BytesAs.UTF8,
    key: KeyFrom = None,
    max_record_bytes: Annotated[
        int | None,
        size(
            "--max-record-bytes",
            example="256MiB",
            help="Refuse records that claim to be larger.",
            least=1,
            shown="256MiB",
        ),
    ] = None,
) -> None:
    """Print the records of one partition of a backup, one JSON object for each record.

    Backups of Kafka Backup's own connectors can be read as well. Parts that do not belong to the
    backup, such as the torn end that a killed writer left, are skipped with a note on stderr. Where
    files are damaged, every record that can be proved is printed, and the command exits with 1.
    """
    from json import dumps

    from breakglass.services.topic_backup.address import partition_of

    reader = partition_of(source, max_record_bytes or MAX_RECORD_BYTES, key_of(key))
    indent = 2 if sys.stdout.isatty() and not json else None
    replaced = 0
    try:
        for record in reader.records(start, end):
            line = dumps(as_json(record, bytes_as), indent=indent)
            sys.stdout.write(line + "\n")
            if bytes_as is BytesAs.UTF8 and "\\ufffd" in line and not is_text(record):
                replaced += 1
    finally:
        if replaced:
            say(
                f"{replaced:,} records have bytes that are not UTF-8, printed as U+FFFD: "
                "--bytes base64 prints them"
            )
        for left_out in reader.left_out[:MOST_SAID]:
            say(str(left_out))
        if len(reader.left_out) > MOST_SAID:
            say(f"and {len(reader.left_out) - MOST_SAID:,} more places")
        for doubt in reader.unproved[:MOST_SAID]:
            say(f"not proved when this copy was made: {doubt}")
        if reader.salvaged and not reader.unproved:
            for stretch in reader.stretches[:MOST_SAID]:
                say(f"salvaged: {stretch}")
    if reader.salvaged or reader.damages:
        raise typer.Exit(1)


@app.command("repair")
@with_groups
def reindex(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL/TOPIC[/PARTITION]", help="Folder of the backup, topic, and partition."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--to",
            metavar="DIR",
            help="A new file or folder to write.",
        ),
    ] = None,
    write: Write = False,
    *,
    key: KeyFrom = None,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """Rebuild the indexes of a backup from its records, or write a repaired copy.

    Kafka Backup's own restore needs the indexes; Breakglass reads without them. With --write, the
    indexes are rebuilt in place: records are not changed, and a segment that is damaged before its
    end keeps its index. With --out, the command writes a new backup of the whole topic, with every
    record that can be proved from the segments and their indexes. Exits with 1 if anything is
    damaged.
    """
    from breakglass.services.pipeline.acts.files import RebuildIndexes
    from breakglass.services.topic_backup.address import mend_at
    from breakglass.services.topic_backup.group_history import outline

    if out is not None:
        mended = mend_at(source, out, key_of(key))
        _, lacking, lost = outline(mended.folder)
        _print_mended(mended.partitions, (*lacking, *lost), as_json=as_json)
        salvaged = any(partition.salvaged for partition in mended.partitions)
        raise typer.Exit(1 if salvaged or lacking or lost else 0)
    if not write:
        raise ReadOnly(
            "rebuilding indexes changes the backup: add --write, or --out DIR for a copy"
        )
    command = GuardedCommand(RebuildIndexes(source, key_of(key)), consent)
    rebuilt = command.carry_out(command.freeze(), write=write).value
    if as_json:
        print_json({"schema": 1, "segments": rebuilt})
    else:
        print_table(
            columns("Segment", ">Records", ">Left out", "Why"),
            [(one.prefix, one.entries, one.left_out, one.damage) for one in rebuilt],
        )
    if any(segment.damage and not segment.torn for segment in rebuilt):
        raise typer.Exit(1)


def _print_mended(
    mended: tuple[MendedPartition, ...], groups: tuple[str, ...], *, as_json: bool
) -> None:
    if as_json:
        print_json({"schema": 1, "partitions": mended, "groups_lacking": groups})
        return
    for lack in groups:
        say(lack)
    for partition in mended:
        print(f"partition {partition.partition}  {partition.records:,} records")
        for left_out in partition.left_out[:MOST_SAID]:
            say(str(left_out))
        for stretch in partition.stretches[:MOST_SAID] if partition.salvaged else ():
            say(f"partition {partition.partition}  {stretch}")
        for doubt in partition.unproved[:MOST_SAID]:
            say(f"partition {partition.partition}  stays marked as not proved: {doubt}")
