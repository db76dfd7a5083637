"""Bundles captured once, or again and again, from a cluster that may not answer."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol import admin
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import errors, patience
from breakglass.services.bundle import capture, following
from breakglass.services.bundle.capture import (
    BackupPlaces,
    BundleMaker,
    Capture,
    CaptureAsked,
    without_user,
)
from breakglass.services.bundle.contents import BundleContents, open_bundle
from breakglass.services.bundle.following import BundleFolder, Keeping, SavedBundle, follow
from breakglass.services.bundle.records import GROUPS
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.journal import Journal
from breakglass.services.incident import changes, watch
from breakglass.services.kafka.cluster.settings import ShownSetting
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import Reassignment, Unknown
from breakglass.services.session import Effort, ReadAccess
from tests.kit.bundles import entries_of, unpacked
from tests.kit.clock import Clock
from tests.kit.fake_broker import HangUp
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.program import breakglass
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

ORDERS = partitions_of("orders", 2)
SECRET = "hunter2-of-the-keystore"
IN_ITS_FILE, BY_DEFAULT = 4, 5
HUGE = DEADLINE_SECONDS
"""Seconds: a healthy broker answers sooner on any machine."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Two partitions of `orders`; b3, which led last, is fenced and dead; b2 diverges from b1."""
    for name in ("ROLL_CALL", "SETTLE", "BRIEF", "GROUPS", "GROUP_BOUNDS", "CONTROLLER"):
        monkeypatch.setattr(patience, name, HUGE)
    monkeypatch.setattr(changes, "FIRST_PAUSE_SECONDS", 0.0)
    with FakeCluster(3) as cluster:
        for order in ORDERS:
            cluster.story.offline(order, (3, 1, 2), elr=(3,))
            cluster.hold(1, order, (0, 100), (2, 10))
            cluster.hold(2, order, (0, 100), (1, 20))
            cluster.hold(3, order, (0, 130))
        cluster.story.fenced = {3}
        cluster.story.groups = {"billing": {ORDERS[0]: 105}}
        cluster.story.reassignments = {ORDERS[1]: Reassignment((4,), ())}
        cluster.brokers[3].stop()
        for broker in (1, 2):
            plain = cluster.apis(broker)[admin.DescribeConfigsRequest]
            cluster.brokers[broker].serve(admin.DescribeConfigsRequest, settings_of(plain))
        yield cluster


