"""A time bomb that was stopped stays one for every command that comes later, in a new process."""

from dataclasses import replace
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios import behind
from breakglass.services.lab.scenarios.scenario import Script, Stage
from tests.lab.console.commands import on
from tests.lab.scenarios.damaged import cluster_after


def _script(stage: Stage) -> Script:
    """b4 comes back EMPTY where others hold records, and where there never was one."""
    stage.create("unwritten", [(4, 1, 2)])
    return (yield from behind.REPLACED_DISK.script(stage))


BROKEN = replace(behind.REPLACED_DISK, name="replaced-disk-beside-unwritten", script=_script)


replaced = cluster_after(BROKEN)
"""Its tests build on one another, in their order."""


def test_r02_a_stopped_bomb_is_not_to_be_started_by_a_command_that_never_read_it(
    replaced: Cluster, tmp_path: Path
) -> None:
    cluster = replaced
    first = on(cluster, "triage")
    assert "FIRST stop b4 NOW: BOMB on 3." in first.said
    cluster.broker(4).kill()
    cluster.wait_fenced(4)

    later = on(cluster, "triage", "--json")
    assert {each["action"] for each in later.document["partitions"]} == {"elect b1"}
    assert not [each for each in later.document["partitions"] if 4 in each["unproved"]]
    planned = on(cluster, "plan", "make", "--out", tmp_path / "plan.json")
    assert planned.code == 0, planned.err
    returning = on(cluster, "rescue", "--before-return", 4, "--to", tmp_path / "saved")
    assert returning.code == 1
    assert "keep b4 down" in returning.err


def test_on_a_machine_that_has_seen_nothing_a_start_has_its_condition(
    replaced: Cluster, tmp_path: Path
) -> None:
    found = on(replaced, "triage", "--json")
    partitions = found.document["partitions"]
    assert {each["action"] for each in partitions} == {"start b4"}
    assert {tuple(each["unproved"]) for each in partitions} == {(4,)}
    shown = on(replaced, "triage")
    (headline,) = [line for line in shown.said if "start b4" in line.lower()]
    assert "whole if its unread disk lost nothing" in headline
    saved = on(replaced, "rescue", "--before-return", 4, "--to", tmp_path, "--json")
    assert saved.code == 0, saved.err
    places = [place for each in saved.document["partitions"] for place in each["saved"]]
    assert sum(place["records"] for place in places) == 3 * 125
