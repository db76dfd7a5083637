"""Which topics are restored into, and whether records can be put there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.errors import Refused, UsageError
from services.kafka.cluster.topic_config import read_topic_configs
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.model import INTERNAL_TOPICS, Unknown
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.source import TopicSource, Wanted, read_sources
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
    return read_sources(client, Wanted(tuple(topics)), deadline)


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
