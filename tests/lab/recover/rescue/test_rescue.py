"""Rescue on real brokers: exactly what an election cuts off is saved, and outlives it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.journal import JournalStep
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from tests.kit.program import Ended, breakglass
from tests.lab.asking import list_offset
from tests.lab.console.commands import agreeing, last_journal, leader, on
from tests.lab.recover.rescue.conftest import (
    AGED,
    B1_ALSO,
    BY_PLAN,
    FULL,
    LEDGER,
    SAFE,
    SHARED,
    TRIMMED,
    WITHOUT,
)
from tests.lab.recover.session import watched
from tests.lab.scenarios.damaged import Damaged

FETCH = 1


def elections(folder: Path, **leaders: int) -> Path:
    """A file in Kafka's form: ``topic_number=leader``."""
    path = folder / "elections.json"
    entries = [
        {"topic": topic.replace("_", "-"), "partition": int(number), "designatedLeader": broker}
        for name, broker in leaders.items()
        for topic, _, number in [name.rpartition("_")]
    ]
    path.write_text(json.dumps({"partitions": entries}))
    return path


def elect(cluster: Cluster, path: Path, *more: object) -> Ended:
    """Hold the designated elections of a file, with every consent."""
    named = ("leader-election", "--election-type", "designated", "--path-to-json-file", path)
    ended, _ = agreeing(cluster, *named, *more)
    return ended


def rescue_step(cluster: Cluster) -> JournalStep:
    """The rescue in the newest journal."""
    (step,) = [step for step in last_journal(cluster).steps if step.name == "rescue"]
    return step


def only_place(cluster: Cluster, partition: TopicPartition) -> Path:
    """Where the newest journal says that a partition's only losing replica was saved."""
    outcome = rescue_step(cluster).outcomes[partition]
    assert outcome.result == "saved"
    (place,) = outcome.details["saved"]
    return Path(place["path"])


def cat(path: Path) -> list[dict[str, Any]]:
    """What `breakglass backup cat` reads."""
    ended = breakglass("backup", "cat", path)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return [json.loads(line) for line in ended.out.splitlines()]


def keys(path: Path) -> list[str]:
    return [document["key"] for document in cat(path)]


def manifest(path: Path) -> TopicManifest:
    found = read_manifest(LocalFolder(path.parent))
    assert found is not None
    return found


def states(path: Path) -> list[BatchState]:
    """The batch log of a rescued partition."""
    number = int(path.name)
    partition = manifest(path).partition(number)
    assert partition is not None
    assert partition.batch_log is not None
    return list(read_batch_log(LocalFolder(path.parent), number, partition.batch_log))


def lost_keys(lab: Damaged) -> Sequence[str]:
    """Of the ledger: what b2 took with acks=1 and b1 never had."""
    (alone,) = [
        written
        for written in lab.truth_of(LEDGER).written
        if written.broker == 2 and written.acks == "1"
    ]
    return alone.keys


@pytest.mark.main
def test_exactly_the_records_that_the_election_cuts_off_are_saved_and_outlive_it(
    lab: Damaged, tmp_path: Path
) -> None:
    named = tmp_path / "ledger.json"
    named.write_text('{"partitions": [{"topic": "ledger", "partitions": [0]}]}')
    recovery = ("unclean-recovery", "--automated-recovery", "--path-to-json-file", named)
    ended, phrases = agreeing(lab.cluster, *recovery, "--store", tmp_path / "saved")
    assert ended.code == 0, ended.err
    assert phrases == ["ledger-0 lose 50 and abandon b3"]
    path = only_place(lab.cluster, LEDGER)
    assert path.is_relative_to(tmp_path / "saved")
    assert f"ledger-0  rescued 50 records of b2: {path}" in ended.said

    lab.cluster.wait_until(
        lambda: list_offset(lab.cluster, 2, LEDGER).offset == 125, "b2 to have truncated"
    )
    assert keys(path) == list(lost_keys(lab))
    assert [document["offset"] for document in cat(path)] == list(range(100, 150))
    held = manifest(path)
    (partition,) = held.partitions
    (epoch,) = partition.segments[0].epochs
    assert held.identity.cluster_id == lab.truth.cluster_id
    assert held.identity.topic_id == lab.state(LEDGER).topic_id
    lost = [written for written in lab.truth_of(LEDGER).written if written.keys == lost_keys(lab)]
    assert [(written.epoch, written.start) for written in lost] == [(epoch.epoch, epoch.offset)]


def test_r10_the_head_that_a_follower_gives_up_is_saved(lab: Damaged, tmp_path: Path) -> None:
    ended = elect(lab.cluster, elections(tmp_path, aged_0=1))
    assert ended.code == 0, ended.err
    path = only_place(lab.cluster, AGED)
    assert [document["offset"] for document in cat(path)] == list(range(TRIMMED))


