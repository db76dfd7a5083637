"""A bundle of real brokers: judged as they are; its plans run where nothing has changed."""

from pathlib import Path
from typing import Any

import pytest

from breakglass.console.bundle_console import BundleConsole
from breakglass.screens.diff.pair_list import PairList
from breakglass.services.bundle.contents import open_bundle
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import elect_unclean
from tests.kit.bundles import unpacked
from tests.kit.program import breakglass
from tests.kit.waiting import wait_until
from tests.lab.console.commands import (
    agreeing,
    leader,
    on,
    partition,
    partitions,
    plan_in,
    recreate,
    results,
)
from tests.lab.console.conftest import B1_ALSO, SHARED
from tests.screens.bundle_consoles import console_of
from tests.screens.turns import lines, text, until


async def planned(path: Path, topic: str, plan: Path) -> Incident:
    """Open the bundle, look at *topic*, save the plan of it to *plan*; returns what was shown."""
    console = console_of(path)
    context = console.context
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: context.known.incident is not None, "the incident")
        assert "BUNDLE" in lines(console)[0]
        await pilot.press("slash", *topic, "enter")
        await until(pilot, lambda: f"{topic}-0" in text(console), "the topic")
        await _compared(pilot, console)
        await pilot.press("p")
        await until(pilot, lambda: console.current_mode == "plan", "the plan's screen")
        await until(pilot, lambda: f"{topic}-1" in text(console), "the plan")
        await pilot.press("s")
        await until(pilot, lambda: len(console.screen_stack) == 2, "the question for a name")
        await pilot.press("ctrl+u", *str(plan), "enter")
        await until(pilot, plan.exists, "the plan's file")
        assert context.known.incident is not None
        return context.known.incident


async def _compared(pilot: Any, console: BundleConsole) -> None:
    """What b1 alone has is there record by record, without what is in the records."""
    await pilot.press("d")
    await until(pilot, lambda: len(console.screen_stack) == 2, "the comparison")
    pairs = console.screen.query_one(PairList)
    alone = dict.fromkeys(range(SHARED, SHARED + B1_ALSO), "<")
    await until(pilot, lambda: pairs.window.pairs, "its records")
    found = {pair.offset: str(pair.kind) for pair in pairs.window.pairs if pair.offset >= SHARED}
    assert found == alone
    await pilot.press("escape")


def judged(ended: Any) -> dict[str, tuple[Any, ...]]:
    """What `triage` says of each partition."""
    return {
        f"{document['topic']}-{document['partition']}": (
            document["verdict"],
            document["action"],
            document["designated_leader"],
            document["loses"] and document["loses"]["records"],
        )
        for document in partitions(ended)
    }


def captured(broken: Cluster, folder: Path) -> tuple[Path, dict[str, tuple[Any, ...]]]:
    """A bundle, and what `triage` says of each partition; before it was captured, it said the same.

    A broker of a busy machine may be fenced for a moment.
    """
    taken: list[tuple[Path, dict[str, tuple[Any, ...]]]] = []

    def alike() -> bool:
        path = folder / f"b-{len(taken)}.tar.gz"
        before = judged(on(broken, "triage", "--json", "--gone", 3))
        ended = on(broken, "bundle", "capture", "--to", path, "--gone", 3)
        assert ended.code == 0, ended.err
        taken.append((path, judged(on(broken, "triage", "--json", "--gone", 3))))
        return before == taken[-1][1]

    wait_until(alike, "a bundle of one moment", instead=lambda: taken[-1])
    return taken[-1]


async def test_verdicts_are_those_of_the_brokers_and_a_plan_of_the_bundle_runs(
    broken: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, late = tmp_path / "plan.json", tmp_path / "late.json"
    path, live = captured(broken, tmp_path)
    with monkeypatch.context() as alone:
        alone.setattr(Sender, "__init__", None)
        shown = await planned(path, "bundled", plan)
        await planned(path, "outdated", late)
    assert live == {
        str(row.partition): (str(row.verdict), str(row.action), row.designee, row.loss)
        for row in shown.rows
    }
    assert plan_in(plan).cluster_id == broken.layout.cluster_id

    refused = on(broken, "recover", "--plan", plan, "--write")
    assert (refused.code, leader(broken, "bundled")) == (3, None)
    ended, phrases = agreeing(broken, "recover", "--plan", plan, "--json")
    assert ended.code == 0, ended.err
    assert phrases == breakglass("plan", "show", plan, "--json").document["consents"]
    assert results(ended) == {"bundled-0": "elected", "bundled-1": "elected"}
    assert [leader(broken, "bundled", number) for number in (0, 1)] == [1, 1]

    elect_unclean(broken, partition("outdated", 1))
    recreate(broken, "outdated-again")
    ended, phrases = agreeing(broken, "recover", "--plan", late, "--json")
    assert phrases == ["outdated-0 lose 0 and abandon b3"]
    assert ended.code == 1
    assert results(ended) == {
        "outdated-0": "elected",
        "outdated-1": "already online",
        "outdated-again-0": "refused",
    }
    assert leader(broken, "outdated", 1) == 2


def test_what_the_bundle_has_of_real_brokers(broken: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    ended = on(broken, "bundle", "capture", "--to", path, "--gone", 3, "--contents-of", "bare")
    assert ended.code == 0, ended.err
    found = open_bundle(path)
    assert found.manifest.cluster_id == broken.layout.cluster_id
    assert {setting.name for setting in found.brokers[1].settings} > {"log.dirs", "node.id"}  # type: ignore[union-attr]
    assert {part.what for part in found.manifest.unread} >= {"the replicas on b3"}
    contents = [
        (held.partition.topic, record.value is not None and record.value.kept is not None)
        for held in found.records.values()
        for record in held.records
    ]
    assert contents
    assert {topic for topic, kept in contents if kept} <= {"bare"}
    assert b"bundled" in unpacked(path)
