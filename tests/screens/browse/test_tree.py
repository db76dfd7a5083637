"""The tree of backups: every key, each branch looked up when it is opened."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from textual.pilot import Pilot
from textual.widgets import Input

from breakglass.screens.browse.records import RecordsScreen
from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.browse.tree import LIVE
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.lock import file_name
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.restore.offset_map import CommittedRun, OffsetLog
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.layout import segment_prefix
from breakglass.services.topic_backup.manifest import TopicIdentity
from tests.kit.fake_cluster import FakeCluster
from tests.kit.incidents import CLUSTER
from tests.screens.browse.opened import a_place, browser, closed, fill, idle, orders, under, within
from tests.screens.consoles import Asked
from tests.screens.turns import hides, line_with, lines, notices, opens, shows, until
from tests.unit.divergence.test_log_source import write
from tests.unit.pipeline.test_stored_segments import back_up as back_up_as
from tests.unit.recovery.guarded.conftest import hang_up
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run
from tests.unit.topic_backup.store.stores import BOTH, KEY, on_disk


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with within(tmp_path):
        yield a_place(Path("backups"))


@asynccontextmanager
async def tree(
    place: Path, *key: str, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Pilot[Any]]:
    async with browser(place).run_test(size=size, notifications=True) as pilot:
        await shows(pilot, "torn")
        if key:
            await under(pilot, str(place), *key)
        yield pilot


def under_cursor(console: Any) -> str:
    line = next((line for line in lines(console) if line.startswith(">")), "")
    words = line.removeprefix(">").replace("▸", " ").replace("▾", " ").split()
    return " ".join(words[:2]) if words[:1] in (["partition"], ["from"]) else "".join(words[:1])


async def test_keys_lead_from_the_place_to_records_from_backups_and_to_the_help(
    place: Path,
) -> None:
    async with tree(place, "orders", "0", segment_prefix(0, 93)) as pilot:
        await shows(pilot, "offsets 93 to 184, 92")
        await pilot.press("enter")
        await opens(pilot, RecordsScreen)
        await idle(pilot)
        assert any("▌" in line and " 93 " in line for line in lines(pilot.app))
        await pilot.press("escape", "left", "left")
        await hides(pilot, "partition 0")
        assert under_cursor(pilot.app) == "orders"
        await under(pilot, str(place), "old", "0")
        copied = Asked(pilot.app, CopyAsked)
        await pilot.press("y", "r")
        await opens(pilot, RecordsScreen)
        await shows(pilot, "offsets 0 to 19")
        assert copied.messages[0].text == f"backup:{place}/old/0"
        await closed(pilot)

        await under(pilot, str(place), "torn")
        await pilot.press("enter")
        await shows(pilot, "Expecting")
        await pilot.press("r", "d", "y", "right", "left")
        assert not isinstance(pilot.app.screen, RecordsScreen)

        await pilot.press("1", "6")
        assert pilot.app.current_mode == "browse"
        await pilot.press("question_mark")
        await opens(pilot, HelpScreen)
        for words in ("Mark a partition", "Open a source"):
            await shows(pilot, words)
        await pilot.press("escape")
        asked = Asked(pilot.app, BrowseAsked)
        await pilot.press("5")
        await shows(pilot, "▸orders")
        while under_cursor(pilot.app) != "orders":
            await pilot.press("down")
        await pilot.press("right", "down", "enter")
        await until(pilot, lambda: asked.messages, "the records")
        assert str(asked.messages[0].left) == f"backup:{place}/orders/0"


async def test_partitions_are_compared_where_they_have_offsets_in_common_and_topics_are_filtered(
    place: Path, tmp_path: Path
) -> None:
    copy = back_up(tmp_path / "copy", orders(0, 20), identity=TopicIdentity("old"))
    async with tree(place, "old", "0") as pilot:
        for again in ("d", "escape"):
            await pilot.press("d")
            await shows(pilot, "on another compares")
            await pilot.press(again)
            await hides(pilot, "on another compares")
        await pilot.press("d")
        await under(pilot, str(place), "orders", "0")
        await pilot.press("d")
        await until(pilot, lambda: "no offsets in common" in notices(pilot.app), "why not")
        await pilot.press("escape")
        await under(pilot, str(place), "old", "0")
        await pilot.press("d", "o")
        prompt = await opens(pilot, Prompt)
        prompt.query_one(Input).value = f"backup:{copy}/0"
        await pilot.press("enter")
        await opens(pilot, RecordsScreen)
        await shows(pilot, "No differences.")
        await closed(pilot)

        await pilot.resize_terminal(80, 24)
        await pilot.press("o", *"orders/0", "enter")
        await shows(pilot, "no kind of source")
        await pilot.press("escape", "escape")
        await pilot.press("slash", *"ord", "enter")
        await hides(pilot, "torn")
        await pilot.press("escape")
        await shows(pilot, "torn")
        await pilot.press("slash", "escape", "home", "down")
        assert under_cursor(pilot.app) == "old"
        back_up(place, orders(0, 3), identity=TopicIdentity("newer"))
        await pilot.press("ctrl+r")
        await shows(pilot, "newer")


async def test_a_branch_that_hangs_keeps_neither_keys_nor_the_end(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs until the console has ended."""
    released = threading.Event()

    def hang(*_: object) -> Any:
        released.wait()

    monkeypatch.setattr("breakglass.screens.browse.screen.partitions_in", hang)
    try:
        async with tree(place, "orders") as pilot:
            await pilot.press("enter")
            await shows(pilot, "reading")
            await pilot.press("up", "down")
            assert under_cursor(pilot.app) == "orders"
    finally:
        released.set()


