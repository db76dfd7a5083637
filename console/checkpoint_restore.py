"""`breakglass checkpoint restore`: put topics and groups back as they were, under guard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.backup_run import Master
from console.checkpoint_options import CONTROL, ControlTopic, Id, Store, found_in, store_at
from console.consent import Consent, Phrases
from console.option_values import pairs_in
from console.options import AsJson, DryRun, connected_for_writing
from console.output import print_json, print_lines, say
from console.restoring import (
    Compared,
    Renamed,
    Replicas,
    Resume,
    carried_out,
    default_state,
    exit_code,
    print_restored,
)
from console.wiring import Connection
from services.checkpoint.option_text import new_names
from services.checkpoint.promise import level_of, promise
from services.checkpoint.restore_notes import settings_given, settings_told, told_of

if TYPE_CHECKING:
    from services.checkpoint.spark.restoring import CheckpointPlan
    from services.kafka.read_client import ReadClient
    from services.pipeline.restore.restore import TopicRestored

DOING = "restoring a checkpoint"
ASK_SECONDS = 60.0


@connected_for_writing
def restore_checkpoint(
    connection: Connection,
    id: Id,
    store: Store,
    renamed: Renamed = None,
    suffix: Annotated[
        str, typer.Option(metavar="TEXT", help="Behind the names of those that --map leaves out.")
    ] = "",
    replication_factor: Replicas = None,
    resume: Resume = False,
    check: Compared = True,
    dry_run: DryRun = False,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep how far it is.")
    ] = None,
    control_topic: ControlTopic = CONTROL,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Restore a completed checkpoint into new or empty topics, all partitions of one id.

    Records as far as the cut come first, behind them what was in transit. Groups get their
    offsets, mapped to the new ones; their members must not run. Participants that are started
    afterwards go on as if nothing had been. A restore that was killed goes on with --resume; or
    delete the topics and begin anew.
    """
    from console.stop_signal import StopSignal
    from services.extras import need

    need("pipeline")
    from services.checkpoint.spark.restoring import (
        CheckpointRestoreOptions,
        make_plan,
        target_names,
    )
    from services.kafka.wire.deadline import Deadline

    opened = store_at(store)
    found = found_in(opened, id)
    mapped = pairs_in(renamed, "--map", form="OLD=NEW")
    options = CheckpointRestoreOptions(new_names(found, mapped, suffix), resume)
    target_names(found, options)
    with StopSignal(), connection.reading() as client:
        cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
        plan = make_plan(client, opened, id, options, state or default_state(cluster_id))
        if dry_run:
            document = {"phrase": plan.phrase, **_head(plan), "plan": plan.plan.document()}
            print_json({"schema": 1, **document, "settings": settings_given(plan)})
            return
        _say_plan(plan)
        connection.require_write(DOING)
        Consent(tuple(consent or ())).require([plan.phrase])
        given = settings_given(plan)
        done = _restore(connection, client, plan, control_topic, master, replication_factor, check)
    whole = all(one.whole for one in done)
    if as_json:
        told = {"whole": whole, "topics": done, "settings": given}
        print_json({"schema": 1, **_head(plan), **told})
    else:
        _print(plan, done)
    raise typer.Exit(exit_code(done))


def _head(plan: CheckpointPlan) -> dict[str, object]:
    """What is restored, and what may be relied on after that."""
    found = plan.found
    level = None if found.take is None else found.take.level
    return {"id": found.id, "level": level, "state": found.status, "promise": promise(found)}


def _say_plan(plan: CheckpointPlan) -> None:
    say(promise(plan.found))
    for one in plan.plan.topics:
        what = "into the topic that is there" if one.exists else "into a new topic"
        say(f"{one.topic} -> {one.target}  {one.records:,} records {what}")
    groups = sorted(
        {name for one in plan.plan.topics for held in one.groups.values() for name in held}
    )
    for name in groups:
        say(f"group {name} gets its offsets")
    for given in settings_given(plan):
        for line in settings_told(given):
            say(line)


def _restore(
    connection: Connection,
    client: ReadClient,
    plan: CheckpointPlan,
    control_topic: str,
    master: str,
    replication_factor: int | None,
    check: bool,
) -> list[TopicRestored]:
    from console.backup_progress import progress
    from services.checkpoint.spark.restore import restore
    from services.guard.journal import Journal
    from services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from services.pipeline.restore.restore import RestoreRun
    from services.pipeline.session import Spark
    from services.topic_backup.store.store import open_store

    access = connection.access()
    power, cluster_id = connection.power(DOING), plan.plan.cluster_id
    place = open_store(plan.copies[0].store.address)
    with (
        Journal.open(cluster_id) as journal,
        power.topics(cluster_id) as topics,
        power.markers(cluster_id) as markers,
        progress(as_json=False) as tell,
        Spark(master) as spark,
    ):
        spark.begin()
        run = BackupRun(client, spark, access, BackupSettings(place), Meter(tell))
        work = RestoreRun(
            run=run,
            topics=topics,
            journal=journal,
            cluster_id=cluster_id,
            verify=check,
            replication_factor=replication_factor or -1,
        )
        return carried_out(
            journal, plan.phrase, lambda: restore(work, markers, plan, control_topic)
        )


def _print(plan: CheckpointPlan, done: list[TopicRestored]) -> None:
    found = plan.found
    print_lines([f"checkpoint {found.id}  {level_of(found)}  {found.status}", promise(found)])
    print_restored(done)
    for one in done:
        for line in told_of(one):
            say(line)
    if all(one.whole for one in done):
        say("Restored as a whole: members of the groups may be started.")
    else:
        say("Not restored as a whole: start no members; do what is said, go on with --resume.")
