"""`breakglass checkpoint restore`: put topics and groups back as they were, under guard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_run import Master
from breakglass.console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    Id,
    Store,
    found_in,
    store_at,
)
from breakglass.console.consent import Consent, Phrases
from breakglass.console.option_values import pairs_in
from breakglass.console.options import AsJson, DryRun, connected_for_writing
from breakglass.console.output import print_json, print_lines, say
from breakglass.console.restoring import (
    Compared,
    Renamed,
    Replicas,
    Resume,
    exit_code,
    print_restored,
    restoring,
)
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.option_text import RestoreAsked, new_names
from breakglass.services.checkpoint.promise import level_of, promise
from breakglass.services.checkpoint.restore_notes import settings_given, settings_told, told_of

if TYPE_CHECKING:
    from breakglass.services.checkpoint.spark.restoring import CheckpointPlan
    from breakglass.services.pipeline.restore.restore import TopicRestored


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
        Path | None, typer.Option(metavar="DIR", help="Directory for restore progress.")
    ] = None,
    control_topic: ControlTopic = CONTROL,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Restore a completed checkpoint into new or empty topics, all partitions of one id.

    Records as far as the cut come first, behind them what was in transit. Groups get their
    offsets, mapped to the new ones; their members must not run. Participants that are started
    afterwards go on as if nothing had been. A restore that was killed resumes with --resume; or
    delete the topics and start again.
    """
    from breakglass.services.extras import need

    need("pipeline")
    from breakglass.services.checkpoint.acts.restore import RestoreCheckpoint
    from breakglass.services.checkpoint.spark.restoring import (
        CheckpointRestoreOptions,
        target_names,
    )
    from breakglass.services.pipeline.acts.restore import RestoreSettings

    opened = store_at(store)
    found = found_in(opened, id)
    mapped = pairs_in(renamed, "--map", form="OLD=NEW")
    target_names(found, CheckpointRestoreOptions(new_names(found, mapped, suffix), resume))
    asked = RestoreAsked(mapped, suffix, resume, control_topic)
    how = RestoreSettings(master=master, verify=check, replication_factor=replication_factor or -1)
    act = RestoreCheckpoint(opened, id, asked, how, state)
    with restoring(act, Consent(tuple(consent or ())), connection) as command:
        frozen = command.freeze()
        plan: CheckpointPlan = frozen.plan
        if dry_run:
            document = {"phrase": plan.phrase, **_head(plan), "plan": plan.plan.document()}
            print_json({"schema": 1, **document, "settings": settings_given(plan)})
            return
        _say_plan(plan)
        done = command.carry_out(frozen, write=connection.write).value
    if as_json:
        whole = all(topic.whole for topic in done)
        told = {"whole": whole, "topics": done, "settings": settings_given(plan)}
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


def _print(plan: CheckpointPlan, done: list[TopicRestored]) -> None:
    found = plan.found
    print_lines([f"checkpoint {found.id}  {level_of(found)}  {found.status}", promise(found)])
    print_restored(done)
    for one in done:
        for line in told_of(one):
            say(line)
    if all(one.whole for one in done):
        say("Restored completely: members of the groups may be started.")
    else:
        say(
            "Not restored completely. Start no members; follow each topic's advice, then run the "
            "restore again with --resume."
        )
