"""`breakglass journal`, command by command, on journals of the user's state folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    LogFate,
    Observations,
    ReplicaAhead,
)
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.state_folder import state_folder
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID, TOPIC_ID
from tests.kit.program import Ended, breakglass
from tests.unit.console.conftest import Golden
from tests.unit.recovery.timeline import journals
from tests.unit.recovery.timeline.journals import CLUSTER, ORDERS


def run(*arguments: object, code: int = 0) -> Ended:
    ended = breakglass("journal", *arguments)
    assert ended.code == code, ended.err
    return ended


def document(*arguments: object) -> Any:
    return run(*arguments, "--json").document


@pytest.fixture
def state(user_folders: Path) -> Path:
    """The state folder, with a recovery and, newer, a reset of offsets of another cluster."""
    folder = state_folder()
    journals.recovery(folder)
    journals.group_reset(folder, "other")
    return folder


def test_all_journals_are_listed_newest_first_and_what_is_none_is_named(
    state: Path, golden: Golden, tmp_path: Path
) -> None:
    golden(run("list"))
    (one,) = document("list", "--cluster", CLUSTER)["journals"]
    assert (one["unknown"], one["outcomes"]) == (1, {"elected": 3, "unknown": 1})
    path = next((state / "journal").glob(f"*{CLUSTER}/*.jsonl"))
    path.write_text("{}\n")
    result = run("list")
    assert (str(path) in result.err, CLUSTER in result.out) == (True, False)
    (other, broken) = document("list")["journals"]
    assert (other["cluster_id"], broken["journal"]) == ("other", str(path))
    assert "line 1" in broken["unreadable"]
    run("show", "nothing", code=2)
    for words, code in ((["list"], 0), (["show"], 2)):
        claimed = run(*words, "--cluster", CLUSTER, code=code).err
        assert "changed" not in claimed, "what it has done is not known"
    notes = tmp_path / "notes.txt"
    notes.write_text("hello\n")
    run("timeline", notes, code=2)


def test_without_a_journal_the_list_is_empty_and_the_others_refuse(user_folders: Path) -> None:
    assert run("list").out == ""
    for words in (["show"], ["timeline"], ["check", "--bootstrap-server", "x:1"]):
        run(*words, code=2)


def test_the_newest_is_shown_unless_another_is_named_and_timelines_oldest_first(
    state: Path, golden: Golden
) -> None:
    assert run("show").out.splitlines()[1].split()[:2] == ["ledger-3", "moved"]
    (path,) = (state / "journal").glob(f"*{CLUSTER}/*.jsonl")
    assert run("show", path.stem) == run("show", path)
    golden(run("show", path.stem))
    assert len(document("show", path.stem)["partitions"]) == 4
    names = sorted(path.stem for path in (state / "journal").glob("*/*.jsonl"))
    assert run("timeline", *reversed(names)).out == run("timeline", *names).out
    assert len(document("timeline", *names)["timelines"]) == 2


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3) as cluster:
        yield cluster


def named(cluster: FakeCluster) -> tuple[str, str]:
    return "--bootstrap-server", str(cluster.brokers[1].endpoint)


@pytest.mark.parametrize(("leader", "result"), [(None, "not elected"), (2, "elected another")])
def test_unknown_outcomes_are_asked_for_again(
    user_folders: Path, cluster: FakeCluster, leader: int | None, result: str
) -> None:
    path = journals.interrupted(state_folder(), CLUSTER_ID)
    cluster.story.states = {
        order: PartitionState(order, TOPIC_ID, leader, 6, (1, 2, 3), (), (), ()) for order in ORDERS
    }
    answered = document("check", *named(cluster))
    assert [one["result"] for one in answered["answers"]] == [result] * 3
    assert answered["left"] == 3
    assert document("check", path.stem, *named(cluster))["answers"] == []


SEEN = ElectionSeen(
    TopicPartition("carts", 0), "an-id", 4, 6, 82_971_000, 0, True, 1, 125, 125, False,
    (ReplicaAhead(1, 125, 0, LogFate.DOWN),),
)  # fmt: skip
WORD = "SEEN: "


@pytest.fixture
def seen(user_folders: Path) -> Observations:
    found = Observations(CLUSTER_ID)
    found.add([SEEN])
    return found


def triage(cluster: FakeCluster, *more: str) -> str:
    ended = breakglass("triage", *named(cluster), *more)
    assert ended.code == 0, ended.err
    return ended.err


def test_triage_of_the_cluster_and_the_list_repeat_what_was_seen_until_somebody_takes_note(
    cluster: FakeCluster, seen: Observations
) -> None:
    ended = run("list")
    assert (WORD in ended.err, ended.out) == (True, "")
    for more in ((), ("--json",)):
        assert f"{WORD}b4" in triage(cluster, *more)
    cluster.story.cluster_id = "another"
    assert WORD not in triage(cluster)
    cluster.story.cluster_id = CLUSTER_ID
    run("observed", "--acknowledge")
    for more in ((), ("--json",)):
        assert WORD not in triage(cluster, *more)
    seen.path.unlink()
    seen.path.mkdir()
    assert str(seen.path) in triage(cluster), "what cannot be read stops no triage"


def test_what_was_seen_is_listed_with_who_took_note(seen: Observations, golden: Golden) -> None:
    golden(run("observed"))
    assert run("observed", "--cluster", "another").out == ""
    (one,) = document("observed")["observations"]
    assert (one["cluster_id"], one["missing"], one["acknowledged_by"]) == (CLUSTER_ID, 125, None)
    run("observed", "--acknowledge")
    (one,) = document("observed")["observations"]
    assert one["acknowledged_by"]
