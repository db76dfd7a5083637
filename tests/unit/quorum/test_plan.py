"""What becomes of each node, what is appended, what is refused; and the folder that is written."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from breakglass.console.output import json_text
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.model import Unknown, kafka_id
from breakglass.services.quorum.comparison import Relation, compare_copies
from breakglass.services.quorum.machine_steps import NodeAction
from breakglass.services.quorum.metadata_copy import VoterSet, read_copy
from breakglass.services.quorum.plan import QuorumPlan, make_plan, write_plan
from breakglass.services.quorum.prepare import PrepareQuorum
from breakglass.services.quorum.status import AnsweringNode
from tests.kit.metadata_log import CLUSTER, T0, MetadataLog, broker, noop, record, topic, voters
from tests.kit.program import Ended, breakglass
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log
from tests.unit.quorum.test_data_folders import Disks
from tests.unit.quorum.test_inspection import HOLD

AGAIN = UUID(int=0x0C)
SCRAM = {
    "name": "alice",
    "mechanism": 1,
    "salt": b"s",
    "stored_key": b"k",
    "server_key": b"k",
    "iterations": 4096,
}
VOTER = "102@kafka-c102:9093"
C103 = AnsweringNode(103, False, "c103:9093", asked=True)
B3 = AnsweringNode(3, True, "b3:9092", asked=True)


class Folders:
    """Folders of a lost cluster, and the plans that are made of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disks = Disks(root / "data")
        self.named: list[str] = []

    def save(self, node: int, log: MetadataLog, *, epoch: int = 1) -> Path:
        folder = self.root / f"n{node}"
        log.save(folder, node, epoch=epoch)
        self.named.append(f"log:{folder}")
        return folder

    def plan(self, *more: object, voter: str = VOTER) -> Ended:
        data = [f"log:{one}" for one in sorted(self.disks.root.glob("*"))]
        out = ("--out", self.root / "plan", "--json")
        return breakglass("quorum", "plan", *self.named, *data, "--voter", voter, *out, *more)

    def asked(self, *answering: AnsweringNode) -> QuorumPlan:
        """The plan if these nodes answer."""
        return make_plan(self.named, VOTER, ask=lambda *_: answering)

    def planned(self, *more: object) -> dict[str, Any]:
        ended = self.plan(*more)
        assert ended.code == 0, ended.err
        document: dict[str, Any] = ended.document
        assert document == json.loads((self.root / "plan").read_text())
        return document

    def prepare(self, *more: object) -> Ended:
        phrases = json.loads((self.root / "plan").read_text())["consent"]
        consents = [part for phrase in phrases for part in ("--consent", phrase)]
        asked = ("--out", self.root / "out", *consents)
        return breakglass("quorum", "prepare", self.root / "plan", *asked, *more)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def whole_log() -> MetadataLog:
    log = small_log()
    log.add(broker(1), broker(2), broker(3))
    return log


def actions(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["action"] for one in document["nodes"]}


def test_q10_the_epoch_is_above_every_epoch_of_logs_snapshots_and_quorum_states(
    folders: Folders,
) -> None:
    best, old = whole_log(), whole_log()
    best.epoch = 7
    best.add(noop())
    folders.save(101, best)
    folders.save(103, old, epoch=5_000)
    assert folders.planned()["epoch"] > 5_000


def test_q12_the_next_producer_id_is_above_those_of_every_copy_and_log(folders: Folders) -> None:
    chosen = whole_log()
    best = chosen.fork()
    best.add(record("ProducerIdsRecord", broker_id=1, broker_epoch=5, next_producer_id=70_000_000))
    folders.save(101, best)
    one = folders.save(103, chosen)
    folders.disks.replica(1, 0, 5, producers=(80_000_123,))
    document = folders.planned("--copy", f"log:{one}")
    (ids,) = [one for one in document["records"] if one["record"] == "ProducerIdsRecord"]
    assert ids["fields"]["next_producer_id"] >= 81_000_124
    (folders.root / "plan").unlink()
    folders.disks = Disks(folders.root / "none")
    (ids,) = folders.planned("--copy", f"log:{one}")["records"]
    assert ids["fields"]["next_producer_id"] >= 71_000_000