def test_a_full_folder_holds_that_election_and_the_others_go_on(
    lab: Damaged, tmp_path: Path
) -> None:
    no_folder = tmp_path / "a-file"
    no_folder.write_text("")
    both = elections(tmp_path, full_0=2, full_1=1)
    ended = elect(lab.cluster, both, "--store", no_folder)
    assert ended.code == 1
    assert f"full-0  refused: not rescued: {no_folder}" in ended.err
    assert (leader(lab.cluster, "full", 0), leader(lab.cluster, "full", 1)) == (None, 1)
    assert set(rescue_step(lab.cluster).items) == {FULL}
    assert rescue_step(lab.cluster).outcomes[FULL].result == "not saved"

    ended = elect(lab.cluster, both, "--store", tmp_path / "a-folder")
    assert ended.code == 0, ended.err
    assert leader(lab.cluster, "full", 0) == 2
    assert len(keys(only_place(lab.cluster, FULL))) == B1_ALSO
    assert SAFE not in rescue_step(lab.cluster).items


def test_without_rescue_nothing_is_read_or_written(lab: Damaged, tmp_path: Path) -> None:
    more = ("--without-rescue", "--store", tmp_path / "saved")
    ended = elect(lab.cluster, elections(tmp_path, without_0=2), *more)
    assert ended.code == 0, ended.err
    assert leader(lab.cluster, WITHOUT.topic) == 2
    assert not (tmp_path / "saved").exists()
    assert "rescue" not in {step.name for step in last_journal(lab.cluster).steps}


@pytest.fixture(scope="module")
def bare_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """b2 is to lead one partition, which loses; b1 the other, which does not."""
    return elections(tmp_path_factory.mktemp("plan"), by_plan_0=2, by_plan_1=1)


def test_a_rescue_by_plan_changes_nothing_and_needs_no_write(
    lab: Damaged, bare_plan: Path, tmp_path: Path
) -> None:
    before = [lab.state(partition) for partition in BY_PLAN]
    ended = on(lab.cluster, "rescue", "--plan", bare_plan, "--store", tmp_path, "--json")
    assert ended.code == 0, ended.err
    first, second = ended.document["partitions"]
    (saved,) = first["saved"]
    assert (saved["broker"], saved["records"]) == (1, B1_ALSO)
    assert saved["spans"] == [{"start": SHARED, "end": SHARED + B1_ALSO}]
    assert (second["rescued"], second["saved"]) == (True, [])
    assert keys(Path(saved["path"])) == [f"r-{SHARED + number}" for number in range(B1_ALSO)]
    assert [lab.state(partition) for partition in BY_PLAN] == before


def test_a_rescue_has_its_own_client_id_and_reads_as_a_future_replica(
    lab: Damaged, bare_plan: Path, tmp_path: Path
) -> None:
    from kafka.protocol.consumer import FetchRequest

    with watched(lab.cluster) as session:
        servers = session.connection.options.bootstrap_server
        addresses = session.connection.options.broker_address
        named = [word for address in addresses for word in ("--broker-address", address)]
        ended = breakglass(
            "rescue", "--plan", bare_plan, "--store", tmp_path, "--max-rate", "20kB/s",
            "--bootstrap-server", servers, *named,
        )  # fmt: skip
        assert ended.code == 0, ended.err
        records = [
            request
            for request in session.sent
            if request.api_key == FETCH and request.client_id != "breakglass"
        ]
        assert {record.client_id for record in records} == {"breakglass-rescue"}
        assert {record.decode(FetchRequest).replica_id for record in records} == {-3}
        assert session.changes == []
    row = ended.out.splitlines()[1].split()
    assert row[:4] == ["by-plan-0", "b1", f"{SHARED}-{SHARED + B1_ALSO - 1}", str(B1_ALSO)]
    assert ended.said[-1] == f"{B1_ALSO} records of 1 of 2 partitions saved"


def test_r16_what_an_unread_designee_may_cut_off_is_saved_whole(
    lab: Damaged, bare_plan: Path, tmp_path: Path
) -> None:
    """b1 cannot be reached from here: it has no share, and whatever b2 holds it may cut off."""
    away = ("--broker-address", "1=127.0.0.1:1", "--recovery-duration-ms", "1000")
    ended = on(lab.cluster, "rescue", "--plan", bare_plan, "--store", tmp_path, *away, "--json")
    assert ended.code == 0, ended.err
    first, second = ended.document["partitions"]
    assert first["saved"] == []
    assert [(one["broker"], one["records"]) for one in second["saved"]] == [(2, SHARED)]
