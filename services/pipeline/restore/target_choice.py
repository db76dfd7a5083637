"""The target topics of a restore, and whether records can be written to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from breakglass.services.errors import Refused, UsageError
from breakglass.services.kafka.cluster.topic_config import read_topic_configs
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import INTERNAL_TOPICS, Unknown
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.topic_backup.catalog import HeldTopic

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def target_names(held: Sequence[HeldTopic], options: RestoreOptions) -> list[str]:
    """The target topic of each of *held*.

    Raises:
        UsageError: two targets have one name, a target is internal, or --map names another topic.
    """
    topics = {topic.topic for topic in held}
    absent = sorted(set(options.renamed) - topics)
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which is not restored: check the spelling."
        )
    targets = [options.renamed.get(topic.topic, topic.topic) for topic in held]
    require_names(targets)
    return targets


def require_names(targets: Sequence[str]) -> None:
    """Check that topics of these names can be targets.

    Raises:
        UsageError: two names are equal, or a name is invalid (Topic.java) or internal.
    """
    if len(set(targets)) < len(targets):
        raise UsageError("Two topics would be restored into one: give each a name with --map.")
    for target in targets:
        if not _NAME.fullmatch(target) or target in (".", ".."):
            raise UsageError(
                f"{target!r} is not a topic name that Kafka allows: use at most 249 letters, "
                "digits, dots, underscores and hyphens."
            )
        if target in INTERNAL_TOPICS:
            raise UsageError(f"{target} is Kafka's own: give it another name with --map.")


def existing(client: ReadClient, targets: Sequence[str], deadline: Deadline) -> list[str]:
    """The *targets* that exist; the others can be created beside all other topics.

    Raises:
        UsageError: a target collides with another topic.
        Unreachable, NotAuthorized: no broker returns the topics.
    """
    found = {partition.partition.topic for partition in client.partitions(targets, deadline)}
    new = [target for target in targets if target not in found]
    if any({".", "_"} & set(name) for name in new):
        # Only such names collide, so only they need the names of all topics.
        require_apart(
            new, {partition.partition.topic for partition in client.partitions((), deadline)}
        )
    return sorted(found)


def require_apart(new: Sequence[str], there: Collection[str]) -> None:
    """Check that topics named *new* can be created beside the topics *there*.

    Raises:
        UsageError: two differ in dots and underscores alone, which Kafka refuses (Topic.java).
    """
    names = {_unified(name): name for name in there}
    for name in new:
        other = names.setdefault(_unified(name), name)
        if other != name:
            raise UsageError(
                f"Kafka refuses topic {name} beside {other}, which differs in dots and underscores "
                "alone: give it another name with --map."
            )


def _unified(name: str) -> str:
    return name.replace(".", "_")


def read_targets(
    client: ReadClient, topics: Sequence[str], deadline: Deadline
) -> tuple[TopicSource, ...]:
    """Read the existing target *topics*.

    Raises:
        Refused: their settings, which the restore must put back, cannot be read.
    """
    if not topics:
        return ()
    for topic, config in read_topic_configs(client.sender, topics, deadline).items():
        if isinstance(config, Unknown):
            raise Refused(
                f"the settings of topic {topic} cannot be read ({config.reason}), so they could "
                "not be put back: grant that, then try again"
            )
    return read_sources(client, WantedTopics(tuple(topics)), deadline)


def partition_count(now: TopicSource) -> int:
    """The number of partitions of the topic, offline partitions included."""
    return len(now.partitions) + len(now.unread)


def require_room(now: TopicSource, *, filled: bool, instead: str) -> None:
    """Check that records can be restored into an existing topic; *filled* if it may have records.

    Raises:
        Refused: a partition is unreadable, or has records; *instead* is the advice.
    """
    if now.unread:
        number, reason = next(iter(now.unread.items()))
        raise Refused(
            f"{now.name}-{number} cannot be written ({reason}): run `breakglass triage`, then try "
            "again"
        )
    filled_partitions = [
        partition.partition
        for partition in now.partitions
        if partition.high_watermark > partition.log_start
    ]
    if filled_partitions and not filled:
        raise Refused(f"topic {now.name} has records ({filled_partitions[0]}): {instead}")