def test_q13_what_is_lost_and_what_was_not_named_is_in_the_phrase(folders: Folders) -> None:
    chosen = whole_log()
    best = chosen.fork()
    best.add(*topic("ledger", LEDGER, (1, 2)))
    folders.save(101, best)
    one = folders.save(1, chosen)
    document = folders.planned("--copy", f"log:{one}")
    said = "controller 102 lose 2 and abandon c102, b2, b3, data of b1, data of b2, data of b3"
    assert sorted(document["consent"][0].split()) == sorted(said.split())
    assert document["lost"]["records"] == 2
    assert [line[:22] for line in document["lost"]["changes"]] == ["topics created: ledger"]


@pytest.mark.parametrize("folders_of", [1, 2])
def test_q13_what_data_folders_bring_back_is_not_called_lost(
    folders: Folders, folders_of: int
) -> None:
    chosen = whole_log()
    best = chosen.fork()
    ids = {"broker_id": 1, "broker_epoch": 5, "next_producer_id": 70_000}
    best.add(*topic("ledger", LEDGER, (1, 2), (1, 2)), record("ProducerIdsRecord", **ids))
    named = {"resource_type": 2, "resource_name": "ledger", "name": "retention.ms"}
    best.add(record("ConfigRecord", **named, value="7"))
    folders.save(101, best)
    one = folders.save(3, chosen)
    for number in range(folders_of):
        folders.disks.replica(2, number, 5, topic="ledger", topic_id=LEDGER)
    lost = folders.planned("--copy", f"log:{one}")["lost"]["changes"]
    made = ["topics created: ledger (2 partitions, id AAAAAAAAAAAAAAAAAAAACw)"]
    settings = ["settings: topic ledger: retention.ms unset -> 7"]
    assert lost == [*(made if folders_of == 1 else ()), *settings]


def test_q13_a_deletion_that_data_folders_repeat_is_not_called_lost(folders: Folders) -> None:
    chosen = whole_log()
    best = chosen.fork()
    best.add(record("RemoveTopicRecord", topic_id=ORDERS), *topic("orders", LEDGER, (1, 2)))
    folders.save(101, best)
    one = folders.save(3, chosen)
    lost = folders.planned("--copy", f"log:{one}")["lost"]["changes"]
    assert [line[:22] for line in lost[:2]] == ["topics created: orders", "topics deleted: orders"]
    (folders.root / "plan").unlink()
    folders.disks.replica(2, 0, 5, topic_id=LEDGER)
    lost = folders.planned("--copy", f"log:{one}")["lost"]["changes"]
    assert lost == ["settings: topic orders: retention.ms 1000 -> unset"]


def test_q13_a_fork_that_is_given_up_has_a_phrase_of_its_own(folders: Folders) -> None:
    best, fork = whole_log(), whole_log()
    best.epoch = 2
    at = best.add(noop())
    fork.add(*topic("ledger", LEDGER, (1, 2)))
    folders.save(101, best)
    folders.save(1, fork)
    document = folders.planned()
    assert f"give up b1 from {at} to {fork.offset}" in document["consent"]
    assert actions(document)["b1"] == "replace"


def test_q15_each_broker_gets_what_is_promoted_unless_it_has_it_already(folders: Folders) -> None:
    log = whole_log()
    short = log.fork()
    log.add(noop())
    folders.save(1, log)
    folders.save(2, short)
    document = folders.planned()
    assert actions(document) == {
        "c102": "promote",
        "b1": "keep",
        "b2": "replace",
        "b3": "replace",
        "c101": "do not start",
    }
    (folders.root / "plan").unlink()
    one = folders.save(2, short)
    folders.save(3, log)
    older = folders.planned("--copy", f"log:{one}")
    assert [actions(older)[name] for name in ("b1", "b2", "b3")] == ["replace", "keep", "replace"]
    # A truncation keeps the snapshots, and the broker would load what is gone.
    (folders.root / "plan").unlink()
    log.snapshot(broker(1))
    truncated = folders.save(1, MetadataLog(short.offset, 1, short.batches, log.snapshots))
    assert read_copy(truncated / "__cluster_metadata-0").snapshots
    older = folders.planned("--copy", f"log:{one}")
    assert actions(older)["b1"] == "replace"


def test_q15_who_has_the_longest_logs_starts_first(folders: Folders) -> None:
    folders.save(101, whole_log())
    folders.disks.replica(1, 0, 5)
    folders.disks.replica(2, 0, 9, epochs=((0, 0), (4, 8)))
    document = folders.planned()
    assert [one["name"] for one in document["nodes"]] == ["c102", "b2", "b1", "b3", "c101"]
    assert document["consent"][1] == "mend 1 partition"


