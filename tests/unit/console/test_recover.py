"""`plan make`, `recover` and `recover resume` against fake brokers: what is said, and the end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeClusterRequest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.file import (
    parse_plan,
)
from breakglass.services.state_folder import state_folder
from tests.kit import fake_metadata
from tests.kit.fake_controller import after, failing
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.plans import read_plan
from tests.kit.program import breakglass
from tests.unit.console.fakes import Fakes, fakes


class Killed(BaseException):
    """Ends the program as kill -9 would, as far as its files are concerned."""


@pytest.fixture
def broken() -> Iterator[Fakes]:
    with fakes() as made:
        yield made


@pytest.fixture
def plan(broken: Fakes, tmp_path: Path) -> Path:
    """A plan over orders-0 to orders-2."""
    broken.offline("orders", 3)
    path = tmp_path / "plan.json"
    assert broken.run("plan", "make", "--gone", 3, "--out", path).code == 0
    return path


CONSENT = "3 partitions lose 0 and abandon b3"


def recover(broken: Fakes, plan: Path, *more: object) -> Any:
    return broken.run("recover", "--plan", plan, "--write", *more)


def killed_at(
    step: str, monkeypatch: pytest.MonkeyPatch, broken: Fakes, plan: Path, *more: object
) -> None:
    """Recover by *plan* in a process that is killed when it sends *step*."""

    def die(*_: object, **__: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(ElectionClient, step, die)
        with pytest.raises(Killed):
            recover(broken, plan, "--consent", CONSENT, *more)


def journals() -> list[JournalView]:
    return [journal for journal in list_journals(CLUSTER_ID) if isinstance(journal, JournalView)]


def test_make_prints_the_plan_as_json_and_talks_on_stderr(broken: Fakes) -> None:
    broken.offline("orders", 2)
    ended = broken.run("plan", "make", "--note", "for the night shift")
    assert ended.code == 0
    made = parse_plan(ended.out, "stdout")
    assert list(made.leaders.values()) == [1, 1]
    assert made.breakglass is not None
    assert made.breakglass.notes == ("for the night shift",)
    assert made.cluster_id == CLUSTER_ID
    assert f"digest: {made.spoken_digest}" in ended.said


def test_make_says_which_elections_a_start_would_spare(broken: Fakes) -> None:
    broken.offline("orders", 2)
    said = broken.run("plan", "make").err
    assert "2 of these need no election if you can reconnect b3" in said
    ended = broken.run("plan", "make", "--without-waiting")
    assert ended.code == 1
    assert json.loads(ended.out)["partitions"] == []
    assert "left out: orders-0, orders-1: WAIT: b3 is the last known leader" in ended.err


def test_make_ends_with_1_when_it_can_recommend_nobody(broken: Fakes) -> None:
    (partition,) = broken.offline()
    broken.cluster.hold(2, partition, (0, 60), (4, 5))
    broken.cluster.hold(1, partition, (0, 100))
    ended = broken.run("plan", "make", "--gone", 3)
    assert ended.code == 1
    assert "left out: orders-0: FORK: history fork" in ended.err


@pytest.mark.parametrize(
    "gone", [("--gone", 3, 4), ("--gone", "3,4"), ("--gone", "b3 b4"), ("--gone=3", "--gone", 4)]
)
def test_make_takes_brokers_that_are_gone_as_the_console_does(
    broken: Fakes, gone: tuple[object, ...]
) -> None:
    broken.offline()
    made = parse_plan(broken.run("plan", "make", *gone).out, "stdout")
    assert made.breakglass is not None
    assert made.breakglass.notes == ("b3 was declared gone", "b4 was declared gone")


def test_make_is_done_when_nothing_is_offline(broken: Fakes) -> None:
    ended = broken.run("plan", "make")
    assert ended.code == 0
    assert "No partition is offline." in ended.said


def test_recover_tells_the_whole_end_as_one_document(broken: Fakes, plan: Path) -> None:
    ended = recover(broken, plan, "--consent", CONSENT, "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["plan"] == str(plan)
    assert document["succeeded"] is True
    assert {one["result"] for one in document["partitions"]} == {"elected"}
    assert document["rescued"] == []
    assert document["groups_past_end"] == []
    (given_up,) = document["given_up"]
    assert (given_up["broker"], len(given_up["partitions"])) == (3, 3)
    assert f"{given_up['advice']}" in ended.said
    assert broken.leaders() == dict.fromkeys(("orders-0", "orders-1", "orders-2"), 1)


def test_r19_groups_past_the_end_are_told_before_and_after(broken: Fakes, tmp_path: Path) -> None:
    broken.offline("orders", 3)
    (first, *_) = broken.cluster.story.states
    broken.cluster.story.groups["billing"] = {first: 130}
    plan = tmp_path / "plan.json"
    assert broken.run("plan", "make", "--gone", 3, "--out", plan).code == 0
    before = recover(broken, plan)
    assert before.code == 3
    assert "group billing: committed 130 on orders-0, whose log ends at 100: once" in before.err
    ended = recover(broken, plan, "--consent", CONSENT, "--json")
    assert "group billing: committed 130 on orders-0, whose log ends at 100: now" in ended.err
    (past,) = ended.document["groups_past_end"]
    assert (past["group"], past["committed"], past["log_end"]) == ("billing", 130, 100)


@pytest.mark.parametrize("more", [[], ["--consent", "3 partitions lose 1"]])
def test_nothing_is_sent_without_the_phrase(broken: Fakes, plan: Path, more: list[str]) -> None:
    ended = recover(broken, plan, *more)
    assert ended.code == 3
    assert ended.said[-1] == f"consent: {CONSENT}"
    assert ended.out == ""
    assert broken.controller.steps == []
    assert journals() == []


def test_what_is_elected_is_shown_with_its_price_before_consent(broken: Fakes, plan: Path) -> None:
    ended = recover(broken, plan)
    table = [one.split() for one in ended.said if one.startswith("orders-")]
    assert [row[:3] for row in table] == [[f"orders-{n}", "b1", "rank"] for n in range(3)]


def test_two_operators_at_once_the_second_is_told(broken: Fakes, plan: Path) -> None:
    lock = ClusterLock.acquire(CLUSTER_ID, state_folder() / "locks")
    try:
        ended = recover(broken, plan, "--consent", CONSENT)
    finally:
        lock.release()
    assert ended.code == 3
    assert broken.controller.steps == []


def test_resume_says_what_is_left_and_changes_nothing_without_write(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan)
    ended = broken.run("recover", "resume")
    assert ended.code == 3
    assert ended.said[-1] == "resuming a recovery changes the cluster: add --write"
    rows = [text.split(maxsplit=2) for text in ended.said if text.startswith("orders-")]
    assert rows == [
        [f"orders-{n}", "b1", "elect it at the price of 0, abandoning b3"] for n in range(3)
    ]
    assert broken.controller.steps == ["reorder"]


def test_resume_finishes_what_was_agreed_to(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan)
    ended = broken.run("recover", "resume", "--write", "--json")
    assert ended.code == 0, ended.err
    assert {one["result"] for one in ended.document["partitions"]} == {"elected"}
    assert ended.document["left"] == []
    assert set(broken.leaders().values()) == {1}
    (journal,) = journals()
    assert ended.document["journal"] == str(journal.path)
    assert journal.result == "succeeded"

    again = broken.run("recover", "resume", "--write", "--json")
    assert again.code == 0
    assert again.said[0].startswith("Nothing to resume")
    assert again.document["journal"] is None
    assert again.document["succeeded"] is True


def test_resume_undoes_the_order_where_nobody_leads(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan)
    changed = [state for state in broken.cluster.story.states.values() if state.assignment[0] == 1]
    assert len(changed) == 1, "the canary"
    ended = broken.run("recover", "resume", "--undo", "--write")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0] == "orders-0  undone"
    assert {state.assignment for state in broken.cluster.story.states.values()} == {(3, 2, 1)}


def test_resume_leaves_what_would_now_cost_another_price(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan)
    (_, _, last) = broken.cluster.story.states
    broken.cluster.hold(2, last, (0, 120))
    ended = broken.run("recover", "resume", "--write")
    assert ended.code == 1
    (left,) = [text for text in ended.said if text.startswith("orders-2  left:")]
    assert "at the price of 0 records and would now lose 20" in left
    assert [broken.leaders()[f"orders-{n}"] for n in range(3)] == [1, 1, None]


def test_resume_asks_for_the_consent_that_the_journal_lacks(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "consent", die)
        with pytest.raises(Killed):
            recover(broken, plan, "--consent", CONSENT)
    ended = broken.run("recover", "resume", "--write")
    assert ended.code == 3
    assert ended.said[-1] == f"consent: {CONSENT}"
    assert broken.controller.steps == []
    assert broken.run("recover", "resume", "--write", "--consent", CONSENT).code == 0
    assert set(broken.leaders().values()) == {1}


def test_resume_names_the_journals_that_it_does_not_take(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("reorder", monkeypatch, broken, plan)
    killed_at("elect", monkeypatch, broken, plan)
    newest, older = journals()
    ended = broken.run("recover", "resume")
    assert f"left for another time: --journal {older.path}" in ended.said
    assert any(str(newest.path) in text for text in ended.said)
    named = broken.run("recover", "resume", "--journal", older.path)
    assert any(text.startswith(f"journal: {older.path}, begun by") for text in named.said)


def test_a_journal_without_elections_is_nothing_to_resume(broken: Fakes) -> None:
    with Journal.open(CLUSTER_ID) as journal:
        journal.request("reset offsets", {})
        path = journal.path
    assert broken.run("recover", "resume", "--write").said[0].startswith("Nothing to resume")
    named = broken.run("recover", "resume", "--journal", path)
    assert "It has no election that is left to be taken up." in named.said


def test_a_journal_of_another_cluster_is_refused(broken: Fakes) -> None:
    with Journal.open("another-cluster") as journal:
        path = journal.path
    ended = broken.run("recover", "resume", "--journal", path, "--write")
    assert ended.code == 2
    assert f"journal {path} is of cluster another-cluster and this is {CLUSTER_ID}" in ended.said[0]


def test_a_file_that_is_no_journal_is_refused_with_its_line(broken: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("{}\n")
    ended = broken.run("recover", "resume", "--journal", path, "--write")
    assert ended.code == 2
    assert f"journal {path} line 1" in ended.said[0]


def test_a_journal_that_another_process_works_on_is_not_taken(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan)
    lock = ClusterLock.acquire(CLUSTER_ID, state_folder() / "locks")
    try:
        ended = broken.run("recover", "resume", "--write")
    finally:
        lock.release()
    assert ended.code == 3
    assert broken.controller.steps == ["reorder"]


def test_prefer_asks_the_cluster_for_the_brokers_of_a_rack(broken: Fakes, tmp_path: Path) -> None:
    (partition,) = broken.offline()
    broken.cluster.hold(2, partition, (0, 100))
    told = {1: "cellar", 2: "attic", 3: "attic"}

    def with_racks(request: Any) -> Any:
        answer = fake_metadata.cluster(broken.cluster.story, request)
        for broker in answer.brokers:
            broker.rack = told[broker.broker_id]
        return answer

    for broker in broken.cluster.brokers.values():
        broker.serve(DescribeClusterRequest, with_racks)
    plan = tmp_path / "plan.json"
    broken.run("plan", "make", "--gone", 3, "--out", plan)
    before = read_plan(plan).leaders[partition]
    servers = ("--bootstrap-server", broken.cluster.brokers[1].endpoint)
    other = {"cellar": 1, "attic": 2}
    (rack,) = [name for name, broker in other.items() if broker != before]
    assert breakglass("plan", "prefer", plan, "--rack", rack, *servers).code == 0
    assert read_plan(plan).leaders == {partition: other[rack]}

    ended = breakglass("plan", "prefer", plan, "--rack", "garage", *servers)
    assert ended.code == 2
    assert ended.said == ["No broker is in rack garage: the racks are attic, cellar."]


def test_the_journals_of_the_cluster_that_is_named_are_shown(broken: Fakes, plan: Path) -> None:
    assert recover(broken, plan, "--consent", CONSENT).code == 0
    with Journal.open("another", state_folder()) as newer:
        newer.note("of another cluster")
    named = ("--bootstrap-server", broken.cluster.brokers[1].endpoint)
    for command in ("show", "timeline", "list"):
        told = breakglass("journal", command, "--json", *named)
        assert told.code == 0, told.err
        assert CLUSTER_ID in told.out
        assert str(newer.path) not in told.out
    assert breakglass("journal", "show", newer.path.stem, *named).code == 2
    assert breakglass("journal", "show", "--json").document["journal"] == str(newer.path)


def test_a_journal_is_resumed_by_its_name_too(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("elect", monkeypatch, broken, plan, "--consent", CONSENT)
    (interrupted,) = journals()
    ended = broken.run("recover", "resume", interrupted.path.stem, "--write")
    assert ended.code == 0, ended.err
    both = ("--journal", interrupted.path, "another")
    assert broken.run("recover", "resume", *both, "--write").code == 2


def test_what_is_left_ends_with_the_exit_code_and_the_next_command(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise StorageError("the journal is full")

    announce = Journal.request

    def request(self: Journal, step: str, *more: Any, **details: Any) -> int:
        return full() if step == "elect" else announce(self, step, *more, **details)

    monkeypatch.setattr(Journal, "request", request)
    ended = recover(broken, plan, "--consent", CONSENT)
    (left,) = journals()
    assert ended.code == 1
    assert ended.said[-1] == (
        "exit 1: 2 not attempted, 1 order written, not elected of 3; `breakglass recover resume "
        f"--journal {left.path} --write` finishes what is left, with --undo it puts orders back"
    )
    assert "orders-0  order written, not elected: the journal is full" in ended.err
    told = breakglass("journal", "show")
    assert "order written, not elected" in told.out


@pytest.fixture
def heeded_hangup() -> Iterator[None]:
    """A lost terminal ends programs, whatever the tests themselves were started by."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heeded_hangup")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_a_signal_stops_ends_with_130_after_the_batch_under_way(
    broken: Fakes, plan: Path, number: signal.Signals
) -> None:
    broken.controller.next(ElectLeadersRequest, after(lambda: os.kill(os.getpid(), number)))
    ended = recover(broken, plan, "--consent", CONSENT)
    (left,) = journals()
    assert (ended.code, left.result) == (130, None)
    assert ended.said[-1] == (
        f"exit 130: 2 not attempted of 3; `breakglass recover resume --journal {left.path} "
        "--write` finishes what is left"
    )


