"""Folders that brokers renamed to -stray: what they have, and which of them can come back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from breakglass.services.quorum.strays import FoundStray, StrayFate, find_strays
from breakglass.services.recovery.rescue.broker_folder import read_broker_folder
from tests.kit.metadata_log import T0, MetadataLog, record, topic
from tests.kit.program import breakglass
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log
from tests.unit.quorum.test_data_folders import Disks

AGAIN = UUID(int=0x0C)


class Renamed:
    """Replicas that brokers made strays of, and copies of the metadata."""

    def __init__(self, root: Path) -> None:
        self.root, self.disks = root, Disks(root / "data")
        self.copies: list[str] = []

    def copy(self, node: int, log: MetadataLog) -> str:
        log.save(self.root / f"n{node}", node)
        self.copies.append(f"log:{self.root / f'n{node}'}")
        return self.copies[-1]

    def stray(
        self, broker: int, number: int, records: int, hexes: str = "0a", **fields: Any
    ) -> Path:
        replica = self.disks.replica(broker, number, records, **fields)
        return replica.rename(replica.with_name(f"{replica.name}.{hexes * 16}-stray"))

    def found(self, copy: str | None = None) -> dict[str, FoundStray]:
        data = [f"log:{one}" for one in sorted(self.disks.root.iterdir())]
        _, listed = find_strays([*self.copies, *data], copy)
        return {str(one.partition): one for one in listed}


@pytest.fixture
def renamed(tmp_path: Path) -> Renamed:
    return Renamed(tmp_path)


def test_q19_a_stray_whose_topic_id_the_copy_knows_comes_back_with_its_records(
    renamed: Renamed,
) -> None:
    renamed.copy(101, small_log())
    path = renamed.stray(1, 0, 7)
    found = renamed.found()["orders-0"]
    assert (found.fate, found.owner, found.start, found.end) == (StrayFate.RETURNS, "b1", 0, 7)
    assert found.topic_id == ORDERS
    path.rename(found.target)
    (replica,) = read_broker_folder(renamed.disks.root / "1").replicas
    assert (str(replica.partition), replica.topic_id) == ("orders-0", ORDERS)
    assert renamed.found() == {}


@pytest.mark.parametrize(
    ("stray", "fate"),
    [
        ({"broker": 9, "number": 0}, StrayFate.ASSIGNED_ELSEWHERE),
        ({"broker": 1, "number": 5}, StrayFate.NOT_KNOWN),
        ({"broker": 1, "number": 0, "topic_id": AGAIN}, StrayFate.NAME_TAKEN),
        ({"broker": 1, "number": 0, "topic": "ledger", "topic_id": LEDGER}, StrayFate.DELETED),
        ({"broker": 1, "number": 0, "topic": "carts", "topic_id": AGAIN}, StrayFate.NOT_KNOWN),
    ],
    ids=lambda one: str(getattr(one, "value", "")),
)
def test_q19_what_does_not_come_back_has_its_reason(
    renamed: Renamed, stray: dict[str, Any], fate: StrayFate
) -> None:
    log = small_log()
    log.add(*topic("ledger", LEDGER, (1, 2)))
    log.add(record("RemoveTopicRecord", topic_id=LEDGER))
    renamed.copy(101, log)
    renamed.stray(**stray, records=3)
    (found,) = renamed.found().values()
    assert (found.fate, bool(found.why)) == (fate, True)


def test_q19_a_folder_that_was_made_since_has_the_place(renamed: Renamed) -> None:
    renamed.copy(101, small_log())
    renamed.stray(1, 0, 7)
    renamed.disks.replica(1, 0, 2)
    assert renamed.found()["orders-0"].fate is StrayFate.PLACE_TAKEN


def test_q19_another_copy_that_knows_the_topic_is_named(renamed: Renamed) -> None:
    blank = MetadataLog()
    blank.epoch = 9
    level = record("FeatureLevelRecord", name="metadata.version", feature_level=25)
    blank.add(level, at_ms=T0 + 86_400_000)
    new = renamed.copy(101, blank)
    renamed.copy(102, small_log())
    renamed.stray(1, 0, 7)
    found = renamed.found(new)["orders-0"]
    assert found.fate is StrayFate.OTHER_COPY
    assert str(renamed.root / "n102") in found.why
    # Without a choice, it is the one that knows the folders.
    assert renamed.found()["orders-0"].fate is StrayFate.RETURNS


def test_q21_the_commands_of_a_stray_have_its_indexes_made_anew(renamed: Renamed) -> None:
    renamed.copy(101, small_log())
    path = renamed.stray(1, 0, 7)
    (path.parent / ".kafka_cleanshutdown").touch()
    ended = breakglass("quorum", "strays", *renamed.copies, f"log:{path.parent}")
    removing, moving = [line for line in ended.out.splitlines() if line.startswith("    ")]
    assert (ended.code, path.name in moving) == (0, True)
    subprocess.run(["bash", "-euc", removing], check=True, timeout=60)
    assert not (path.parent / ".kafka_cleanshutdown").exists()


def test_q19_of_two_strays_of_a_partition_the_longer_comes_back(renamed: Renamed) -> None:
    renamed.copy(101, small_log())
    paths = [renamed.stray(1, 0, records, hexes=hexes) for records, hexes in ((7, "0b"), (9, "0c"))]
    paths.append(renamed.stray(1, 0, 8, hexes="0d"))
    data = f"log:{renamed.disks.root / '1'}"
    _, listed = find_strays([*renamed.copies, data])
    fates = {one.path: (one.fate, one.end) for one in listed}
    shorter = StrayFate.SHORTER
    assert fates == dict(
        zip(paths, ((shorter, 7), (StrayFate.RETURNS, 9), (shorter, 8)), strict=True)
    )
    ended = breakglass("quorum", "strays", *renamed.copies, data)
    moves = [line for line in ended.out.splitlines() if line.startswith("    test")]
    assert (ended.code, len(moves)) == (1, 1)
    for _ in range(2):
        subprocess.run(["bash", "-uc", moves[0]], check=False, timeout=60)
        assert len(list((renamed.disks.root / "1" / "orders-0").glob("*.log"))) == 1
        paths[1].mkdir(exist_ok=True)
    assert [*paths[1].iterdir()] == []


def test_q19_another_copy_that_has_the_id_is_named_before_a_name_that_is_taken(
    renamed: Renamed,
) -> None:
    blank = MetadataLog()
    blank.epoch = 9
    level = record("FeatureLevelRecord", name="metadata.version", feature_level=25)
    blank.add(level, at_ms=T0 + 86_400_000)
    blank.add(*topic("orders", AGAIN, (1, 2)))
    best = renamed.copy(101, blank)
    renamed.copy(102, small_log())
    renamed.stray(1, 0, 7)
    found = renamed.found(best)["orders-0"]
    assert (found.fate, str(renamed.root / "n102") in found.why) == (StrayFate.OTHER_COPY, True)
