"""Carries out the restore of a checkpoint: the topics, and when all of them are whole, the word."""

from __future__ import annotations

from breakglass.services.checkpoint.spark.completion import complete
from breakglass.services.checkpoint.spark.restoring import CheckpointPlan
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
from breakglass.services.pipeline.restore.restore import restore as restore_topics


def restore(
    work: RestoreRun, markers: MarkerClient, plan: CheckpointPlan, control_topic: str
) -> list[TopicRestored]:
    """Restore what *plan* says; what goes wrong with a topic is in its report.

    Only where every topic is whole, and nobody else has written into any of them, may participants
    begin: they are told last (`completion`).

    Raises:
        Refused: a group has got members since; nothing was changed.
        ClusterError, Unreachable, OutcomeUnknown: the control topic cannot be written; again.
    """
    done = restore_topics(work, plan.plan)
    if all(one.whole for one in done):
        foreign = complete(work.run.client, markers, plan, control_topic)
        for topic, target in plan.targets.items():
            if target in foreign:
                work.journal.note(foreign[target])
                _of(done, topic, target).error = foreign[target]
    return done


def _of(done: list[TopicRestored], topic: str, target: str) -> TopicRestored:
    """What is told of *target*, which may have been restored by an earlier run."""
    found = next((one for one in done if one.target == target), None)
    if found is None:
        found = TopicRestored(topic, target, settings_back=True)
        done.append(found)
    return found
