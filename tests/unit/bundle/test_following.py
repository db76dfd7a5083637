"""A watch keeps the last bundles, the moment of each failure among them, and no other file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services import patience
from breakglass.services.bundle import following
from breakglass.services.bundle.capture import Capture, CaptureAsked
from breakglass.services.bundle.contents import open_bundle
from breakglass.services.bundle.following import BundleFolder, Keeping, SavedBundle, follow
from breakglass.services.bundle.making import BundleMaker
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import AlreadyRunning, AuthenticationFailed, StorageError
from breakglass.services.incident import watch
from breakglass.services.session import Effort, ReadAccess
from tests.kit.fake_cluster import FakeCluster, partitions_of

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
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Three brokers with a partition, which is led by b3."""
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    monkeypatch.setattr(patience, "ROLL_CALL", 0.3)
    with FakeCluster(3) as cluster:
        led = replace(cluster.story.offline(ORDERS), leader=3, isr=(3, 1, 2))
        cluster.story.states[ORDERS] = led
        for broker in (1, 2, 3):
            cluster.hold(broker, ORDERS, (0, 100))
        yield cluster


(ORDERS,) = partitions_of("orders", 1)


def access_to(cluster: FakeCluster) -> ReadAccess:
    settings = ConnectionSettings(
        (cluster.brokers[1].endpoint,), broker_addresses=cluster.story.addresses
    )
    return ReadAccess(settings, "off", Effort.OFF)


def test_the_moment_of_a_failure_is_on_disk(cluster: FakeCluster, tmp_path: Path) -> None:
    told: list[str] = []
    looks = iter(range(4))

    def wait(_: float) -> bool:
        look = next(looks)
        if look == 1:
            cluster.story.offline(ORDERS, (3, 1, 2), elr=(3,))
            cluster.story.fenced = {3}
            cluster.brokers[3].stop()
        return look == 3

    capture = Capture(access_to(cluster), CaptureAsked(duration=0.2, state_folder=tmp_path / "s"))
    try:
        with BundleFolder(tmp_path / "b", MUCH) as folder:
            follow(capture, folder, 600.0, wait, told.append)
            names = [bundle.name for bundle in folder.saved()]
    finally:
        capture.close()
    offline = [len(open_bundle(tmp_path / "b" / name).rows) for name in names]
    assert offline == [0, 1]
    assert [line.rpartition("  ")[2] for line in told] == [
        "0 partitions offline",
        "1 partitions offline",
    ]


def test_a_cluster_that_cannot_be_read_any_more_is_a_bundle_too(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SNAPSHOT", "WHOLE_CLUSTER", "GREETING", "REQUEST", "CONTROLLER"):
        monkeypatch.setattr(patience, name, 0.5)
    looks = iter(range(3))

    def wait(_: float) -> bool:
        look = next(looks)
        for broker in cluster.brokers.values():
            broker.stop()
        return look == 1

    capture = Capture(access_to(cluster), CaptureAsked(state_folder=tmp_path / "s"))
    try:
        with BundleFolder(tmp_path / "b", MUCH) as folder:
            follow(capture, folder, 600.0, wait, print)
            paths = [tmp_path / "b" / bundle.name for bundle in folder.saved()]
    finally:
        capture.close()
    before, after = map(open_bundle, paths)
    assert before.snapshot is not None
    assert after.snapshot is None
    assert after.manifest.cluster_id == before.manifest.cluster_id
    assert [part.what for part in after.manifest.unread] == ["the cluster"]


def test_a_refused_user_ends_the_watch_at_once(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Capture) -> None:
        raise AuthenticationFailed("b1 rejects the password: correct it")

    monkeypatch.setattr(Capture, "look", refuse)
    capture = Capture(access_to(cluster), CaptureAsked(state_folder=tmp_path / "s"))
    with BundleFolder(tmp_path / "b", MUCH) as folder, pytest.raises(AuthenticationFailed):
        follow(capture, folder, 600.0, lambda _: True, print)
    capture.close()


def test_what_cannot_be_saved_is_told_and_tried_again(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    write, failing = BundleMaker.write, threading.Event()
    failing.set()

    def full(maker: BundleMaker, path: Path) -> object:
        if failing.is_set():
            failing.clear()
            raise StorageError(f"{path} cannot be written (No space left): make room.")
        return write(maker, path)

    monkeypatch.setattr(BundleMaker, "write", full)
    looks = iter(range(2))
    capture = Capture(access_to(cluster), CaptureAsked(state_folder=tmp_path / "s"))
    with BundleFolder(tmp_path / "b", MUCH) as folder:
        follow(capture, folder, 600.0, lambda _: next(looks) == 1, told.append)
        assert len(folder.saved()) == 1
    capture.close()
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
        with pytest.raises(AlreadyRunning, match="another capture"):
            BundleFolder(tmp_path, MUCH)
    assert others.read_text() == "mine"
    assert not begun.exists()
