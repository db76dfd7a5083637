"""Rescue on real brokers: exactly what an election cuts off is saved, and outlives it."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from breakglass.services.guard.journal import JournalStep
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.segments import read_log
from breakglass.services.model import TRANSACTION_STATE, TopicPartition
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from tests.kit.program import Ended, breakglass
from tests.lab.asking import list_offset, messages
from tests.lab.backup.producing import LOG
from tests.lab.console.commands import agreeing, elections, last_journal, leader, on
from tests.lab.console.test_electing_on_screen import console
from tests.lab.recover.rescue.conftest import (
    ABORTED,
    AGED,
    B1_ALSO,
    BY_LOG,
    BY_PLAN,
    COMMITTED,
    COORDINATOR,
    FULL,
    LEDGER,
    OPEN,
    PAYMENTS,
    REFUNDS,
    SAFE,
    SECONDS,
    SHARED,
    TRIMMED,
    TYPED,
    WITHOUT,
)
from tests.lab.recover.session import watched
from tests.lab.scenarios.damaged import Damaged
from tests.unit.recovery.rescue.test_saver import everything

FETCH = 1


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
    ended = elect(lab.cluster, elections(tmp_path, {AGED: 1}))
    assert ended.code == 0, ended.err
    path = only_place(lab.cluster, AGED)
    assert [document["offset"] for document in cat(path)] == list(range(TRIMMED))


def test_a_full_folder_holds_that_election_and_the_others_go_on(
    lab: Damaged, tmp_path: Path
) -> None:
    no_folder = tmp_path / "a-file"
    no_folder.write_text("")
    both = elections(tmp_path, {FULL: 2, SAFE: 1})
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
    ended = elect(lab.cluster, elections(tmp_path, {WITHOUT: 2}), *more)
    assert ended.code == 0, ended.err
    assert leader(lab.cluster, WITHOUT.topic) == 2
    assert not (tmp_path / "saved").exists()
    assert "rescue" not in {step.name for step in last_journal(lab.cluster).steps}


@pytest.fixture(scope="module")
def bare_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """b2 is to lead one partition, which loses; b1 the other, which does not."""
    return elections(tmp_path_factory.mktemp("plan"), {BY_PLAN[0]: 2, BY_PLAN[1]: 1})


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


DEAD, ALIVE, OTHER = 3, 1, 2


def folder_of(lab: Damaged, broker: int) -> Path:
    """The folder of `log.dirs` of a broker."""
    (folder,) = lab.cluster.broker(broker).layout.log_dirs
    return folder


def rescue(folder: Path, to: Path, *more: object) -> Ended:
    return breakglass("rescue", "--source", f"log:{folder}", "--store", to, *more)


def path_of(ended: Ended, partition: TopicPartition) -> Path:
    (path,) = [
        one["path"]
        for one in ended.document["partitions"]
        if (one["topic"], one["partition"]) == (partition.topic, partition.partition)
    ]
    return Path(path)


def test_all_of_a_dead_broker_is_saved_and_its_disk_is_as_it_was(
    lab: Damaged, tmp_path: Path
) -> None:
    source = folder_of(lab, DEAD)
    before = everything(source)
    ended = rescue(source, tmp_path, "--json")
    assert ended.code == 0, ended.err
    assert everything(source) == before
    assert ended.document["cluster_id"] == lab.truth.cluster_id
    for partition in (*BY_PLAN, WITHOUT, PAYMENTS, AGED, LEDGER):
        name = f"{partition.topic}-{partition.partition}"
        path = path_of(ended, partition)
        assert path.relative_to(tmp_path).parts[2:] == (f"b{DEAD}", *path.parts[-2:])
        diff = breakglass("diff", f"log:{source / name}", f"rescue:{path}")
        assert diff.code == 0, diff.err + diff.out
        end = read_log(source / name).batches[-1].last + 1
        assert (
            len(cat(path)) + sum(state.marker is not None for state in states(path))
            == end - read_log(source / name).batches[0].first
        )
    manifest = read_manifest(LocalFolder(path_of(ended, LEDGER).parent))
    assert manifest is not None
    assert manifest.identity.topic_id == lab.state(LEDGER).topic_id


def test_transactions_keep_their_state_and_a_trimmed_head_is_none(
    lab: Damaged, tmp_path: Path
) -> None:
    ended = rescue(
        folder_of(lab, DEAD), tmp_path, "--topics", "payments", "--topics", "aged", "--json"
    )
    assert ended.code == 0, ended.err
    told = [state.marker for state in states(path_of(ended, PAYMENTS)) if state.marker is not None]
    assert told == ["commit", "abort"]
    kept = [document["offset"] for document in cat(path_of(ended, AGED))]
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert kept[0] <= TRIMMED


def test_with_a_cluster_only_what_the_leader_does_not_hold_is_saved(
    lab: Damaged, tmp_path: Path
) -> None:
    """b2 was elected for `by-log`, and never had what b1 and the dead b3 wrote since."""
    elected = elect(lab.cluster, elections(tmp_path, {BY_LOG[0]: OTHER}), "--without-rescue")
    assert elected.code == 0, elected.err
    server = ("--bootstrap-server", lab.cluster.bootstrap_servers)
    topics = ("--topics", "by-log", "--topics", "by-plan")
    ended = rescue(folder_of(lab, DEAD), tmp_path, *topics, *server, "--json")
    assert ended.code == 0, ended.err
    first, second = (path_of(ended, TopicPartition("by-log", number)) for number in range(2))
    assert [document["offset"] for document in cat(first)] == list(range(SHARED, SHARED + B1_ALSO))
    whole = read_log(folder_of(lab, DEAD) / "by-log-1").batches
    assert [document["offset"] for document in cat(second)] == list(range(whole[-1].last + 1))
    assert "by-log-1  saved whole: no broker leads it" in ended.err


def test_a_running_brokers_folder_is_refused(lab: Damaged, tmp_path: Path) -> None:
    source = folder_of(lab, ALIVE)
    ended = rescue(source, tmp_path)
    assert ended.code == 3
    assert f"a broker runs on {source} (process " in ended.err
    assert list(tmp_path.iterdir()) == []
    told = rescue(source, tmp_path, "--while-running", "--topics", "ledger", "--json")
    assert told.code == 0, told.err
    assert len(cat(path_of(told, LEDGER))) > 0


SINCE = [b"since-0", b"since-1"]


@pytest.mark.main
def test_what_was_rescued_is_put_back_once_and_kafkas_own_topics_are_left_as_they_are(
    lab: Damaged, tmp_path: Path
) -> None:
    plan = elections(tmp_path, {REFUNDS: 2})
    ended = elect(lab.cluster, plan, "--store", tmp_path / "saved")
    assert ended.code == 0, ended.err
    place = only_place(lab.cluster, REFUNDS)
    saved = [
        (document["key"].encode(), document["timestamp"]) for document in cat(place)[:COMMITTED]
    ]
    again, stamp = saved[2]
    producer = Producer({"bootstrap.servers": lab.cluster.bootstrap_servers}, logger=LOG)
    for key in SINCE:
        producer.produce(REFUNDS.topic, partition=0, key=key, value=key, timestamp=7)
    producer.produce(REFUNDS.topic, partition=0, key=again, value=again, timestamp=stamp)
    assert producer.flush(SECONDS) == 0

    late = Consumer({"bootstrap.servers": lab.cluster.bootstrap_servers, "group.id": "late"})
    late.commit(offsets=[Place(REFUNDS.topic, REFUNDS.partition, 10_000)], asynchronous=False)
    late.close()
    saved_in = place.parents[2]
    ended = on(lab.cluster, "backup", "restore", "--tail-of", saved_in, "--store", saved_in)
    assert f"refunds -> refunds  {COMMITTED - 1} records into the topic that is there" in ended.err
    assert "group late committed 10000 on refunds-0, past the end of its log" in ended.err

    words = ["backup", "restore", "--tail-of", plan, "--store", saved_in]
    words += ["--state", tmp_path / "state", "--json"]
    ended, phrases = agreeing(lab.cluster, *words)
    assert ended.code == 0, ended.err
    assert phrases == [f"restore {COMMITTED - 1} records into refunds"]
    (done,) = ended.document["topics"]
    assert (done["records"], done["verified"]) == (COMMITTED - 1, True)
    assert f"refunds  {ABORTED} records are left out: of an aborted transaction" in ended.err
    assert f"refunds  {OPEN} records are left out: of a transaction without an end" in ended.err
    assert "refunds  1 records are left out: in the topic already" in ended.err

    def records() -> list[tuple[bytes | None, int]]:
        return [(one.key(), one.timestamp()[1]) for one in messages(lab.cluster, REFUNDS)]

    now = records()
    assert now[SHARED:] == [*((key, 7) for key in SINCE), saved[2], *saved[:2], *saved[3:]]

    ended = on(lab.cluster, *words)
    assert ended.code == 0
    assert ended.said[-1] == "Nothing is to be put back."
    assert records() == now

    _save_of_the_coordinator(lab, place.parents[2])
    file = json.loads(plan.read_text())
    named = {"topic": TRANSACTION_STATE, "partition": 0, "designatedLeader": COORDINATOR}
    plan.write_text(json.dumps({"partitions": [*file["partitions"], named]}))
    ended = on(lab.cluster, *words)
    assert (ended.code, ended.said[-1]) == (0, "Nothing is to be put back.")
    assert f"{TRANSACTION_STATE}: no client can write to Kafka's own topics" in ended.err
    ended = on(lab.cluster, *words, "--topics", TRANSACTION_STATE, "--write")
    assert (ended.code, TRANSACTION_STATE in ended.err) == (3, True)
    admin = AdminClient({"bootstrap.servers": lab.cluster.bootstrap_servers}, logger=LOG)
    internal = ConfigResource(ConfigResource.Type.TOPIC, TRANSACTION_STATE)
    settings = admin.describe_configs([internal])[internal].result(SECONDS)
    assert settings["retention.ms"].value != "-1", "its settings are as they were"


def _save_of_the_coordinator(lab: Damaged, root: Path) -> None:
    """Beside what was rescued under *root*: what the coordinator's log has."""
    saved = root.parent / "internal"
    named = ("--topics", TRANSACTION_STATE, "--while-running", "--rescue-to", saved)
    ended = breakglass("rescue", "--source", f"log:{folder_of(lab, COORDINATOR)}", *named)
    assert ended.code == 0, ended.err
    (found,) = saved.glob(f"*/*/b{COORDINATOR}/{TRANSACTION_STATE}")
    shutil.copytree(found, root / found.parent.name / found.name)


MOST_KEYS = 12


@pytest.mark.main
def test_from_a_cold_start_to_confirmed_elections_in_twelve_keys(lab: Damaged) -> None:
    with console(lab.cluster.bootstrap_servers, "--write", "--gone", "3") as operator:
        operator.ask_for("typed")
        assert operator.type_phrase() == "3 partitions lose 0 and abandon b3"
        operator.press("enter")
        operator.terminal.wait_for("Done: 3 redundant")
        operator.terminal.press("q")
        assert operator.terminal.exit_code() == 0
    assert operator.keys <= MOST_KEYS
    assert [lab.state(partition).leader for partition in TYPED] == [1, 1, 1]
    assert last_journal(lab.cluster).result == "succeeded"
