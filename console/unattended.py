"""Recovery without an operator, on a lab: what each verdict says is done, to the end.

`breakglass lab demo` and `breakglass lab drill --auto` do so. No consent is typed: the lab is
their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.console.exits import StopSignal
from breakglass.console.option_values import Consent
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.errors import LabError

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.triage import Triage

ANSWER_SECONDS = 10.0
AWAIT_SECONDS = 8.0
MOST_ROUNDS = 8


def triaged(client: ReadClient, gone: Iterable[int] = ()) -> Triage:
    """A triage that is complete, printed as `breakglass triage --each` prints it."""
    from breakglass.console.triage import show
    from breakglass.services.recovery.triage import triage

    *_, found = triage(client, ANSWER_SECONDS, gone=tuple(sorted(gone)))
    show(found, each=True, replicas=False)
    return found


def brokers_to_stop(found: Triage) -> list[int]:
    """The brokers that are about to be elected EMPTY."""
    from breakglass.services.recovery.judgement.assessment import Verdict

    brokers = {
        assessment.action.broker
        for assessment in found.assessments
        if assessment.verdict is Verdict.BOMB and assessment.action.broker is not None
    }
    return sorted(brokers)


def stop_brokers(cluster: Cluster, brokers: Sequence[int]) -> None:
    """Kill *brokers* of the lab, and wait until they are fenced."""
    for broker in brokers:
        say(f"stopping b{broker}, as asked, and waiting until it is fenced")
        cluster.broker(broker).kill()
    cluster.wait_fenced(*brokers)


def elect_all(
    connection: Connection, client: ReadClient, found: Triage, stop: StopSignal
) -> Electing:
    """Elect the best replica of each partition of *found*.

    Where automation holds back (a high watermark lost in a crash, or a fork, say) the replica is
    elected that loses the fewest known records.
    """
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.execution.steps import route_for
    from breakglass.services.recovery.execution.target import target_of
    from breakglass.services.recovery.guarded.subject import priced

    electing = Electing(
        connection, client, found.snapshot.cluster_id, stop, route_for(found.native)
    )
    wanted = []
    for assessment in found.assessments:
        chosen = _chosen(assessment)
        if chosen is None:
            say(f"{assessment.partition}  nobody to elect: {'; '.join(assessment.reasons)}")
            continue
        if not assessment.automatable:
            say(f"{assessment.partition}  decided by hand: {'; '.join(assessment.barriers)}")
        target = target_of(assessment.evidence, chosen, assessment.ranking)
        wanted.append(priced(assessment.evidence, target, assessment.gone))
    electing.run(wanted, Consent(implied=True))
    electing.look_after()
    return electing


def _chosen(assessment: Assessment) -> int | None:
    """The designee; at a fork, which has none, the choice with the smallest known loss."""
    from breakglass.services.recovery.judgement.assessment import Verdict, choices

    if assessment.designee is not None or assessment.verdict is not Verdict.FORK:
        return assessment.designee
    losses = [
        (total, broker)
        for broker in choices(assessment.evidence, assessment.ranking)
        if isinstance(total := assessment.loss_of(broker).total, int)
    ]
    return min(losses)[1] if losses else None


@dataclass
class Unattended:
    """One recovery of a lab: brokers are stopped and started as verdicts say, then elections."""

    connection: Connection
    cluster: Cluster
    returnable: Collection[int]
    """Brokers that can be started or resumed; all others that are out are declared gone."""
    gone: set[int] = field(default_factory=set)
    back: set[int] = field(default_factory=set)
    """Brokers that were brought back."""
    stopped: set[int] = field(default_factory=set)

    def recover(self) -> None:
        """Until nothing is offline, or nothing more can be done.

        Raises:
            BreakglassError: a command would end with it.
            KeyboardInterrupt: a signal asked to stop; the election under way was finished.
        """
        with StopSignal() as stop, self.connection.reading() as client:
            left: set[object] = set()
            for _ in range(MOST_ROUNDS):
                found = triaged(client, self.gone)
                offline = {assessment.partition for assessment in found.assessments}
                if not offline or offline == left:
                    break
                if self._act_on_brokers(found, stop):
                    continue
                elect_all(self.connection, client, found, stop)
                if stop.requested:
                    raise KeyboardInterrupt
                left = set(offline)
            self._look_after(found)

    def _look_after(self, found: Triage) -> None:
        """Start again what was stopped, where nothing waits for a leader; save what stays away."""
        waiting = {
            broker
            for assessment in found.assessments
            for broker in assessment.evidence.state.assignment
        }
        for broker in sorted(self.stopped - waiting):
            say(f"starting b{broker} again, which follows the new leaders now")
            self.cluster.broker(broker).start()
            self.cluster.wait_unfenced(broker)
        for broker in sorted(set(self.returnable) - self.back):
            self._save_from_disk(broker)

    def _act_on_brokers(self, found: Triage, stop: StopSignal) -> bool:
        """Stop, bring back or declare gone what the verdicts name; whether anything was done."""
        from breakglass.services.recovery.judgement.assessment import Verb, Verdict

        bombs = [broker for broker in brokers_to_stop(found) if broker not in self.gone]
        if bombs:
            stop_brokers(self.cluster, bombs)
            self.gone.update(bombs)
            self.stopped.update(bombs)
            return True
        waits = {
            assessment.action.broker: assessment.action.verb
            for assessment in found.assessments
            if assessment.verdict is Verdict.WAIT and assessment.action.broker is not None
        }
        todo = sorted(waits.keys() - self.back - self.gone)
        for broker in todo:
            if waits[broker] is Verb.AWAIT:
                self._await(broker)
            elif broker in self.returnable:
                self.back.add(broker)
                self._rescue_before(broker, found, stop)
                self._save_from_disk(broker)
                node = self.cluster.broker(broker)
                say(f"bringing b{broker} back, as asked")
                if node.paused:
                    node.resume()
                elif not node.running:
                    node.start()
                self.cluster.wait_unfenced(broker)
            else:
                self.gone.add(broker)
        return bool(todo)

    def _await(self, broker: int) -> None:
        """The controller is to elect it by itself, or it may still answer: wait for that once."""
        self.back.add(broker)
        before = self._offline()
        with suppress(LabError):
            self.cluster.wait_until(
                lambda: self._offline() != before, f"b{broker} to lead", timeout=AWAIT_SECONDS
            )

    def _offline(self) -> set[TopicPartition]:
        return {state.partition for state in self.cluster.partitions() if state.offline}

    def _save_from_disk(self, broker: int) -> None:
        """Save what *broker* alone holds of partitions that others lead: it cuts that."""
        from breakglass.console.rescue import RescueRequest, rescue_logs

        node = self.cluster.broker(broker)
        sources = [f"log:{path}" for path in node.layout.log_dirs]
        wanted = RescueRequest(source=sources, while_running=node.paused)
        rescue_logs(wanted, self.connection)

    def _rescue_before(self, broker: int, found: Triage, stop: StopSignal) -> None:
        """A broker that was in sync last leads by itself, and others cut what it lacks."""
        from breakglass.console.electing import say_rescued
        from breakglass.services.recovery.guarded.rescue_choice import default_folder
        from breakglass.services.recovery.rescue.rescue import new_folder, rescuer
        from breakglass.services.recovery.rescue.spans import AtRisk

        cluster_id = found.snapshot.cluster_id
        at_risk = [
            AtRisk(assessment.evidence, broker)
            for assessment in found.assessments
            if broker in assessment.evidence.state.assignment
        ]
        rescuing = rescuer(self.connection.access(), cluster_id, lambda: stop.requested)
        say_rescued(rescuing.rescue(at_risk, new_folder(default_folder(), cluster_id)))
