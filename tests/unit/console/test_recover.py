"""`plan make`, `recover` and `recover resume` against fake brokers: what is done, and the end."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeClusterRequest

from breakglass.console.recover import forks_decided
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.file import parse_plan
from breakglass.services.state_folder import state_folder
from tests.kit import fake_metadata
from tests.kit.fake_controller import after, failing
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.plans import read_plan
from tests.kit.program import Ended, breakglass
from tests.unit.console.conftest import Golden
from tests.unit.console.fakes import Fakes
from tests.unit.recovery.plans import FORK, SAFE, planned

CONSENT = "3 partitions lose 0 and abandon b3"
KilledAt = Callable[[type, str], None]


class Killed(BaseException):
    """Ends the program as kill -9 would, as far as its files are concerned."""


@pytest.fixture
def plan(broken: Fakes, tmp_path: Path) -> Path:
    broken.offline("orders", 3)
    path = tmp_path / "plan.json"
    assert broken.run("plan", "make", "--gone", 3, "--out", path).code == 0
    return path


def recover(broken: Fakes, plan: Path, *more: object) -> Ended:
    return broken.run("recover", "--plan", plan, "--write", *more)


def resume(broken: Fakes, *more: object) -> Ended:
    return broken.run("recover", "resume", *more)


@pytest.fixture
def killed_at(broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch) -> KilledAt:
    """Recovers by the plan in a process that is killed when it calls a method of a class."""

    def die(*_: object, **__: object) -> NoReturn:
        raise Killed

    def kill(owner: type, method: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, die)
            with pytest.raises(Killed):
                recover(broken, plan, "--consent", CONSENT)

    return kill


@pytest.fixture
def killed(killed_at: KilledAt) -> JournalView:
    """The journal of a recovery that was killed when it had ordered the canary's replicas."""
    killed_at(ElectionClient, "elect")
    (journal,) = journals()
    return journal


@pytest.fixture
def locked() -> Iterator[None]:
    lock = ClusterLock.acquire(CLUSTER_ID, state_folder() / "locks")
    yield
    lock.release()


def journals() -> list[JournalView]:
    return [journal for journal in list_journals(CLUSTER_ID) if isinstance(journal, JournalView)]


def test_make_prints_the_plan_as_json_and_talks_on_stderr(broken: Fakes, golden: Golden) -> None:
    broken.offline("orders", 2)
    ended = broken.run("plan", "make", "--note", "for the night shift")
    made = parse_plan(ended.out, "stdout")
    assert list(made.leaders.values()) == [1, 1]
    assert made.breakglass is not None
    assert made.breakglass.notes == ("for the night shift",)
    assert made.cluster_id == CLUSTER_ID
    golden(ended._replace(out=""))


def test_make_ends_with_1_when_it_recommends_a_leader_for_none(broken: Fakes) -> None:
    assert broken.run("plan", "make").code == 0, "nothing is offline"
    (partition,) = broken.offline()
    ended = broken.run("plan", "make", "--without-waiting")
    assert (ended.code, ended.document["partitions"]) == (1, []), "a start would spare it"
    broken.cluster.hold(2, partition, (0, 60), (4, 5))
    broken.cluster.hold(1, partition, (0, 100))
    ended = broken.run("plan", "make", "--gone", 3)
    assert (ended.code, ended.document["partitions"]) == (1, []), "the logs diverge"
    assert any("breakglass plan edit FILE orders-0=" in line for line in ended.said), "the way on"