def test_q11_nothing_is_mended_by_a_copy_that_is_not_understood(folders: Folders) -> None:
    log = whole_log()
    log.add((None, b"\x01\x03\x09later"))
    folders.save(101, log)
    folders.disks.replica(1, 0, 5)
    assert any("cannot decode" in line for line in folders.planned()["unknown"])
    (folders.root / "plan").unlink()
    folders.disks.replica(2, 0, 9)
    assert (folders.plan().code, "PartitionRecord v9" in folders.plan().err) == (3, True)


def remade(folders: Folders, *newer: int, at_ms: int) -> dict[str, Any]:
    """The plan if orders was deleted and made again on *newer* brokers while b2 was down."""
    folders.save(101, whole_log())
    folders.disks.replica(2, 0, 9)
    for one in newer:
        folders.disks.replica(one, 0, 5, topic_id=LEDGER, at_ms=at_ms)
    return folders.planned()


def ending(document: dict[str, Any]) -> tuple[str, int]:
    one = document["ends"]["orders-0"]
    return one["topic_id"], one["end"]


def test_q13_a_topic_that_was_made_again_replaces_the_one_of_the_copy(folders: Folders) -> None:
    document = remade(folders, 1, 3, at_ms=T0 + 60_000)
    assert "replace topic orders" in document["consent"]
    assert "leave 1 stray" in document["consent"]
    (stray,) = document["lost"]["strays"]
    assert stray["path"] == f"{folders.disks.root}/2/orders-0"
    assert ending(document) == (kafka_id(LEDGER), 5)
    ended = folders.prepare("--write", "--json")
    assert ended.code == 0, ended.err
    (b2,) = [one for one in ended.document["steps"] if one["title"] == "Start b2"]
    assert "orders-0" in b2["then"]


def test_q13_a_topic_that_may_have_been_made_again_is_given_up_by_name(folders: Folders) -> None:
    document = remade(folders, 1, 3, at_ms=T0 - 60_000)
    given_up = f"give up topic orders with id {kafka_id(LEDGER)}"
    assert {given_up, "leave 2 strays"} <= {*document["consent"]}
    assert all("ends at 5" in one["why"] for one in document["lost"]["strays"])
    assert ending(document) == (kafka_id(ORDERS), 9)


def test_q16_a_log_that_is_no_member_of_the_isr_is_not_awaited(folders: Folders) -> None:
    folders.save(101, whole_log())
    folders.disks.replica(1, 0, 90)
    folders.disks.replica(2, 0, 40, epochs=((0, 0), (4, 30)))
    assert folders.planned()["ends"]["orders-0"]["end"] == 40


def test_q13_a_log_that_is_longer_than_that_of_the_isr_is_truncated_by_consent(
    folders: Folders,
) -> None:
    folders.save(101, whole_log())
    folders.disks.replica(1, 0, 90)
    folders.disks.replica(2, 0, 40, epochs=((0, 0), (4, 30)))
    document = folders.planned()
    assert "truncate 1 log" in document["consent"]
    (line,) = document["lost"]["truncated"]
    assert "90 (epoch 0)" in line
    assert "40 (epoch 4)" in line
    assert "latest leader epoch is on 2" in document["mended"][0]


def test_q13_a_topic_without_a_folder_may_have_one_that_was_not_named(folders: Folders) -> None:
    log = whole_log()
    log.add(*topic("ledger", LEDGER, (1, 2)))
    folders.save(101, log)
    folders.disks.replica(1, 0, 5, topic="fresh", topic_id=UUID(int=0x0C))
    folders.disks.replica(1, 0, 5)
    said = folders.planned()["unknown"]
    assert any("If no other log directory has one" in line and "ledger" in line for line in said)
    assert any(line.startswith("How many replicas the new partitions had: 1.") for line in said)


def test_q25_a_broker_whose_data_was_not_named_starts_last_and_not_on_an_empty_disk(
    folders: Folders,
) -> None:
    """Alone in an ISR it would lead with an empty log, and the others would cut theirs."""
    folders.save(101, whole_log())
    folders.save(1, whole_log())
    folders.disks.replica(2, 0, 5)
    folders.planned()
    ended = folders.prepare("--write", "--json")
    assert ended.code == 0, ended.err
    said = {one["title"]: one["then"] for one in ended.document["steps"] if "b" in one["title"]}
    lost = {name: "If they are lost, do not start it" in then for name, then in said.items()}
    assert [*lost.items()] == [("Start b2", False), ("Start b1", True), ("Start b3", True)]