def test_a_lost_terminal_that_nohup_has_ignored_stops_nothing(broken: Fakes, plan: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hung_up = after(lambda: os.kill(os.getpid(), signal.SIGHUP))
        broken.controller.next(ElectLeadersRequest, hung_up)
        assert recover(broken, plan, "--consent", CONSENT).code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_whole_says_nothing_of_an_exit(broken: Fakes, plan: Path) -> None:
    ended = recover(broken, plan, "--consent", CONSENT)
    assert ended.code == 0
    assert "exit" not in ended.err


def test_an_order_that_is_not_put_back_is_named_with_its_command_and_can_be_resumed(
    broken: Fakes, plan: Path
) -> None:
    through = lambda request, answer: answer(request)  # noqa: E731
    broken.controller.next(AlterPartitionReassignmentsRequest, through, failing(42))
    ended = recover(broken, plan, "--consent", CONSENT, "--json")
    (left,) = journals()
    assert (ended.code, left.result) == (1, "partly failed")
    first = ended.document["partitions"][0]
    assert (first["result"], first["order_restored"]) == ("elected", False)
    assert "order not put back: `breakglass recover resume --write` does it" in ended.err
    assert "exit 1: 1 order not put back of 3; `breakglass recover resume --journal" in ended.err
    again = broken.run("recover", "resume", "--write")
    assert again.code == 0, again.err
    assert broken.cluster.story.states[TopicPartition("orders", 0)].assignment == (3, 2, 1)


def test_the_ledger_names_the_plan_its_approvals_and_what_each_replica_held(
    broken: Fakes, plan: Path
) -> None:
    assert breakglass("plan", "approve", plan, "--by", "grace").code == 0
    assert recover(broken, plan, "--consent", CONSENT).code == 0
    ended = breakglass("recover", "report", "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert (document["digest"], document["approved_by"]) == (read_plan(plan).digest, ["grace"])
    assert [one["phrase"] for one in document["consents"]] == [CONSENT]
    held = {one["broker"]: one["end"] for one in document["partitions"][0]["replicas"]}
    record = read_plan(plan).records[TopicPartition("orders", 0)]
    assert {broker: end for broker, end in held.items() if isinstance(end, int)} == {
        replica.broker: replica.log_end
        for replica in record.evidence.replicas
        if isinstance(replica.log_end, int)
    }
    assert document["adds_up"] is True
    assert all(one["held"] for one in document["partitions"])
