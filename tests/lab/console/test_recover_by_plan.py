"""From `plan make` to `recover --plan` on real brokers: what is chosen is elected."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.bundle_console import BundleConsole
from breakglass.screens.diff.pair_list import PairList
from breakglass.services.bundle.contents import open_bundle
from breakglass.services.guard import act as guard
from breakglass.services.guard.act import Front
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import LEADER_ELECTION, run_tool
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.recovery.acts.add_replicas import AddReplicas
from tests.kit.bundles import unpacked
from tests.kit.program import Ended, breakglass
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.asking import consume, delete_topic, list_offset, reassign_code
from tests.lab.console.commands import (
    agreeing,
    elections,
    last_journal,
    leader,
    made_plan,
    on,
    partition,
    partitions,
    plan_in,
    results,
)
from tests.lab.console.conftest import ACKED, B1_ALSO, LAGGING, READABLE, SHARED
from tests.lab.recover.session import watched
from tests.screens.bundle_consoles import console_of
from tests.screens.turns import lines, text, until

B1_END = SHARED + B1_ALSO


def test_a_plan_is_made_edited_checked_and_comes_true(broken: Cluster, tmp_path: Path) -> None:
    plan = made_plan(broken, tmp_path, "whole-way")
    assert set(plan_in(plan).leaders.values()) == {1}

    assert breakglass("plan", "edit", plan, "whole-way-0=2").code == 0
    assert breakglass("plan", "exclude", plan, "whole-way-3").code == 0
    checked = on(broken, "plan", "check", plan, "--json")
    assert checked.code == 0
    assert {document["status"] for document in partitions(checked)} == {"unchanged"}
    wanted = breakglass("plan", "show", plan, "--json").document["consents"]

    ended, phrases = agreeing(broken, "recover", "--plan", plan, "--json")
    assert ended.code == 0, ended.err
    assert sorted(phrases) == sorted(wanted)
    assert results(ended) == dict.fromkeys((f"whole-way-{n}" for n in range(3)), "elected")
    assert {document["rung"] for document in partitions(ended)} <= {"writable", "redundant"}
    assert all(document["order_restored"] for document in partitions(ended))
    assert [leader(broken, "whole-way", n) for n in range(4)] == [2, 1, 1, None]
    journal = last_journal(broken)
    assert journal.result == "succeeded"
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == plan_in(plan).digest

    again = on(broken, "recover", "--plan", plan, "--write")
    assert again.code == 0
    assert again.out.splitlines() == [f"whole-way-{n}  already online" for n in range(3)]


@pytest.fixture(scope="module")
def lagging(broken: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """The election of `LAGGING` and its journal.

    min.insync.replicas is 2, b1 alone is in sync, and its high watermark is behind.
    """
    plan = made_plan(broken, tmp_path_factory.mktemp("lagging"), LAGGING.topic)
    ended, _ = agreeing(broken, "recover", "--plan", plan, "--json")
    return ended, last_journal(broken).path


def test_r30_what_is_elected_and_not_readable_yet_is_counted_with_what_it_waits_for(
    broken: Cluster, lagging: tuple[Ended, Path]
) -> None:
    ended, journal = lagging
    assert ended.code == 0, ended.err
    (told,) = partitions(ended)
    figures = (told["result"], told["rung"], told["records"], told["not_yet_readable"])
    assert figures == ("elected", "serving", B1_END, B1_END - READABLE)
    assert f"{B1_END - READABLE} records of {LAGGING} are not readable yet" in ended.err
    assert len(consume(broken, LAGGING)) == READABLE

    ledger = on(broken, "report", journal, "--json").document
    assert ledger["adds_up"]
    assert ledger["sums"]["kept"]["records"] == B1_END
    assert ledger["not_yet_readable"] == B1_END - READABLE
    unasked = breakglass("report", journal, "--json").document
    assert unasked["not_yet_readable"] is None


def test_r50_the_rest_becomes_readable_by_a_replica_that_is_added_and_none_is_taken(
    broken: Cluster, lagging: tuple[Ended, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FRESH_SECONDS", DEADLINE_SECONDS)
    with watched(broken) as behind:
        armed, phrase = behind.connection.armed(), [f"{LAGGING} gains b2"]
        act, front = AddReplicas(), Front(armed.access(), state_folder=tmp_path)
        run = guard.GuardedRun(act, front)
        agreed = run.freeze()
        assert reassign_code(broken, LAGGING, [1, 3]) == (0, None)
        ending = run.carry_out(armed.power("a test"), agreed, phrase)
        assert [outcome.result for outcome in ending.value] == ["failed"]
        with pytest.raises(guard.ConsentOutdated):
            guard.GuardedRun(act, front).carry_out(armed.power("a test"), agreed, phrase)
        assert behind.changes == []

    before = broken.partition(LAGGING.topic, 0)
    shown = on(broken, "after", "add-replica", "--topics", LAGGING.topic)
    assert shown.code == 3
    assert f"{B1_END - READABLE} records of {LAGGING} are not readable yet" in shown.err
    assert broken.partition(LAGGING.topic, 0) == before

    added, phrases = agreeing(broken, "after", "add-replica", "--json")
    assert (added.code, phrases) == (0, [f"{LAGGING} gains b2"]), added.err
    assert len(consume(broken, LAGGING)) == B1_END
    now = broken.partition(LAGGING.topic, 0)
    assert (now.assignment, set(now.isr), now.leader) == ((1, 3, 2), {1, 2}, 1)
    assert [one["result"] for one in partitions(added)] == ["done"]
    assert last_journal(broken).result == "succeeded"
    ledger = on(broken, "report", lagging[1], "--json").document
    assert ledger["not_yet_readable"] == 0
    again = on(broken, "after", "add-replica", "--write")
    assert (again.code, broken.partition(LAGGING.topic, 0)) == (0, now), again.err


def test_r29_what_every_replica_in_sync_acknowledged_is_not_called_uncommitted(
    broken: Cluster,
) -> None:
    """b3 and b1 acknowledged b1's last records; b1's high watermark does not say so."""
    triaged = on(broken, "triage", "--topics", ACKED.topic, "--gone", 3, "--json")
    (told,) = partitions(triaged)
    assert told["designated_leader"] == 1
    (loses,) = [one["loses_if_chosen"] for one in told["replicas"] if one["broker"] == 2]
    assert (loses["records"], loses["committed"], loses["unproven"]) == (B1_ALSO, 0, B1_ALSO)
    assert "uncommitted" not in triaged.out


def test_designated_means_designated_though_another_is_first_and_longer(
    broken: Cluster, tmp_path: Path
) -> None:
    plan = elections(tmp_path, {partition("bare"): 2})
    state = broken.partition("bare", 0)
    assert state.assignment == (3, 1, 2)
    assert list_offset(broken, 1, partition("bare")).offset == B1_END
    assert list_offset(broken, 2, partition("bare")).offset == SHARED

    refused = on(broken, "recover", "--plan", plan, "--write")
    assert refused.code == 3
    assert "over b1, which ranks first and loses 0" in refused.err
    assert refused.said[-1] == f"consent: bare-0 lose {B1_ALSO} and abandon b3"
    assert leader(broken, "bare") is None

    ended, _ = agreeing(broken, "recover", "--plan", plan)
    assert ended.code == 0, ended.err
    assert leader(broken, "bare") == 2
    broken.wait_partition(
        "bare", 0, lambda now: now.assignment == state.assignment, "the order to be as it was"
    )
    assert len(consume(broken, partition("bare"))) == SHARED
    broken.wait_until(
        lambda: list_offset(broken, 1, partition("bare")).offset == SHARED,
        "b1 to be cut off where b2 ends",
    )


def test_a_bare_file_is_elected_as_far_as_it_can_be(broken: Cluster, tmp_path: Path) -> None:
    plan = elections(
        tmp_path,
        {partition("bare", 1): 1, partition("no-such-topic"): 1, partition("preferred"): 2},
    )
    checked = on(broken, "plan", "check", plan, "--json")
    assert checked.code == 1
    assert [document["status"] for document in partitions(checked)] == ["new", "deleted", "online"]
    ended, _ = agreeing(broken, "recover", "--plan", plan, "--json")
    assert ended.code == 1
    assert results(ended) == {
        "bare-1": "elected",
        "no-such-topic-0": "refused",
        "preferred-0": "already online",
    }


def test_r24_kafkas_own_tool_reads_our_plan_and_elects_by_order(
    broken: Cluster, tmp_path: Path
) -> None:
    plan = made_plan(broken, tmp_path, "by-order")
    assert set(plan_in(plan).leaders.values()) == {1}
    done = run_tool(
        broken.kafka,
        LEADER_ELECTION,
        [
            *("--bootstrap-server", broken.bootstrap_servers),
            *("--election-type", "unclean", "--path-to-json-file", str(plan)),
        ],
    ).check()
    assert "completed" in done.stdout
    # The tool is told by the controller, brokers a moment later.
    broken.wait_until(
        lambda: [leader(broken, "by-order", number) for number in range(2)] == [1, 2],
        "the leaders that the tool elected",
    )


def test_what_changed_since_the_plan_is_skipped_with_the_reason(
    broken: Cluster, tmp_path: Path
) -> None:
    plan = made_plan(broken, tmp_path, "moved-on", "recreated")
    elect_unclean(broken, partition("moved-on", 1))
    delete_topic(broken, "recreated")
    create_topic(broken, "recreated", [(1, 2)])

    checked = on(broken, "plan", "check", plan, "--json")
    assert checked.code == 1
    told = {
        (document["topic"], document["partition"]): document["status"]
        for document in partitions(checked)
    }
    assert told == {
        ("moved-on", 0): "unchanged",
        ("moved-on", 1): "online",
        ("recreated", 0): "changed",
    }
    ended, phrases = agreeing(broken, "recover", "--plan", plan)
    assert phrases == ["moved-on-0 lose 0 and abandon b3"]
    assert ended.code == 1
    assert "moved-on-1  already online: led by b2" in ended.out
    assert "moved-on-0  elected b1" in ended.out
    assert (
        "recreated-0  refused: the topic was deleted and created again: make the plan again"
        in ended.said
    )


def test_a_plan_of_another_cluster_is_refused_before_anything_is_asked_for(
    broken: Cluster, tmp_path: Path
) -> None:
    plan = made_plan(broken, tmp_path, "refusals")
    document = json.loads(plan.read_text())
    document["breakglass"]["cluster_id"] = "another-cluster"
    plan.write_text(json.dumps(document))
    for command in (["plan", "check", plan], ["recover", "--plan", plan, "--write"]):
        ended = on(broken, *command)
        assert ended.code == 2
        assert ended.said[-1] == (
            f"{plan} was made for cluster another-cluster and this is cluster "
            f"{broken.layout.cluster_id}: connect to the right one, or make a plan for this one."
        )
    assert leader(broken, "refusals") is None


def test_r16_an_unreachable_replica_is_elected_on_a_consent_of_its_own(
    broken: Cluster, tmp_path: Path
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"2=127.0.0.1:{nobody.getsockname()[1]}"
        unreached = ("--broker-address", away, "--recovery-duration-ms", "1000")
        plan = made_plan(broken, tmp_path, "unreachable", more=unreached)
        assert plan_in(plan).leaders == {partition("unreachable"): 1}
        assert breakglass("plan", "edit", plan, "unreachable-0=2").code == 0

        ended, phrases = agreeing(broken, "recover", "--plan", plan, *unreached)
    assert phrases == ["unreachable-0 lose unknown and abandon b3"]
    assert ended.code == 4
    assert "unreachable-0  unknown: b2 was elected but does not answer" in ended.err
    last, before = ended.said[-1], ended.said[-2]
    assert last.startswith("exit 4: 1 unknown of 1; `breakglass journal check ")
    assert before.startswith("do not start b3 before its log folders are saved"), "it may have"
    assert leader(broken, "unreachable") == 2


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
    delete_topic(broken, "outdated-again")
    create_topic(broken, "outdated-again", [(1, 2)])
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
