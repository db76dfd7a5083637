"""The backup of one topic under way, whatever its folder is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from breakglass.services.topic_backup.addition import Addition
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest
from breakglass.services.topic_backup.store.runs_assembler import RunsAssembler
from breakglass.services.topic_backup.store.runs_folder import RunsFolder
from breakglass.services.topic_backup.summary import PartitionSummary


class Assembler(Protocol):
    """Takes the parts that tasks have written, and commits them."""

    @property
    def folder(self) -> Folder:
        """Where they lie."""

    @property
    def run(self) -> str:
        """What tells the files of one job from all others; another one each time it is read."""

    def partition(self, number: int, /) -> PartitionSummary:
        """What there is of one partition."""

    def add(self, additions: Sequence[Addition], /) -> None:
        """Put new segments behind what there is."""

    @property
    def changed(self) -> bool:
        """Whether a commit would say anything new."""

    def commit(self) -> TopicManifest:
        """Make all of it the backup."""


def assembling(
    folder: Folder, identity: TopicIdentity, max_segment_bytes: int
) -> AbstractContextManager[Assembler]:
    """The backup of a topic in *folder*, until the end of the ``with`` block.

    Raises: as `TopicAssembler` and `RunsAssembler`.
    """
    if isinstance(folder, RunsFolder):
        return RunsAssembler(folder, identity, max_segment_bytes=max_segment_bytes)
    assert isinstance(folder, LocalFolder)
    return TopicAssembler(folder.path, identity, max_segment_bytes=max_segment_bytes)