async def test_without_a_place_it_says_how_to_open_something() -> None:
    async with browser().run_test(size=(80, 24)) as pilot:
        await shows(pilot, "o opens a source")
        await pilot.press("enter", "r", "d", "y", "left", "right")


async def test_a_topic_restored_under_another_name_is_compared_by_the_offsets_of_its_backup(
    tmp_path: Path,
) -> None:
    """A log folder in place of the topic; the restore began at offset 100 of it."""
    place, log = tmp_path / "backups", tmp_path / "logs" / "copied-0"
    back_up(place, run(0, 20))
    moved = [record._replace(offset=record.offset + 100) for record in run(0, 20)]
    write(log, 100, [batch(moved)])
    map_of = tmp_path / "restores" / file_name(CLUSTER) / "copied" / "partition-0.jsonl"
    async with browser(place, state_folder=tmp_path).run_test(notifications=True) as pilot:
        await under(pilot, str(place), "orders", "0")
        await pilot.press("d")
        await fill(pilot, "o", f"log:{log}")
        await until(pilot, lambda: "no offsets in common" in notices(pilot.app), "why not")
        map_of.parent.mkdir(parents=True)
        offsets = OffsetLog(map_of)
        offsets.confirm(offsets.announce([CommittedRun(0, 20, 100, 20)]))
        await fill(pilot, "o", f"log:{log}")
        await opens(pilot, RecordsScreen)
        await shows(pilot, "No differences.")
        await shows(pilot, "offsets 0 to 19")


async def test_an_encrypted_backup_is_opened_with_its_key_alone(tmp_path: Path) -> None:
    back_up_as(on_disk(tmp_path), BOTH, 0, 25)
    async with browser(tmp_path).run_test(size=(120, 40)) as pilot:
        await under(pilot, str(tmp_path), "orders")
        await pilot.press("enter")
        await shows(pilot, "--key")
    async with browser(tmp_path, key=KEY).run_test(size=(120, 40)) as pilot:
        await under(pilot, str(tmp_path), "orders", "0")
        await pilot.press("r")
        await shows(pilot, "offsets 0 to 24")
        await pilot.press("escape", "5")
        await shows(pilot, "unverified")


async def test_topics_of_the_cluster_lead_to_the_records_of_each_replica() -> None:
    """b1 leads; b2 has less, and b3 does not answer."""
    partition = TopicPartition("orders", 0)
    with FakeCluster(3) as cluster:
        cluster.story.offline(partition, (1, 2, 3))
        state = cluster.story.states[partition]
        cluster.story.states[partition] = replace(state, leader=1, isr=(1,))
        for broker, records in ((1, 125), (2, 100)):
            cluster.hold(broker, partition, (0, records))
        cluster.brokers[3].serve(ListOffsetsRequest, hang_up)
        access = ReadAccess(ConnectionSettings((cluster.brokers[1].endpoint,)))
        async with browser(access=access).run_test(size=(120, 40)) as pilot:
            await shows(pilot, LIVE)
            await under(pilot, LIVE, "orders", "0", "2")
            await shows(pilot, "b2: not in sync")
            for broker, last in ((1, "124"), (2, "99")):
                words = line_with(pilot.app, f"  b{broker} ").split()
                assert words[words.index(f"b{broker}") + 1 :][:2] == ["0", last]
            assert "leads" in line_with(pilot.app, "  b1 ")
            assert "?" in line_with(pilot.app, "  b3 ")
            asked = Asked(pilot.app, BrowseAsked)
            await pilot.press("enter", "up", "up", "r")
            await until(pilot, lambda: len(asked.messages) == 2, "the records")
    assert [str(one.left) for one in asked.messages] == ["replica:2/orders/0", "topic:orders/0"]
