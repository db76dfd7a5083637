"""Which topics are restored into, and whether records can be put there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from services.errors import Refused, UsageError
from services.kafka.cluster.topic_config import read_topic_configs
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.model import INTERNAL_TOPICS, Unknown
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.source import TopicSource, WantedTopics, read_sources
from services.topic_backup.catalog import HeldTopic

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def target_names(held: Sequence[HeldTopic], options: RestoreOptions) -> list[str]:
    """The topic that each of *held* is restored into.

    Raises:
        UsageError: two have one name, one is Kafka's own, or something is named that is not there.
    """
    topics = {one.topic for one in held}
    absent = sorted(set(options.renamed) - topics)
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which is not restored: check the spelling."
        )
    targets = [options.renamed.get(one.topic, one.topic) for one in held]
    require_names(targets)
    return targets


def require_names(targets: Sequence[str]) -> None:
    """Return if topics of these names can be restored into.

    Raises:
        UsageError: two are one, one is none that Kafka allows (Topic.java), or is Kafka's own.
    """
    if len(set(targets)) < len(targets):
        raise UsageError("Two topics would be restored into one: give each a name with --map.")
    for one in targets:
        if not _NAME.fullmatch(one) or one in (".", ".."):
            raise UsageError(
                f"{one!r} is not a topic name that Kafka allows: use at most 249 letters, digits, "
                "dots, underscores and hyphens."
            )
        if one in INTERNAL_TOPICS:
            raise UsageError(f"{one} is Kafka's own: give it another name with --map.")


def existing(client: ReadClient, targets: Sequence[str], deadline: Deadline) -> list[str]:
    """Those of *targets* that there are; the others can be created beside all other topics.

    Raises:
        UsageError: one cannot.
        Unreachable, NotAuthorized: no broker tells.
    """
    found = {one.partition.topic for one in client.partitions(targets, deadline)}
    new = [one for one in targets if one not in found]
    if any({".", "_"} & set(one) for one in new):
        # Only these collide, so only they need the names of all topics.
        require_apart(new, {one.partition.topic for one in client.partitions((), deadline)})
    return sorted(found)


def require_apart(new: Sequence[str], there: Collection[str]) -> None:
    """Return if topics named *new* can be created beside those *there*.

    Raises:
        UsageError: two differ in dots and underscores alone, which Kafka refuses (Topic.java).
    """
    names = {_unified(one): one for one in there}
    for one in new:
        other = names.setdefault(_unified(one), one)
        if other != one:
            raise UsageError(
                f"Kafka refuses topic {one} beside {other}, which differs in dots and underscores "
                "alone: give it another name with --map."
            )


def _unified(name: str) -> str:
    return name.replace(".", "_")


def read_targets(
    client: ReadClient, topics: Sequence[str], deadline: Deadline
) -> tuple[TopicSource, ...]:
    """The existing *topics* that are restored into.

    Raises:
        Refused: their settings, which have to be put back in the end, cannot be read.
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
    """How many partitions the topic has, offline ones too."""
    return len(now.partitions) + len(now.unread)


def require_room(now: TopicSource, *, filled: bool, instead: str) -> None:
    """Return if records can be restored into the topic that there is; *filled* if it may be.

    Raises:
        Refused: it holds records and that was not allowed: what is to be done *instead*.
    """
    if now.unread:
        number, reason = next(iter(now.unread.items()))
        raise Refused(
            f"{now.name}-{number} cannot be written ({reason}): run `breakglass triage`, then try "
            "again"
        )
    holding = [one.partition for one in now.partitions if one.high_watermark > one.log_start]
    if holding and not filled:
        raise Refused(f"topic {now.name} holds records ({holding[0]}): {instead}")