@pytest.mark.usefixtures("heeded_hangup")
def test_recover_reports_the_whole_end_as_one_document_though_an_ignored_terminal_is_lost(
    broken: Fakes, plan: Path
) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hung_up = after(lambda: os.kill(os.getpid(), signal.SIGHUP))
    broken.controller.next(ElectLeadersRequest, hung_up)
    ended = recover(broken, plan, "--consent", CONSENT, "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert (document["plan"], document["succeeded"]) == (str(plan), True)
    assert {one["result"] for one in document["partitions"]} == {"elected"}
    assert (document["rescued"], document["groups_past_end"]) == ([], [])
    (given_up,) = document["given_up"]
    assert (given_up["broker"], len(given_up["partitions"])) == (3, 3)
    assert given_up["advice"] in ended.said
    assert broken.leaders() == dict.fromkeys(("orders-0", "orders-1", "orders-2"), 1)


def test_r19_groups_past_the_end_are_named_before_and_after(broken: Fakes, plan: Path) -> None:
    (first, *_) = broken.cluster.story.states
    broken.cluster.story.groups["billing"] = {first: 130}
    new = plan.with_name("new.json")
    assert broken.run("plan", "make", "--gone", 3, "--out", new).code == 0
    before = recover(broken, new)
    ended = recover(broken, new, "--consent", CONSENT, "--json")
    assert before.code == 3
    for one in (before, ended):
        assert "group billing: committed 130" in one.err
    (past,) = ended.document["groups_past_end"]
    assert (past["group"], past["committed"], past["log_end"]) == ("billing", 130, 100)


@pytest.mark.parametrize("more", [[], ["--consent", "3 partitions lose 1"]])
def test_nothing_is_sent_without_the_phrase(broken: Fakes, plan: Path, more: list[str]) -> None:
    ended = recover(broken, plan, *more)
    assert (ended.code, ended.out, ended.said[-1]) == (3, "", f"consent: {CONSENT}")
    assert broken.controller.steps == []
    assert journals() == []


def test_what_is_elected_is_shown_with_its_price_before_consent(
    broken: Fakes, plan: Path, golden: Golden
) -> None:
    ended = recover(broken, plan)
    table = [one.split() for one in ended.said if one.startswith("orders-")]
    assert [row[:3] for row in table] == [[f"orders-{n}", "b1", "rank"] for n in range(3)]
    golden(ended)


@pytest.mark.usefixtures("locked")
def test_two_operators_at_once_the_second_is_refused(broken: Fakes, plan: Path) -> None:
    assert recover(broken, plan, "--consent", CONSENT).code == 3
    assert broken.controller.steps == []


@pytest.mark.usefixtures("killed", "locked")
def test_a_journal_that_another_process_works_on_is_not_taken(broken: Fakes) -> None:
    assert resume(broken, "--write").code == 3
    assert broken.controller.steps == ["reorder"]


@pytest.mark.usefixtures("killed")
def test_resume_shows_what_is_left_and_changes_nothing_without_write(
    broken: Fakes, golden: Golden
) -> None:
    ended = resume(broken)
    assert ended.code == 3
    assert broken.controller.steps == ["reorder"]
    golden(ended)


def test_resume_finishes_what_was_agreed_to_and_then_has_nothing_to_do(
    broken: Fakes, killed: JournalView
) -> None:
    ended = resume(broken, killed.path.stem, "--write", "--json")
    assert ended.code == 0, ended.err
    assert {one["result"] for one in ended.document["partitions"]} == {"elected"}
    assert (ended.document["left"], ended.document["journal"]) == ([], str(killed.path))
    assert set(broken.leaders().values()) == {1}
    (journal,) = journals()
    assert journal.result == "succeeded"
    again = resume(broken, "--write", "--json")
    assert again.code == 0
    assert (again.document["journal"], again.document["succeeded"]) == (None, True)


@pytest.mark.usefixtures("killed")
def test_resume_leaves_what_has_another_price_than_was_agreed_to(broken: Fakes) -> None:
    (_, _, last) = broken.cluster.story.states
    broken.cluster.hold(2, last, (0, 120))
    ended = resume(broken, "--write", "--json")
    assert ended.code == 1
    (left,) = ended.document["left"]
    assert (left["topic"], left["partition"]) == (last.topic, last.partition)
    assert [broken.leaders()[f"orders-{n}"] for n in range(3)] == [1, 1, None]


def test_resume_asks_for_the_consent_that_the_journal_lacks(
    broken: Fakes, killed_at: KilledAt
) -> None:
    killed_at(Journal, "consent")
    ended = resume(broken, "--write")
    assert (ended.code, ended.said[-1]) == (3, f"consent: {CONSENT}")
    assert broken.controller.steps == []
    assert resume(broken, "--write", "--consent", CONSENT).code == 0
    assert set(broken.leaders().values()) == {1}


def test_resume_takes_the_newest_journal_and_names_the_others(
    broken: Fakes, killed_at: KilledAt
) -> None:
    killed_at(ElectionClient, "reorder")
    killed_at(ElectionClient, "elect")
    newest, older = (str(journal.path) for journal in journals())
    unreadable = Path(newest).with_name("broken.jsonl")
    unreadable.write_text("{}\n")
    said = resume(broken).err
    assert str(unreadable) in said
    assert said.index(newest) != said.index(f"resume {older}")
    named = resume(broken, "--journal", older).err
    assert (older in named, newest in named.replace(f"--journal {newest}", "")) == (True, False)
    assert resume(broken, "--journal", older, "another", "--write").code == 2


def test_what_is_no_journal_of_elections_on_this_cluster_is_not_resumed(
    broken: Fakes, tmp_path: Path
) -> None:
    for cluster, code in ((CLUSTER_ID, 0), ("another-cluster", 2)):
        with Journal.open(cluster) as journal:
            journal.request("reset offsets", {})
        assert resume(broken, "--journal", journal.path, "--write").code == code
    path = tmp_path / "journal.jsonl"
    path.write_text("{}\n")
    ended = resume(broken, "--journal", path, "--write")
    assert (ended.code, f"{path} line 1" in ended.said[0]) == (2, True)
    assert broken.controller.steps == []


def test_prefer_asks_the_cluster_for_the_brokers_of_a_rack(broken: Fakes, tmp_path: Path) -> None:
    (partition,) = broken.offline()
    broken.cluster.hold(2, partition, (0, 100))
    racks = {1: "cellar", 2: "attic", 3: "attic"}

    def with_racks(request: Any) -> Any:
        answer = fake_metadata.cluster(broken.cluster.story, request)
        for broker in answer.brokers:
            broker.rack = racks[broker.broker_id]
        return answer

    for broker in broken.cluster.brokers.values():
        broker.serve(DescribeClusterRequest, with_racks)
    plan = tmp_path / "plan.json"
    broken.run("plan", "make", "--gone", 3, "--out", plan)
    other = {1: 2, 2: 1}[read_plan(plan).leaders[partition]]
    assert breakglass("plan", "prefer", plan, "--rack", racks[other], *broken.named).code == 0
    assert read_plan(plan).leaders == {partition: other}
    assert breakglass("plan", "prefer", plan, "--rack", "garage", *broken.named).code == 2


def test_the_journal_of_the_cluster_that_is_named_is_shown_with_plan_and_approvals(
    broken: Fakes, plan: Path
) -> None:
    assert breakglass("plan", "approve", plan, "--by", "grace").code == 0
    assert recover(broken, plan, "--consent", CONSENT).code == 0
    report = breakglass("report", "--json").document
    assert (report["digest"], report["approved_by"]) == (read_plan(plan).digest, ["grace"])
    assert ([one["phrase"] for one in report["consents"]], report["adds_up"]) == ([CONSENT], True)
    with Journal.open("another", state_folder()) as newer:
        newer.note("of another cluster")
    for command in ("show", "timeline", "list"):
        ended = breakglass("journal", command, "--json", *broken.named)
        assert ended.code == 0, ended.err
        assert (CLUSTER_ID in ended.out, str(newer.path) in ended.out) == (True, False)
    assert breakglass("journal", "show", newer.path.stem, *broken.named).code == 2
    assert breakglass("journal", "show", "--json").document["journal"] == str(newer.path)


def test_what_is_left_ends_with_1_and_the_next_command(
    broken: Fakes, plan: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    announce = Journal.request

    def request(self: Journal, step: str, *more: Any, **details: Any) -> int:
        if step == "elect":
            raise StorageError("the journal is full")
        return announce(self, step, *more, **details)

    monkeypatch.setattr(Journal, "request", request)
    golden(recover(broken, plan, "--consent", CONSENT))


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
    assert f"resume {left.path} --write" in ended.said[-1]
    assert sorted(map(str, broken.leaders().values())) == ["1", "None", "None"]


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
    assert f"recover resume {left.path} --write" in ended.said[-1]
    again = resume(broken, "--write")
    assert again.code == 0, again.err
    assert broken.cluster.story.states[TopicPartition("orders", 0)].assignment == (3, 2, 1)


@pytest.mark.parametrize(("typed", "leader"), [("1", 1), ("2", 2), ("", None), ("9", None)])
def test_where_every_choice_loses_records_the_operator_chooses(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    leader: int | None,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
    before = planned(SAFE, FORK)
    (ranked,) = [record.ranking for record in before.left_out]
    assert sorted(ranked) == [1, 2]
    after = forks_decided(before)
    chosen = after.leaders.get(FORK.partition)
    assert chosen == (None if leader is None else ranked[leader - 1])
    assert [f"b{broker} loses" in capsys.readouterr().err for broker in ranked[:1]] == [True]


def test_what_comes_back_while_recover_asks_is_named_then_and_by_report(
    broken: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders,), states = broken.offline(), broken.cluster.story.states

    def enter(_question: str) -> str:
        states[orders] = replace(states[orders], leader=1, leader_epoch=6, isr=(1,))
        return ""

    monkeypatch.setattr("breakglass.console.recover._answer", enter)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    ended = broken.run("recover", "--write")
    assert (ended.code, "Nothing was elected: orders-0 came back" in ended.err) == (0, True)
    assert "orders-0 came back" in breakglass("report", *broken.named).err