def settings_of(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Settings of a broker, among them a secret that the broker itself does not hide."""
    result = admin.DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    secret = {"value": SECRET, "config_source": IN_ITS_FILE, "is_sensitive": True}
    configs = [
        entry(name="log.dirs", value="/logs", config_source=IN_ITS_FILE),
        entry(name="ssl.keystore.password", **secret),
        entry(name="num.io.threads", value="8", config_source=BY_DEFAULT),
    ]

    def answer(request: Any) -> Any:
        (asked, *_) = request.resources
        if asked.resource_type != 4:
            return plain(request)
        told = result(resource_type=4, resource_name=asked.resource_name, configs=configs)
        return admin.DescribeConfigsResponse(results=[told])

    return answer


def access_to(cluster: FakeCluster) -> ReadAccess:
    settings = ConnectionSettings(
        (cluster.brokers[1].endpoint,), broker_addresses=cluster.story.addresses
    )
    return ReadAccess(settings, "off", Effort.OFF)


def captured(cluster: FakeCluster, folder: Path, **asked: Any) -> BundleContents:
    """A capture of *cluster*, opened again."""
    path = folder / "b.tar.gz"
    wanted = CaptureAsked(duration=HUGE, state_folder=folder / "state", **asked)
    with closing(Capture(access_to(cluster), wanted)) as capturing:
        capturing.bundle(capturing.settle(print)).write(path)
    return open_bundle(path)


def unread(found: BundleContents) -> dict[str, str]:
    return {part.what: part.why for part in found.manifest.unread}


def test_what_is_silent_is_unknown_with_its_reason(cluster: FakeCluster, tmp_path: Path) -> None:
    found = captured(cluster, tmp_path)
    assert isinstance(found.brokers[3].settings, Unknown)
    assert isinstance(found.brokers[3].log_dirs, Unknown)
    missing = unread(found)
    assert {"the replicas on b3", "the log directories of b3", "the settings of b3"} <= (
        missing.keys()
    )
    assert "connection refused" in missing["the replicas on b3"]


def test_an_answer_that_fails_or_that_nobody_expected_hides_no_other(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up(_: Any) -> Any:
        raise HangUp

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of all things")

    cluster.brokers[2].serve(admin.DescribeLogDirsRequest, hang_up)
    cluster.brokers[1].serve(admin.ListGroupsRequest, hang_up)
    monkeypatch.setattr(capture, "add_topics", broken)
    found = captured(cluster, tmp_path)
    assert isinstance(found.brokers[2].log_dirs, Unknown)
    assert not isinstance(found.brokers[1].log_dirs, Unknown)
    assert "the groups that b1 coordinates" in unread(found)
    assert "ZeroDivisionError" in unread(found)["the topics' settings"]
    assert found.brokers.keys() == {1, 2, 3}
    assert len(found.rows) == 2


def test_s50_one_deadline_is_that_of_all_parts_and_who_was_silent_is_not_asked_again(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b2 reports its replicas so slowly that the time is up; b1 answers at once."""
    clock, call, done, ends = Clock(), Sender.call, list[tuple[int, int]](), list[float]()
    began, at_the_end = clock(), list[int]()
    monkeypatch.setattr(patience, "GRACE", HUGE)
    by_hand = SimpleNamespace(after=lambda seconds: Deadline.after(seconds, clock))
    monkeypatch.setattr(capture, "Deadline", by_hand)

    def noted(sender: Sender, broker: int, request: Any, *rest: Any, **more: Any) -> Any:
        ends.append(sender._last_answer.at)
        answer = call(sender, broker, request, *rest, **more)
        done.append((broker, request.API_KEY))
        return answer

    def slow(_: Any) -> Any:
        last = (1, admin.DescribeLogDirsRequest.API_KEY)
        wait_until(lambda: last in done, "b1 to report its replicas")
        clock.advance(2 * HUGE)
        at_the_end.append(len(cluster.brokers[2].received))
        raise HangUp

    monkeypatch.setattr(Sender, "call", noted)
    cluster.brokers[2].serve(ListOffsetsRequest, slow)
    found = captured(cluster, tmp_path)
    assert at_the_end[-1:] == [len(cluster.brokers[2].received)]
    assert max(ends) <= began + 2 * HUGE + HUGE
    assert {
        "the replicas on b2",
        "the log directories of b2",
        "the settings of b2",
        "the groups that b2 coordinates",
    } <= unread(found).keys()
    assert not isinstance(found.brokers[1].log_dirs, Unknown)
    assert not isinstance(found.brokers[1].settings, Unknown)
    assert found.rows.keys() == set(ORDERS)


def test_groups_and_settings_are_there_without_what_kafka_calls_sensitive(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    found = captured(cluster, tmp_path)
    assert found.brokers[1].settings == (
        ShownSetting("log.dirs", "/logs", IN_ITS_FILE),
        ShownSetting("ssl.keystore.password", None, IN_ITS_FILE, True),
    )
    data = unpacked(tmp_path / "b.tar.gz")
    assert SECRET.encode() not in data
    groups = entries_of(tmp_path / "b.tar.gz")[GROUPS]
    assert json.loads(groups) == {
        "group": "billing", "topic": "orders", "partition": 0, "offset": 105,
    }  # fmt: skip


def test_records_are_captured_from_the_divergence_on(cluster: FakeCluster, tmp_path: Path) -> None:
    held = captured(cluster, tmp_path, records_each=7).records
    starts = {(str(one), broker): found.start for (one, broker), found in held.items()}
    assert starts["orders-0", 1] == starts["orders-0", 2] == 100
    assert {broker for _, broker in held} == {1, 2}


def test_the_clusters_journals_are_in_whole_lines(cluster: FakeCluster, tmp_path: Path) -> None:
    with Journal.open(CLUSTER_ID, tmp_path / "state") as journal:
        journal.note("tried to elect")
    with journal.path.open("ab") as file:
        file.write(b'{"torn": ')
    with Journal.open("another-cluster", tmp_path / "state"):
        pass
    found = captured(cluster, tmp_path)
    (name,) = found.files
    assert name == f"journal/{journal.path.name}"
    assert journal.path.read_bytes().startswith(found.files[name])
    assert b"torn" not in found.files[name]
    assert unread(found)[f"the last line of {name}"] == "it was not written whole"


def test_places_of_backups_are_told_without_passwords(cluster: FakeCluster, tmp_path: Path) -> None:
    assert without_user("s3://me:pw@host/x") == "s3://host/x"
    places = BackupPlaces((f"{tmp_path}/nothing-there",))
    found = captured(cluster, tmp_path, places=places)
    (place,) = found.backups.places
    assert isinstance(place.unread, Unknown)
    assert f"the status of backups at {place.url}" in unread(found)


def ways_to(cluster: FakeCluster) -> list[str]:
    endpoint = cluster.brokers[1].endpoint
    return ["--bootstrap-server", f"{endpoint.host}:{endpoint.port}", "--native-rpc", "off"]


def test_the_commands_capture_list_and_refuse(cluster: FakeCluster, tmp_path: Path) -> None:
    path, duration = tmp_path / "b.tar.gz", ("--recovery-duration-ms", 60_000)
    ended = breakglass("bundle", "capture", "--to", path, *ways_to(cluster), *duration, "--json")
    assert ended.code == 0, ended.err
    assert ended.document["cluster_id"] == CLUSTER_ID
    assert "? the replicas on b3: " in ended.err
    again = breakglass("bundle", "capture", "--out", path, *ways_to(cluster))
    assert (again.code, "exists already" in again.err) == (2, True)
    assert breakglass("open", path, "--list", "--json").document == ended.document
    listed = breakglass("open", path, "--list")
    table = listed.out.splitlines()[1:]
    assert f"the SHA-256 of {len(table)} files. Their contents are read when" in listed.err
    names = [entry["name"] for entry in ended.document["entries"]]
    assert [line.split()[0] for line in table] == names
    shown = breakglass("open", path)
    assert (shown.code, "needs a terminal" in shown.err) == (2, True)
    assert breakglass("open", tmp_path / "b.tar.gz.not").code == 1


def test_a_cluster_that_does_not_answer_is_captured_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    silent = ("bundle", "capture", "--to", path, "--bootstrap-server", "127.0.0.1:1")
    ended = breakglass(*silent, "--redact", "card")
    assert (ended.code, "--contents-of" in ended.err) == (errors.UsageError.exit_code, True)
    ended = breakglass(*silent)
    assert ended.code == 0, ended.err
    assert "? the cluster: " in ended.err
    assert open_bundle(path).snapshot is None


MUCH = Keeping(24, 1 << 30)


def saved(*states: str, size: int = 10) -> list[SavedBundle]:
    return [SavedBundle(f"{number:03}", state, size) for number, state in enumerate(states)]


def kept(keeping: Keeping, bundles: list[SavedBundle]) -> str:
    gone = set(keeping.superseded(bundles))
    return " ".join(bundle.state + bundle.name[-1] for bundle in bundles if bundle.name not in gone)


def test_of_each_state_the_first_and_the_newest_are_kept() -> None:
    assert kept(MUCH, saved("a", "a", "b", "b", "b", "a", "b")) == "a0 b2 a5 b6"


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.integers(2, 9), st.integers(1, 99))
def test_never_more_is_kept_than_may_be(states: list[str], number: int, size: int) -> None:
    bundles = saved(*states)
    gone = set(Keeping(number, size).superseded(bundles))
    left = [bundle for bundle in bundles if bundle.name not in gone]
    assert len(left) <= number
    assert sum(bundle.size for bundle in left) <= max(size, 10)
    assert left[-1:] == bundles[-1:]


@pytest.fixture
def led(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Three brokers with a partition, which is led by b3."""
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    for name in ("ROLL_CALL", "BRIEF", "GROUPS", "GROUP_BOUNDS"):
        monkeypatch.setattr(patience, name, HUGE)
    with FakeCluster(3) as led:
        state = led.story.offline(LED)
        led.story.states[LED] = replace(state, leader=3, isr=(3, 1, 2))
        for broker in (1, 2, 3):
            led.hold(broker, LED, (0, 100))
        yield led


(LED,) = partitions_of("orders", 1)


def followed(
    led: FakeCluster, folder: Path, wait: Callable[[int], bool], **asked: Any
) -> tuple[list[BundleContents], list[str]]:
    """The bundles that were saved until *wait*, given the number of the look, says to end."""
    told: list[str] = []
    looks = count()
    capture = Capture(access_to(led), CaptureAsked(state_folder=folder / "s", **asked))
    with closing(capture), BundleFolder(folder / "b", MUCH) as bundles:
        follow(capture, bundles, 600.0, lambda _: wait(next(looks)), told.append)
        names = [bundle.name for bundle in bundles.saved()]
    return [open_bundle(folder / "b" / name) for name in names], told


def test_the_moment_of_a_failure_is_on_disk(led: FakeCluster, tmp_path: Path) -> None:
    def wait(look: int) -> bool:
        if look == 1:
            led.story.offline(LED, (3, 1, 2), elr=(3,))
            led.story.fenced = {3}
            led.brokers[3].stop()
        return look == 3

    bundles, told = followed(led, tmp_path, wait, duration=HUGE)
    assert [len(bundle.rows) for bundle in bundles] == [0, 1]
    assert [line.split("  ")[-1].split()[0] for line in told] == ["0", "1"]


def test_a_cluster_that_cannot_be_read_any_more_is_a_bundle_too(
    led: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(look: int) -> bool:
        for broker in led.brokers.values():
            broker.stop()
        for name in ("SNAPSHOT", "WHOLE_CLUSTER", "GREETING", "REQUEST", "CONTROLLER"):
            monkeypatch.setattr(patience, name, 0.5)
        return look == 1

    (before, after), _ = followed(led, tmp_path, wait)
    assert before.snapshot is not None
    assert after.snapshot is None
    assert after.manifest.cluster_id == before.manifest.cluster_id
    assert [part.what for part in after.manifest.unread] == ["the cluster"]


def test_a_refused_user_ends_it(
    led: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Capture) -> None:
        raise errors.AuthenticationFailed("b1 rejects the password: correct it")

    monkeypatch.setattr(Capture, "look", refuse)
    with pytest.raises(errors.AuthenticationFailed):
        followed(led, tmp_path, lambda _: True)


def test_what_cannot_be_saved_is_told_and_tried_again(
    led: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = BundleMaker.write, iter(["No space left"])

    def full(maker: BundleMaker, path: Path) -> object:
        for failure in failures:
            raise errors.StorageError(f"{path} cannot be written ({failure}): make room.")
        return write(maker, path)

    monkeypatch.setattr(BundleMaker, "write", full)
    bundles, told = followed(led, tmp_path, lambda look: look == 1)
    assert len(bundles) == 1
    assert "No space left" in told[0]


def test_what_others_put_there_stays_and_what_a_killed_watch_began_goes(tmp_path: Path) -> None:
    others = tmp_path / "notes.txt"
    others.write_text("mine")
    begun = tmp_path / ".breakglass-20261124T000000.000000Z-00000000.tar.gz.1.new"
    begun.write_bytes(b"half")
    with BundleFolder(tmp_path, Keeping(2, 1)) as folder:
        for _ in range(3):
            folder.save(BundleMaker(), "0" * 8)
        assert len(folder.saved()) == 1
        with pytest.raises(errors.AlreadyRunning, match="another capture"):
            BundleFolder(tmp_path, MUCH)
    assert others.read_text() == "mine"
    assert not begun.exists()
