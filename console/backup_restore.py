"""`breakglass backup restore`: put topics back from a backup, under guard."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_place import EncryptKey, OnlyTopics, Source, place
from breakglass.console.backup_run import Master
from breakglass.console.consent import Consent, Phrases
from breakglass.console.option_values import moment_ms, names_in, pairs_in
from breakglass.console.options import AsJson, DryRun, connected_for_writing
from breakglass.console.output import print_json, say
from breakglass.console.restoring import (
    Compared,
    Renamed,
    Replicas,
    Resume,
    default_state,
    exit_code,
    print_restored,
    restoring,
)
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.pipeline.restore.options import RestoreOptions
    from breakglass.services.pipeline.restore.planned import RestorePlan
    from breakglass.services.pipeline.restore.restore import TopicRestored
    from breakglass.services.topic_backup.store.store import Store

ASK_SECONDS = 60.0
Pairs = list[str] | None


@connected_for_writing
def restore(
    connection: Connection,
    source: Source,
    topics: OnlyTopics = None,
    tail_of: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN",
            help="Only what the elections of this plan cut off, put behind what is there; --from "
            "is the folder of a rescue, or of a backup.",
        ),
    ] = None,
    renamed: Renamed = None,
    partitions: Annotated[
        str | None, typer.Option("--partitions", metavar="0,2", help="Only these partitions.")
    ] = None,
    until_offset: Annotated[
        int | None, typer.Option(min=0, help="Leave out records from this offset on.")
    ] = None,
    until_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End each partition before its first later record (ISO 8601 or ms).",
        ),
    ] = None,
    topic_config: Annotated[
        Pairs,
        typer.Option(
            metavar="KEY=VALUE",
            help="A topic setting (repeatable); KEY= leaves out one that was saved.",
        ),
    ] = None,
    replication_factor: Replicas = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Give consumer groups their offsets, too.")
    ] = False,
    groups_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Give them the offsets that they had then (ISO 8601 or ms); means --groups.",
        ),
    ] = None,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Add to topics that hold records.")
    ] = False,
    accept_gaps: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"TOPIC-N A..B"',
            help="Restore the rest though the backup is damaged at these offsets (repeatable), as "
            "the refusal names them.",
        ),
    ] = None,
    resume: Resume = False,
    batch_records: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Records of one transaction.")
    ] = 20_000,
    transactions: Annotated[
        bool,
        typer.Option(help="Write in transactions, so that a crash duplicates nothing."),
    ] = True,
    check: Compared = True,
    dry_run: DryRun = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for restore progress; Spark workers need it, too."
        ),
    ] = None,
    encrypt_key: EncryptKey = None,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Put topics back: keys, values, headers, timestamps, order and partitions as they were.

    Topics are created with their saved settings. While records are put back nothing expires;
    the saved settings come back once every record was compared with the backup. Every byte of the
    backup is checked before; offsets that it cannot give back have to be named. A restore that
    was killed resumes with --resume, each record once. `groups rollback` takes back what --groups
    did.
    """
    from breakglass.services.extras import need

    need("pipeline")
    options = _options(
        renamed,
        partitions,
        until_offset,
        until_time,
        topic_config,
        groups_at,
        accept_gaps,
        groups=groups or groups_at is not None,
        into_existing=into_existing,
        resume=resume,
    )
    from breakglass.services.pipeline.acts.restore import RestoreSettings, RestoreTopics

    store = place(source, encrypt_key)
    if tail_of is None:
        find = partial(_plan, store=store, topics=topics, options=options, state=state)
    else:
        find = partial(
            _tail_plan, store=store, topics=topics, plan=tail_of, options=options, state=state
        )
    how = RestoreSettings(
        master=master,
        records_a_transaction=batch_records,
        transactional=transactions,
        verify=check,
        replication_factor=replication_factor or -1,
    )
    act, job = RestoreTopics(store, find, how), ("restore", store.where())
    with restoring(act, Consent(tuple(consent or ())), connection, job) as command:
        frozen = command.freeze()
        plan = frozen.plan
        if dry_run:
            print_json({"schema": 1, "phrase": plan.phrase, "plan": plan.document()})
            return
        _say_plan(plan, transactional=transactions)
        if tail_of is not None and not plan.records and not resume:
            say("Nothing is to be put back.")
            raise typer.Exit(0)
        done = command.carry_out(frozen, write=connection.write).value
    if as_json:
        print_json({"schema": 1, "topics": done})
    else:
        _print(done)
    raise typer.Exit(exit_code(done))


