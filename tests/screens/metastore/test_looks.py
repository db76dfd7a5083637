"""What a ksqlDB service looks like in both sizes: its four views, and the restore."""

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.guard import RestoreMetastorePage
from breakglass.services.metastore.acts.command_topic import RestoreCommandTopic, frozen_plan
from breakglass.services.metastore.restore.plan import (
    LiveServers,
    MetastoreRestorePlan,
    Offsets,
    PresentTopic,
    RestoreSource,
)
from breakglass.services.metastore.settings import MetastoreSettings
from tests.screens.drawing import DrawnInSizes
from tests.screens.metastore.canned import FILE, TOPIC, accident, at_view, look_of, shop
from tests.screens.turns import shows

VIEWS = {
    "objects": ("old:clicks",),
    "queries": ("CTAS_BY_REGION_7", "v"),
    "history": ("PAUSE", "v"),
    "comparison": ("Line", "n"),
}


async def test_a_view_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with at_view(accident, (), "old:clicks") as pilot:
        for view, (words, *keys) in VIEWS.items():
            await pilot.press(*keys)
            await shows(pilot, words)
            await sizes_as_before(pilot, view)


async def test_a_quiet_service_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with at_view(lambda: look_of(shop()), (), "the same") as pilot:
        await sizes_as_before(pilot)


async def test_a_restore_looks_as_before(
    sizes_as_before: DrawnInSizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives something up while a server runs."""
    source = RestoreSource(FILE, (), (), (), Offsets.ORIGINAL, ())
    present = PresentTopic("id", 8, 16, 3, None, 1, same=False)
    servers = LiveServers(
        transaction="Ongoing", answering=("http://ksql1:8088 answers: ksqlDB 0.29.0, RUNNING",)
    )
    plan = MetastoreRestorePlan("cluster", TOPIC, MetastoreSettings(), source, present, servers)
    monkeypatch.setattr(RestoreCommandTopic, "freeze", lambda *_: frozen_plan(plan))
    async with at_view(accident, (), "old:clicks") as pilot:
        console = pilot.app
        assert isinstance(console, BreakglassApp)
        await console.push_screen(RestoreMetastorePage(console.context, "default_", FILE))
        await shows(pilot, "while servers run")
        await sizes_as_before(pilot)
