"""A checkpoint is deleted while it is copied: nothing of it stays but its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.copying import PartitionCopier
from breakglass.services.checkpoint.finishing import Sources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Level,
    ManifestDocument,
    TakeDocument,
)
from breakglass.services.errors import Refused
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A partition whose checkpoint is deleted before anything of it is written."""

    source: PartitionCopier
    store: BackupStore

    def copy(self, where: str) -> ManifestDocument:
        self.store.delete(1)
        found = self.source.copy(where)
        assert list(Path(where).rglob("*"))
        return found


@dataclass(frozen=True, slots=True)
class AllOvertaken:
    """Every partition is."""

    sources: Sources
    store: BackupStore

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        opened = self.sources.open(take, cut)
        return {number: Overtaken(one, self.store) for number, one in opened.items()}


def test_what_is_copied_behind_a_deletion_does_not_stay(
    settled_bank: Branch, taking: Taking
) -> None:
    with taking.parts(settled_bank, Level.VECTOR, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        sources = AllOvertaken(finisher.sources, taking.store)
        with pytest.raises(Refused):
            replace(finisher, sources=sources, side_by_side=1).finish(1)
    root = Path(taking.store.address)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
        "checkpoints",
        "checkpoints/1",
        "checkpoints/1/deleted.json",
        "checkpoints/1/take.json",
        "contents",
    ]
