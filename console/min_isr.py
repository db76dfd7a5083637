"""`breakglass recover min-isr`: the controller forgets a last leader that is back EMPTY (R3)."""

from __future__ import annotations

import typer

from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import broker_ids, names_in
from breakglass.console.options import (
    DURATION_MS,
    AsJson,
    Duration,
    Gone,
    Topics,
    connected_for_writing,
)
from breakglass.console.output import print_json, say
from breakglass.console.setting_outcomes import Outcomes, say_facts
from breakglass.console.wiring import Connection


@connected_for_writing
def min_isr(
    connection: Connection,
    topics: Topics = None,
    gone: Gone = None,
    recovery_duration_ms: Duration = DURATION_MS,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Last resort if a BOMB's broker cannot be stopped: make the controller forget who led last.

    Stop the broker if you can. Changing min.insync.replicas makes the controller forget, for the
    whole topic and for good, which replicas it would elect by itself: the EMPTY replica, and intact
    replicas too. Every other partition that the step touches is listed, and each intact leader that
    is given up needs a phrase. Without --topics, the command changes the topics that a BOMB
    threatens. It puts the setting back at once. Afterwards `triage` says which replica to elect.
    """
    from breakglass.services.recovery.acts.forget_leaders import ForgetLeaders

    act = ForgetLeaders(names_in(topics), broker_ids(gone, "--gone"), recovery_duration_ms / 1000)
    outcomes = Outcomes(quiet=as_json)
    command = GuardedCommand(act, Consent(tuple(consent or ())), connection, hear=outcomes)
    frozen = command.freeze()
    if not frozen.asked:
        say(" ".join(frozen.remarks))
        raise typer.Exit(0)
    say_facts(frozen.facts)
    for remark in frozen.remarks:
        say(remark)
    ending = command.carry_out(frozen, write=connection.write)
    if as_json:
        print_json(
            {
                "schema": 1,
                "cluster_id": frozen.cluster_id,
                "journal": outcomes.journal,
                "settings": frozen.plan.changes,
                "forgotten": [
                    {
                        "topic": forgetting.partition.topic,
                        "partition": forgetting.partition.partition,
                        "forgotten": forgetting.forgotten,
                        "bomb": forgetting.bomb,
                        "intact": forgetting.intact,
                        "best": forgetting.best,
                        "loses": str(forgetting.price),
                        "unread_at_least": forgetting.unread,
                    }
                    for forgetting in frozen.plan.found
                ],
                "outcomes": outcomes.documents,
            }
        )
    raise typer.Exit(outcomes.ended(ending))
