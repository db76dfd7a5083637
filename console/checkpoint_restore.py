"""`breakglass checkpoint restore`: put topics and groups back as they were, under guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    Id,
    Store,
    found_in,
    store_at,
)
from breakglass.console.option_values import Consent, pairs_in
from breakglass.console.options import (
    AsJson,
    DryRun,
    Master,
    Phrases,
    Progress,
    connected_for_writing,
)
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
from breakglass.services.checkpoint.wording import (
    RestoreAsked,
    level_of,
    promise,
    settings_given,
    settings_told,
)
from breakglass.services.extras import need

if TYPE_CHECKING:
    from breakglass.services.checkpoint.spark.restore import CheckpointPlan


@connected_for_writing
def restore_checkpoint(
    connection: Connection,
    id: Id,
    store: Store,
    renamed: Renamed = None,
    suffix: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Suffix for the names of topics that --map does not name."
        ),
    ] = "",
    to_bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--to-bootstrap-server",
            metavar="HOST:PORT,...",
            help="Brokers of another cluster, into which the checkpoint is restored.",
        ),
    ] = None,
    to_command_config: Annotated[
        str | None,
        typer.Option(
            "--to-command-config",
            metavar="FILE",
            help="Client properties for that cluster; no others are used there.",
        ),
    ] = None,
    replication_factor: Replicas = None,
    resume: Resume = False,
    check: Compared = True,
    dry_run: DryRun = False,
    progress: Progress = None,
    control_topic: ControlTopic = CONTROL,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Restore all partitions of one completed checkpoint into new or empty topics.

    Records up to the cut are restored first, then the records that were in transit. Groups get
    their offsets, mapped to the new offsets; their members must not run. Participants that start
    afterwards continue from the cut. An interrupted restore resumes with --resume; or delete the
    topics and start again.

    With --to-bootstrap-server, the checkpoint is restored into another cluster. The command does
    not contact the checkpoint's own cluster, which may be gone. The consent then names the other
    cluster by its id.
    """
    need("pipeline")
    from breakglass.services.checkpoint.acts.restore import RestoreCheckpoint, how_it_ended
    from breakglass.services.checkpoint.spark.restore import target_names
    from breakglass.services.pipeline.restore.options import RestoreSettings

    opened = store_at(store)
    found = found_in(opened, id)
    asked = restore_asked(renamed, suffix, resume, control_topic)
    target_names(found, asked)
    how = RestoreSettings(master=master, verify=check, replication_factor=replication_factor or -1)
    elsewhere = to_bootstrap_server is not None or to_command_config is not None
    if elsewhere:
        connection = connection.to(to_bootstrap_server, to_command_config)
    act = RestoreCheckpoint(opened, id, asked, how, progress, elsewhere)
    with restoring(act, Consent(tuple(consent or ())), connection) as command:
        frozen = command.freeze()
        plan: CheckpointPlan = frozen.plan
        if dry_run:
            phrase = frozen.asked[0].phrase
            document = {"phrase": phrase, **_head(plan), "plan": plan.plan.document()}
            print_json({"schema": 1, **document, "settings": settings_given(plan)})
            return
        if elsewhere:
            say(f"into cluster {dict(frozen.facts)['Cluster']}")
        _say_plan(plan)
        done = command.carry_out(frozen, write=connection.write).value
    if as_json:
        whole = all(topic.whole for topic in done)
        told = {"whole": whole, "topics": done, "settings": settings_given(plan)}
        print_json({"schema": 1, **_head(plan), **told})
    else:
        found = plan.found
        print_lines([f"checkpoint {found.id}  {level_of(found)}  {found.status}", promise(found)])
    print_restored(done, table=not as_json)
    say(how_it_ended(done, plan.earlier))
    raise typer.Exit(exit_code(done))


def restore_asked(
    renamed: Sequence[str] | None, suffix: str, resume: bool, control_topic: str
) -> RestoreAsked:
    """What these options ask for, given to the command or typed on a screen.

    Raises UsageError: a text cannot be read.
    """
    return RestoreAsked(pairs_in(renamed, "--map", form="OLD=NEW"), suffix, resume, control_topic)


def _head(plan: CheckpointPlan) -> dict[str, object]:
    """What is restored, and what may be relied on after that."""
    found = plan.found
    clusters = {
        "cluster_id": plan.plan.cluster_id,
        "taken_of": None if found.take is None else found.take.cluster_id,
    }
    told = {"id": found.id, "level": found.level, "state": found.status, "promise": promise(found)}
    return {**told, **clusters}


def _say_plan(plan: CheckpointPlan) -> None:
    say(promise(plan.found))
    for topic in plan.plan.topics:
        what = "into the topic that is there" if topic.exists else "into a new topic"
        say(f"{topic.topic} -> {topic.target}  {topic.records:,} records {what}")
    groups = sorted(
        {name for topic in plan.plan.topics for held in topic.groups.values() for name in held}
    )
    for name in groups:
        say(f"group {name} gets its offsets")
    for given in settings_given(plan):
        for line in settings_told(given):
            say(line)