def _plan(
    client: ReadClient,
    store: Store,
    topics: str | None,
    options: RestoreOptions,
    state: Path | None,
) -> RestorePlan:
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.pipeline.restore.plan import make_plan
    from breakglass.services.topic_backup.catalog import held_topics, newest

    held = held_topics(store, names_in(topics))
    cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
    return make_plan(client, newest(held), options, state or default_state(cluster_id))


def _tail_plan(
    client: ReadClient,
    store: Store,
    topics: str | None,
    plan: Path,
    options: RestoreOptions,
    state: Path | None,
) -> RestorePlan:
    from breakglass.console.plan_edits import opened
    from breakglass.services.errors import UsageError
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.pipeline.restore.options import RestoreOptions
    from breakglass.services.pipeline.restore.tail_plan import TailOptions, tail_plan

    if options != RestoreOptions(partitions=options.partitions, resume=options.resume):
        raise UsageError(
            "--tail-of puts records back where they were: of the others it goes with --topics, "
            "--partitions and --resume."
        )
    wanted = TailOptions(names_in(topics), frozenset(options.partitions), options.resume)
    cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
    root = state or default_state(cluster_id)
    return tail_plan(client, opened(plan).plan, store, wanted, root)


def _options(
    renamed: Pairs,
    partitions: str | None,
    until_offset: int | None,
    until_time: str | None,
    settings: Pairs,
    groups_at: str | None,
    accepted_gaps: list[str] | None,
    **flags: bool,
) -> RestoreOptions:
    from breakglass.services.pipeline.restore.options import RestoreOptions

    return RestoreOptions(
        renamed=pairs_in(renamed, "--map"),
        partitions=frozenset(_number(one, "--partitions") for one in names_in(partitions)),
        until_offset=until_offset,
        until_ms=moment_ms(until_time, "--until-time"),
        groups_at_ms=moment_ms(groups_at, "--groups-at"),
        settings=pairs_in(settings, "--topic-config", empty=True),
        accepted_gaps=tuple(accepted_gaps or ()),
        **flags,
    )


def _number(text: str, option: str) -> int:
    from breakglass.services.errors import UsageError

    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{option} {text!r} is no partition: write numbers with commas between.")
    return int(text)


def _say_plan(plan: RestorePlan, *, transactional: bool) -> None:
    for one in plan.topics:
        what = "into the topic that is there" if one.exists else "into a new topic"
        say(f"{one.topic} -> {one.target}  {one.records:,} records {what}, from {one.source}")
        if one.expired_at_once:
            say(
                f"{one.target}  its settings let the broker remove about {one.expired_at_once:,} "
                "of them at once: --topic-config retention.ms=-1 --topic-config "
                "retention.bytes=-1 keeps them"
            )
        for gap in one.gaps:
            say(f"{one.target}  the backup cannot give back {gap}")
        if one.salvaged:
            say(f"{one.target}  records were found again among damage of the backup")
        for reason, count in one.left_out.items():
            say(f"{one.target}  {count:,} records are left out: {reason}")
        if one.exists and not one.empty:
            say(
                f"{one.target}  while records are added nothing in it expires or is compacted, and "
                "all records keep their producers' times"
            )
    if not transactional:
        say(
            "without transactions: if this restore is killed and gone on with, up to one batch of "
            "each partition may be there twice"
        )


def _print(done: list[TopicRestored]) -> None:
    print_restored(done)
    for one in done:
        if one.error:
            say(f"{one.target}  not restored: {one.error}")
        for what, count in one.declared.items():
            say(f"{one.target}  {count:,} records are not as they were: {what}")
        for kind, count in one.differences.items():
            say(f"{one.target}  {count:,} records {kind}")
        if not one.settings_back:
            say(
                f"{one.target}  nothing in it expires yet: --resume goes on, --resume --no-verify "
                "gives it its own settings whatever is there"
            )
        for group, reason in one.groups_failed.items():
            say(f"{one.target}  group {group} was not moved: {reason}")