def test_q15_an_empty_metadata_disk_gets_the_folder_and_meta_properties(folders: Folders) -> None:
    """The commands of the step, word by word, where metadata.log.dir does not exist."""
    folders.save(101, whole_log())
    folders.disks.replica(1, 0, 5)
    folders.planned()
    ended = folders.prepare("--write", "--json")
    assert ended.code == 0, ended.err
    (step,) = [one for one in ended.document["steps"] if one["title"] == "Start b1"]
    place = folders.root / "new" / "metadata"
    shell = "\n".join(step["commands"]).replace("/METADATA_LOG_DIR_OF_B1", str(place))
    for _ in range(2):
        subprocess.run(["bash", "-euc", shell], check=True, timeout=60)
    written = read_copy(place / "__cluster_metadata-0")
    assert (written.node, written.cluster_id, written.damage) == (1, CLUSTER, ())
    promoted = read_copy(folders.root / "out" / "__cluster_metadata-0")
    assert written.end == promoted.end
    assert isinstance(written.directory_id, str)
    assert written.directory_id != promoted.directory_id
    assert {one.name for one in place.iterdir()} == {"__cluster_metadata-0", "meta.properties"}


def test_q15_a_node_of_both_roles_is_a_broker_alone_until_a_static_quorum_grows(
    folders: Folders,
) -> None:
    log = whole_log()
    names = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features")
    fields = dict(zip(names, (1, UUID(int=1), False, [], []), strict=True))
    log.add(record("RegisterControllerRecord", **fields))
    folders.save(2, log)
    folders.planned()
    steps = folders.prepare("--write", "--json").document["steps"]
    settings = {one["title"]: one["settings"] for one in steps}
    (voters,) = settings["Start b2"]
    assert settings["Start b1"][0] == "process.roles=broker"
    assert settings["Start b1"][-1] == voters
    assert "Leave CONTROLLER out" in settings["Start b1"][1]


def test_q21_the_step_of_a_broker_has_its_indexes_made_anew(folders: Folders) -> None:
    folders.save(101, whole_log())
    for one in (1, 2):
        index = folders.disks.replica(one, 0, 5) / f"{0:020}.timeindex"
        index.write_bytes(bytes(120))
    clean = folders.disks.root / "1" / ".kafka_cleanshutdown"
    clean.touch()
    folders.disks.root.joinpath("1", ".lock").touch()
    assert len(folders.planned()["unclosed"]) == 1
    steps = folders.prepare("--write", "--json").document["steps"]
    removing = {one["title"]: [line for line in one["commands"] if "rm " in line] for one in steps}
    assert [title for title, lines in removing.items() if lines] == ["Start b1"]
    subprocess.run(["bash", "-euc", *removing["Start b1"]], check=True, timeout=60)
    assert not clean.exists()


def renamed(folder: Path) -> Path:
    return folder.rename(folder.with_name(f"{folder.name}.{'0a' * 16}-stray"))


def test_q22_folders_that_are_strays_refuse_the_plan_until_they_are_back_or_given_up(
    folders: Folders,
) -> None:
    """b1's log is the shortest, and the only one that has its name."""
    folders.save(101, whole_log())
    folders.disks.replica(1, 0, 5)
    strays = [renamed(folders.disks.replica(one, 0, 9)) for one in (2, 3)]
    strays.append(renamed(folders.disks.replica(1, 1, 4)))
    refused = folders.plan()
    assert (refused.code, "orders 13" in refused.err) == (3, True)
    data = [f"log:{one}" for one in sorted(folders.disks.root.iterdir())]
    ended = breakglass("quorum", "inspect", *folders.named, *data, "--json")
    assert (ended.code, ended.document["in_order"]) == (1, False)
    assert ended.document["stray_records"] == {"orders": 13}

    consent = folders.planned("--give-up-strays")["consent"]
    assert "give up 13 records of orders in strays" in consent
    assert folders.prepare("--write").code == 0
    (folders.root / "plan").unlink()
    for stray in strays:
        stray.rename(stray.with_name(stray.name.partition(".")[0]))
    document = folders.planned()
    assert not any("stray" in one for one in document["consent"])
    assert ["longest log is on 2,3" in one for one in document["mended"]] == [True, False]


