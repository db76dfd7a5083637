"""What a ksqlDB service looks like in both sizes: its four views, and the restore."""

from __future__ import annotations

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.metastore.restore import RestoreScreen
from breakglass.services.metastore.acts.restore import RestoreCommandTopic, frozen_plan
from breakglass.services.metastore.restore.plan import (
    LiveServers,
    MetastoreRestorePlan,
    PresentTopic,
)
from breakglass.services.metastore.restore.source import Offsets, RestoreSource
from breakglass.services.metastore.settings import MetastoreSettings
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest
from tests.screens.metastore.canned import FILE, TOPIC, accident, at_view, look_of, shop
from tests.screens.turns import text, until

VIEWS = {
    "objects": ((), "old:clicks"),
    "queries": (("v",), "CTAS_BY_REGION_7"),
    "history": (("v", "v"), "PAUSE"),
    "comparison": (("n",), "Line"),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("look", LOOKS)
async def test_a_view_looks_as_before(look: Look, view: str, drawn_as_before: Drawn) -> None:
    keys, words = VIEWS[view]
    async with at_view(accident, keys, words, look.size, look.theme) as pilot:
        drawn_as_before(pilot.app)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_quiet_service_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with at_view(lambda: look_of(shop()), (), "the same", look.size, look.theme) as pilot:
        drawn_as_before(pilot.app)


def plan() -> MetastoreRestorePlan:
    """A restore that gives something up while a server runs."""
    source = RestoreSource(FILE, (), (), (), Offsets.ORIGINAL, ())
    present = PresentTopic("id", 8, 16, 3, 1, same=False)
    servers = LiveServers(
        transaction="Ongoing", answering=("http://ksql1:8088 answers: ksqlDB 0.29.0, RUNNING",)
    )
    return MetastoreRestorePlan("cluster", TOPIC, MetastoreSettings(), source, present, servers)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_restore_looks_as_before(
    look: Look, drawn_as_before: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestoreCommandTopic, "freeze", lambda *_: frozen_plan(plan()))
    async with at_view(accident, (), "old:clicks", look.size, look.theme) as pilot:
        console = pilot.app
        assert isinstance(console, BreakglassApp)
        await console.push_screen(RestoreScreen(console.context, "default_", FILE))
        await until(pilot, lambda: "while servers run" in text(console), "the phrase")
        await at_rest(pilot)
        drawn_as_before(console)
