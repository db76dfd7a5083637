"""Taking a topic's folder for oneself, before anything is written in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.topic_backup import pending
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import PartitionFiles, listing
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest


@dataclass(frozen=True, slots=True)
class Claim:
    """A folder that nobody else writes in, as it was found."""

    folder: LocalFolder
    committed: TopicManifest | None
    """The last commit; None in a new folder."""
    identity: TopicIdentity
    """Of the topic, with what the folder knew of it."""
    found: Mapping[int, PartitionFiles]
    """The files of each partition, listed once: once for each would take the square of their
    number."""


@contextmanager
def claim(path: Path, identity: TopicIdentity) -> Iterator[Claim]:
    """Open or create the folder at *path*, locked until the end of the ``with`` block.

    Raises:
        UsageError: the folder is of another topic, or of this one before it was deleted and
            created again.
        WrongCluster: the folder is of another cluster.
        AlreadyRunning: another process writes there.
        MalformedInput, UnsupportedSchema: the folder's manifest cannot be read, or what a killed
            run noted.
        StorageError: the folder cannot be written.
    """
    folder = LocalFolder.create(path)
    with folder.lock():
        folder.remove_leftovers()
        committed = read_manifest(folder)
        check_same(folder, committed, identity)
        pending.take_back(folder, committed.commit if committed else 0)
        yield Claim(folder, committed, merged(committed, identity), listing(folder.names()))


def check_same(folder: Folder, committed: TopicManifest | None, identity: TopicIdentity) -> None:
    """Return if the folder is of the same topic of the same cluster, as far as both are known.

    Raises:
        WrongCluster, UsageError: it is of another.
    """
    held = committed.identity if committed else identity
    if _differ(held.cluster_id, identity.cluster_id):
        raise WrongCluster(
            f"{folder.where()} is a backup of cluster {held.cluster_id}, this is cluster "
            f"{identity.cluster_id}: choose another folder."
        )
    if held.topic != identity.topic or _differ(held.topic_id, identity.topic_id):
        raise UsageError(
            f"{folder.where()} is a backup of topic {held.topic} with id {held.topic_id}, this is "
            f"{identity.topic} with id {identity.topic_id}, created again: choose another folder."
        )


def merged(committed: TopicManifest | None, identity: TopicIdentity) -> TopicIdentity:
    """*identity*, with what was known before where it does not know it: ids, and the origin."""
    if committed is None:
        return identity
    held = committed.identity
    return replace(
        identity,
        cluster_id=identity.cluster_id or held.cluster_id,
        topic_id=identity.topic_id or held.topic_id,
        origin=identity.origin or held.origin,
    )


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other