def test_q22_a_stray_does_not_count_if_a_folder_goes_as_far_or_its_topic_was_deleted(
    folders: Folders,
) -> None:
    log = whole_log()
    log.add(*topic("ledger", LEDGER, (1, 2)))
    log.add(record("RemoveTopicRecord", topic_id=LEDGER))
    folders.save(101, log)
    renamed(folders.disks.replica(2, 0, 9))
    renamed(folders.disks.replica(9, 0, 9))
    renamed(folders.disks.replica(1, 0, 3, topic="ledger", topic_id=LEDGER))
    folders.disks.replica(2, 0, 9)
    folders.planned()
    (folders.root / "plan").unlink()
    renamed(folders.disks.replica(1, 0, 10))
    folders.disks.replica(1, 0, 9)
    assert folders.plan().code == 3


def test_q23_a_copy_of_controllers_that_were_formatted_anew_is_not_the_best(
    folders: Folders,
) -> None:
    """It is longer, and of a later epoch; one broker made a topic since."""
    blank = MetadataLog(epoch=3)
    level = record("FeatureLevelRecord", name="metadata.version", feature_level=25)
    blank.add(level, at_ms=T0 + 86_400_000)
    blank.add(broker(1), broker(2), broker(3), *topic("fresh", AGAIN, (1,)))
    blank.add(record("UserScramCredentialRecord", **SCRAM))
    for _ in range(20):
        blank.add(noop())
    new, old = folders.save(101, blank), folders.save(103, whole_log())
    alone = breakglass("quorum", "inspect", *folders.named, "--json").document
    assert (alone["best"], alone["in_order"]) == (f"{new}/__cluster_metadata-0", False)
    folders.disks.replica(2, 0, 5)
    renamed(folders.disks.replica(1, 0, 5, topic="ledger", topic_id=LEDGER))
    folders.disks.replica(1, 0, 5, topic="fresh", topic_id=AGAIN)
    folders.named.append(f"log:{folders.save(2, ledgers := whole_log())}")
    ledgers.add(*topic("ledger", LEDGER, (1, 2)))
    folders.save(2, ledgers)

    refused = folders.plan("--give-up-strays")
    assert (refused.code, "3 topic ids" in refused.err) == (3, True), refused.err
    data = [f"log:{one}" for one in sorted(folders.disks.root.iterdir())]
    found = breakglass("quorum", "inspect", *folders.named, *data, "--json").document
    assert found["best"] == f"{folders.root}/n2/__cluster_metadata-0"
    assert "formatted again" in found["formatted"]
    relations = {one["path"].split("/")[-2]: one["relation"] for one in found["copies"]}
    assert relations == {"n2": "best", "n101": "fork", "n103": "prefix"}

    for copy, lost, given_up in (
        (
            folders.root / "n2",
            0,
            f"c101 from 0 to {blank.offset} with 1 topic (fresh), 0 settings ",
        ),
        (old, 2, f"c101 from 0 to {blank.offset} with 1 topic (fresh), 0 settings "),
        (new, 0, f"b2 from 0 to {ledgers.offset} with 2 topics (ledger, orders), 1 setting "),
    ):
        document = folders.planned("--copy", f"log:{copy}", "--give-up-strays")
        (folders.root / "plan").unlink()
        assert document["lost"]["records"] == lost
        assert any(one.startswith(f"give up {given_up}") for one in document["consent"])
    assert document["consent"][-1].endswith("and 0 users")


def test_q23_a_copy_that_knows_no_topic_of_the_data_folders_is_chosen_by_name(
    folders: Folders,
) -> None:
    blank = MetadataLog()
    blank.add(record("FeatureLevelRecord", name="metadata.version", feature_level=25))
    blank.add(broker(1))
    one = folders.save(101, blank)
    folders.disks.replica(1, 0, 5)
    refused = folders.plan()
    assert (refused.code, "formatted again" in refused.err) == (3, True)
    assert len(folders.planned("--copy", f"log:{one}")["mended"]) == 1


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """A process holds the lock of *folder*, as its node does."""
    command = [sys.executable, "-c", HOLD, str(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        yield
        node.communicate()


def test_q13_a_broker_may_run_only_with_what_the_new_voter_has(folders: Folders) -> None:
    log = whole_log()
    longer = log.fork()
    longer.add(noop())
    controller, one = folders.save(101, log), folders.save(1, log)
    with running(controller):
        assert (folders.plan().code, "c101 runs" in folders.plan().err) == (3, True)
    with running(one):
        assert actions(folders.planned())["b1"] == "leave running"
    (folders.root / "plan").unlink()
    folders.save(1, longer)
    with running(one):
        refused = folders.plan("--copy", f"log:{controller}")
        assert (refused.code, "b1 runs, and has records" in refused.err) == (3, True)
    folders.save(1, log)
    folders.disks.replica(1, 0, 5)
    folders.disks.replica(2, 0, 9)
    with running(one):
        # The logs of a broker that runs go on: that its log is shorter now proves nothing.
        assert actions(folders.planned())["b1"] == "leave running"
        (folders.root / "plan").unlink()
    folders.disks.replica(3, 0, 7)
    with running(one):
        refused = folders.plan()
        assert (refused.code, "while partitions are mended" in refused.err) == (3, True)
    # The metadata folder is a copy, and the data folder that of a broker that runs.
    with running(folders.disks.root / "2"):
        refused = folders.plan()
        assert (refused.code, "b2 runs" in refused.err) == (3, True)
    folders.save(2, log)
    with running(folders.disks.root / "2"):
        refused = folders.plan()
        assert (refused.code, "while partitions are mended" in refused.err) == (3, True)


BEYOND = ["104@h:0", "104@h:65536", "104@h:9093:3", "2147483648@h:9093", "104@\x1b[31mh:9093"]


@pytest.mark.parametrize("voter", ["1@host:9093", "104", "x", "104@host", "104@:9093", *BEYOND])
def test_a_voter_that_is_a_broker_or_listens_nowhere_is_refused(
    voter: str, folders: Folders
) -> None:
    folders.save(101, whole_log())
    assert folders.plan(voter=voter).code == 2


def test_q14_the_folder_has_the_copy_and_what_is_appended_and_no_other_is_written_to(
    folders: Folders,
) -> None:
    log = whole_log()
    log.snapshot(*topic("orders", LEDGER, (1, 2)), broker(1))
    log.add(noop())
    source = folders.save(101, log)
    before = contents(folders.root / "n101")
    document = folders.planned()
    ended = folders.prepare("--write", "--json")
    assert ended.code == 0, ended.err
    assert contents(folders.root / "n101") == before
    written = read_copy(folders.root / "out" / "__cluster_metadata-0")
    assert written.damage == ()
    assert (written.node, written.quorum_epoch) == (102, document["epoch"])
    best, other = compare_copies([read_copy(source / "__cluster_metadata-0"), written])
    assert (best.copy.node, other.relation) == (102, Relation.PREFIX)
    assert other.shared == log.offset
    assert written.batches[-1].epoch == document["epoch"]
    assert [one.offset for one in written.snapshots] == [log.offset - 1]
    assert [one["action"] for one in ended.document["steps"]][:1] == ["promote"]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_q14_a_snapshot_past_the_last_batch_is_where_the_log_goes_on(folders: Folders) -> None:
    log = whole_log()
    log.add(noop())
    end = log.offset
    log.snapshot(*topic("orders", LEDGER, (1, 2)), broker(1))
    log.batches.pop()
    folders.save(101, log)
    folders.planned()
    assert folders.prepare("--write").code == 0
    written = read_copy(folders.root / "out" / "__cluster_metadata-0")
    assert (written.log_start, written.damage) == (end, ())


def test_q14_an_open_metadata_transaction_is_aborted_before_anything_is_appended(
    folders: Folders,
) -> None:
    log = whole_log()
    log.add(record("BeginTransactionRecord"), *topic("ledger", LEDGER, (1, 2)))
    short = log.fork()
    log.add(record("EndTransactionRecord"))
    folders.save(101, log)
    one = folders.save(1, short)
    document = folders.planned("--copy", f"log:{one}")
    names = [one["record"] for one in document["records"]]
    assert names == ["AbortTransactionRecord", "ProducerIdsRecord"]
    assert folders.prepare("--write").code == 0
    (folders.root / "plan").unlink()
    assert [one["record"] for one in folders.planned()["records"]] == ["ProducerIdsRecord"]


def flip(folder: Path, log: MetadataLog, number: int, at: int) -> None:
    """Flip a bit of byte *at* of the batch *number* of a log in one segment."""
    segment = folder / "__cluster_metadata-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[sum(map(len, log.batches[:number])) + at] ^= 0x40
    segment.write_bytes(content)


def test_q13_what_follows_the_damage_of_a_copy_is_given_up_by_name(folders: Folders) -> None:
    log = whole_log()
    log.add(noop())
    log.add(noop())
    folder = folders.save(1, log)
    flip(folder, log, len(log.batches) - 2, 70)
    end = log.offset - 2
    document = folders.planned()
    assert f"give up b1 after its damage at {end}" in document["consent"]
    assert document["consent"][0].startswith("controller 102 lose unknown")
    assert (document["lost"]["records"], len(document["lost"]["damaged"])) == (None, 1)
    assert actions(document)["b1"] == "replace"
    assert folders.prepare("--write").code == 0
    assert read_copy(folders.root / "out" / "__cluster_metadata-0").damage == ()


def test_q13_an_epoch_that_is_damaged_does_not_make_a_copy_the_best(folders: Folders) -> None:
    log = whole_log()
    log.add(noop())
    folder = folders.save(1, log)
    flip(folder, log, len(log.batches) - 1, 14)
    whole = folders.save(3, log)
    # At its end nothing contradicts the epoch, but for the other copy.
    refused = folders.plan()
    assert (refused.code, str(whole) in refused.err, "--copy" in refused.err) == (3, True, True)
    document = folders.planned("--copy", f"log:{whole}")
    assert document["consent"][0].startswith("controller 102 lose 1 ")
    (folders.root / "plan").unlink()
    log.add(noop())
    log.save(folder, 1)
    flip(folder, log, len(log.batches) - 2, 14)
    log.save(whole, 3)
    document = folders.planned()
    assert document["log_end"] == log.offset
    assert actions(document)["b3"] == "keep"
    assert f"give up b1 after its damage at {log.offset - 2}" in document["consent"]


def test_q14_a_torn_tail_is_not_taken_along(folders: Folders) -> None:
    log = whole_log()
    folder = folders.save(101, log)
    segment = folder / "__cluster_metadata-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes() + b"\0" * 30)
    folders.planned()
    assert folders.prepare("--write").code == 0
    written = read_copy(folders.root / "out" / "__cluster_metadata-0")
    assert written.damage == ()
    assert written.batches.starts[-1] == log.offset


def test_q10_the_new_voter_of_a_dynamic_quorum_is_in_the_log(folders: Folders) -> None:
    log = whole_log()
    log.add(voters(101, 103), controls=True)
    folders.save(101, log)
    document = folders.planned()
    ended = folders.prepare("--write", "--json")
    written = read_copy(folders.root / "out" / "__cluster_metadata-0")
    assert written.voters == VoterSet(True, (102,))
    assert written.batches[-1].epoch == written.batches[-2].epoch == document["epoch"]
    named = document["request"]["voter"]["directory_id"]
    assert written.directory_id == named
    assert not isinstance(named, Unknown)
    (line,) = [one for one in ended.document["steps"][0]["settings"] if "quorum" in one]
    assert line == "controller.quorum.bootstrap.servers=kafka-c102:9093"


def test_q14_nothing_is_written_without_the_flag_or_the_phrases(folders: Folders) -> None:
    folders.save(101, whole_log())
    folders.planned()
    asked = ("prepare", folders.root / "plan", "--out", folders.root / "out")
    assert breakglass("quorum", *asked).code == 3
    ended = breakglass("quorum", *asked, "--write")
    assert (ended.code, ended.consent[:21]) == (3, "controller 102 lose 0")
    assert not (folders.root / "out").exists()


def test_q14_a_folder_that_changed_since_the_plan_is_named(folders: Folders) -> None:
    log = whole_log()
    folders.save(101, log)
    folders.save(1, log)
    replica = folders.disks.replica(1, 0, 5)
    folders.planned()
    log.add(noop())
    folders.save(1, log)
    ended = folders.prepare("--write")
    assert (ended.code, f"{folders.root}/n1/" in ended.err) == (3, True)
    folders.save(1, whole_log())
    (replica / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 5\n")
    ended = folders.prepare("--write")
    assert (ended.code, str(replica.parent) in ended.err) == (3, True)
    assert not (folders.root / "out").exists()


def test_q14_a_log_that_changed_inside_is_named(folders: Folders) -> None:
    folders.save(101, whole_log())
    segment = folders.disks.replica(1, 0, 5) / f"{0:020}.log"
    folders.planned()
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    ended = folders.prepare("--write")
    assert (ended.code, str(segment.parent.parent) in ended.err) == (3, True)


def test_q15_the_steps_do_not_act_on_a_copy(folders: Folders) -> None:
    """A node has a lock in each directory that it uses, and a copy has none."""
    log = whole_log()
    copy = folders.save(1, log)
    log.add(noop())
    folders.save(101, log)
    data = folders.disks.replica(1, 0, 5).parent
    for used in (False, True):
        if used:
            for one in (copy, data):
                (one / ".lock").touch()
        folders.planned()
        steps = folders.prepare("--write", "--json").document["steps"]
        (step,) = [one for one in steps if one["title"] == "Start b1"]
        said = "\n".join([*step["commands"], *step["check"]])
        assert [str(one) in said for one in (copy, data)] == [used, used]
        assert ("EACH_OF_ITS_LOG_DIRS" in said) != used
        (folders.root / "plan").unlink()
        shutil.rmtree(folders.root / "out")


def test_q14_a_plan_that_was_edited_is_refused(folders: Folders) -> None:
    folders.save(101, whole_log())
    folders.planned()
    plan = folders.root / "plan"
    text = plan.read_text()
    plan.write_text(text.replace("kafka-c102", "kafka-c109"))
    ended = folders.prepare("--write")
    assert (ended.code, "changed after it was written" in ended.err) == (2, True)
    # A plan of the release before has strays as sentences.
    plan.write_text(text.replace('"schema": 2', '"schema": 1'))
    ended = folders.prepare("--write")
    assert (ended.code, "use the release that wrote it" in ended.err) == (2, True)
    plan.write_text("[]")
    assert breakglass("quorum", "prepare", plan, "--out", folders.root / "out").code == 2


def test_q14_the_new_folder_is_no_folder_that_exists_and_in_no_nodes(folders: Folders) -> None:
    one = folders.save(101, whole_log())
    folders.planned()
    plan = folders.root / "plan"
    for out in (folders.root, one / "new"):
        assert breakglass("quorum", "prepare", plan, "--out", out, "--write").code == 2
    assert folders.plan().code == 2  # The file of the plan exists.


@pytest.mark.parametrize("named", [(1, 2), (1, 2, 103)], ids=["not named", "a copy of it is"])
def test_q18_a_controller_that_answers_refuses_the_plan(
    folders: Folders, named: tuple[int, ...]
) -> None:
    for one in named:
        folders.save(one, whole_log())
    with pytest.raises(Refused, match="c103 answers at c103:9093"):
        folders.asked(C103)
    if 103 not in named:
        plan = folders.asked(C103._replace(asked=False))
        assert "ignore c103 at c103:9093" in plan.document()["consent"]


def test_q18_a_broker_that_answers_needs_a_copy_that_has_all_it_knows(folders: Folders) -> None:
    log = whole_log()
    for one in (1, 2):
        folders.save(one, log)
    with pytest.raises(Refused, match="b3 runs"):
        folders.asked(B3)
    folders.save(3, log)
    for applied in (Unknown("not said"), log.offset):
        plan = folders.asked(B3._replace(applied=applied))
        (step,) = [one for one in plan.nodes if one.name == "b3"]
        assert step.action is NodeAction.LEAVE_RUNNING
    with pytest.raises(Refused, match=f"up to offset {log.offset + 1}"):
        folders.asked(B3._replace(applied=log.offset + 1))


def test_q18_a_node_that_answers_since_the_plan_is_named(folders: Folders) -> None:
    folders.save(3, whole_log())
    file = folders.root / "plan"
    front: Any = None  # It says nothing.
    write_plan(file, json_text(folders.asked().document(), 1))
    with pytest.raises(EvidenceChanged, match="b3 at b3:9092"):
        PrepareQuorum(file, folders.root / "out", lambda *_: (B3,)).freeze(front)


def test_q18_client_properties_need_not_name_brokers(folders: Folders) -> None:
    folders.save(101, whole_log())
    file = folders.root / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    folders.planned("--command-config", file)
    asked = ("--bootstrap-controller", "127.0.0.1:1", "--command-config", file)
    assert breakglass("quorum", *asked).code == 1
