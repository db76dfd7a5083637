"""`breakglass quorum inspect` on the disks of a cluster that lost every machine.

One controller was down while the others went on. What is expected comes from what was done to the
cluster, from Kafka's own DumpLogSegments, and in the end from what brokers do under the old copy.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.lab.cluster import Cluster, LabOptions
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.node import Node
from tests.kit.program import Ended, breakglass
from tests.lab.quorum.lagging import (
    DELETED,
    GROWN,
    LATE,
    NEW,
    OLD,
    OVERRIDES,
    PASSWORD,
    PRINCIPAL,
    USER,
    Lagged,
    copy_of,
    lose_everything,
    produce,
)
from tests.lab.quorum.test_return import WRITTEN, values_of

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("quorum")]


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def lost(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lagged]:
    options: LabOptions = {"controllers": 3, "overrides": OVERRIDES, "tethered": True}
    options["kafka_version"] = request.param
    with Cluster.up(tmp_path_factory.mktemp("quorum") / "lab", **options) as cluster:
        yield lose_everything(cluster)


def inspected(lost: Lagged, *more: object) -> Ended:
    return breakglass("quorum", "inspect", *lost.addresses(), "--json", *more)


def of_lagging(lost: Lagged, listed: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in listed if one["path"] == str(copy_of(lost.lagging))]
    return found


def leads(controller: Node) -> bool:
    state = json.loads((copy_of(controller) / "quorum-state").read_text())
    return bool(state["leaderId"] == controller.id)


def port_of(controller: Node) -> int:
    return controller.layout.ports[Listener.CONTROLLER]


def changes(document: dict[str, Any], lost: Lagged, kind: str) -> list[str]:
    lack = of_lagging(lost, document["lacks"])
    return [one["what"] for one in lack["changes"] if one["kind"] == kind]


def test_q01_copies_are_ranked_and_compared_as_kafkas_own_tool_reads_them(lost: Lagged) -> None:
    document = inspected(lost).document
    best = document["copies"][0]
    dumps = {str(copy_of(node)): lost.dumped(node) for node in lost.cluster.nodes}
    assert best["log_end"] == max(dump.end for dump in dumps.values())
    for copy in document["copies"]:
        dump = dumps[copy["path"]]
        assert (copy["log_end"], copy["last_epoch"]) == (dump.end, dump.batches[-1][2])
        assert copy["damage"] == []
        same = dump.batches == dumps[best["path"]].batches[: len(dump.batches)]
        assert same
        assert copy["relation"] == ("best" if copy is best else "prefix")
        assert copy["compared"] == {"start": 0, "end": dump.end}


def test_q02_what_the_lagging_copy_lacks_is_what_was_done(lost: Lagged) -> None:
    document = inspected(lost).document
    lack = of_lagging(lost, document["lacks"])
    ended = lost.dumped(lost.lagging).end
    assert lack["from"] == ended
    assert lack["records"] == document["copies"][0]["log_end"] - ended
    (made,) = changes(document, lost, "topics created")
    assert made.startswith(f"{NEW} (2 partitions, id ")
    (gone,) = changes(document, lost, "topics deleted")
    assert gone.startswith(f"{DELETED} (2 partitions, id ")
    assert changes(document, lost, "topics grown") == [f"{GROWN} from 1 to 2 partitions"]
    assert changes(document, lost, "settings") == [f"topic {OLD}: retention.ms unset -> 777000"]
    (acl,) = changes(document, lost, "ACLs")
    assert acl == f"added allow {PRINCIPAL} read on topic {OLD} (literal) from *"
    assert changes(document, lost, "SCRAM users") == [f"added {USER} (SCRAM-SHA-256)"]
    assert changes(document, lost, "quotas") == [f"user {USER}: producer_byte_rate unset -> 4096"]
    moved = changes(document, lost, "ISR and leader changes")
    assert any(one.startswith(f"{OLD}-0: ISR 1,2,3 -> 2,3") for one in moved)
    assert any(one.startswith(f"{OLD}-1: ISR 2,3,1 -> 2,3") for one in moved)
    assert all(one["at_ms"] for one in lack["changes"])


def test_q03_every_record_is_decoded_and_no_secret_is_shown(lost: Lagged) -> None:
    ended = inspected(lost)
    best = lost.best_controllers[0]
    credentials = [
        data
        for _, kind, data in lost.dumped(best).records
        if kind == "USER_SCRAM_CREDENTIAL_RECORD"
    ]
    assert ended.document["undecoded"] == []
    assert len(credentials) == 1
    text = breakglass("quorum", "inspect", *lost.addresses()).out
    for secret in (
        PASSWORD,
        *(credentials[0][name] for name in ("salt", "storedKey", "serverKey")),
    ):
        assert str(secret) not in ended.out + text


def test_q04_the_best_copy_fits_the_data_folders(lost: Lagged) -> None:
    ended = inspected(lost)
    data = ended.document["data"]
    assert (data["strays"], data["short_isr_members"], data["unread"]) == ([], [], [])
    assert (data["old_leader_epochs"], data["reused_producer_ids"]) == ([], False)
    assert ended.document["in_order"]
    assert ended.code == 0


def test_q05_the_old_isr_the_old_epochs_and_producer_ids_are_named(lost: Lagged) -> None:
    ended = inspected(lost, "--copy", f"log:{copy_of(lost.lagging).parent}")
    data = ended.document["data"]
    short = {
        (one["topic"], one["partition"]): (
            one["broker"],
            one["proved"],
            one["longest_end"]["offset"] - one["end"]["offset"],
        )
        for one in data["short_isr_members"]
    }
    assert short[OLD, 0] == short[OLD, 1] == (1, True, LATE)
    old = {(one["topic"], one["partition"]) for one in data["old_leader_epochs"]}
    assert (OLD, 0) in old
    dumped = lost.dumped(lost.lagging).records
    blocks = [one["nextProducerId"] for _, kind, one in dumped if kind == "PRODUCER_IDS_RECORD"]
    assert data["next_producer_id"] == max(blocks)
    assert data["reused_producer_ids"]
    assert data["largest_producer_id"] >= max(blocks)
    assert ended.code == 1


def test_q06_snapshots_past_the_chosen_copy_are_named(lost: Lagged) -> None:
    document = inspected(lost, "--copy", f"log:{copy_of(lost.lagging).parent}").document
    end = of_lagging(lost, document["copies"])["log_end"]
    past = {
        str(copy_of(node)): names
        for node in lost.cluster.nodes
        if (
            names := [
                path.name
                for path in sorted(copy_of(node).glob("*.checkpoint"))
                if int(path.name[:20]) > end
            ]
        )
    }
    assert past
    assert {one["path"]: one["snapshots"] for one in document["surviving_snapshots"]} == past


def test_q07_what_is_called_a_stray_becomes_one_when_the_old_copy_leads(lost: Lagged) -> None:
    """And a stale member of the ISR costs records, as does a producer id that is used again."""
    document = inspected(lost, "--copy", f"log:{copy_of(lost.lagging).parent}").document
    expected = {Path(one["path"]) for one in document["data"]["strays"]}
    assert {path.name for path in expected} == {f"{NEW}-0", f"{NEW}-1", f"{GROWN}-1"}
    cluster, controller = lost.cluster, lost.lagging
    address = next(
        one
        for one in cluster.controller_bootstrap.split(",")
        if one.endswith(f":{port_of(controller)}")
    )
    # Long enough for broker 1 to register before the others are fenced.
    patient = {"broker.session.timeout.ms": "20000"}
    alone = {"controller.quorum.voters": f"{controller.id}@{address}"}
    cluster.configure(controller.id, alone | patient)
    kept = shutil.copytree(copy_of(controller), controller.layout.folder / "kept")
    for broker in cluster.brokers:
        # Its own newer snapshot would be loaded in place of the old copy's state. A broker without
        # a folder loads the leader's newest snapshot first, and may act by that: too many strays.
        folder = copy_of(broker)
        state = (folder / "quorum-state").read_bytes()
        folder.rename(folder.with_name("moved-aside"))
        shutil.copytree(kept, folder)
        (folder / "quorum-state").write_bytes(state)
    # It registers when the controller leads; the others are fenced, and leave the ISR.
    cluster.broker(1).start()
    controller.start()
    cluster.wait_until(lambda: leads(controller), "the old copy to lead")
    cluster.wait_until(lambda: led_by_b1(cluster), "the stale member to lead")
    for broker in cluster.brokers[1:]:
        broker.start()
    stray = re.compile(r"(.+)\.[0-9a-f]{32}-stray")

    def strays() -> set[Path]:
        return {
            path.with_name(found[1])
            for broker in cluster.brokers
            for path in broker.layout.log_dirs[0].iterdir()
            if (found := stray.fullmatch(path.name))
        }

    cluster.wait_until(lambda: strays() == expected, f"the strays {expected}")
    cluster.wait_until(
        lambda: set(cluster.partition(OLD, 0, via=1).isr) == {1, 2, 3}, "every replica of it"
    )
    left = values_of(cluster, OLD, 0)
    assert left == WRITTEN[:-LATE]
    # Acknowledged, as a duplicate of what another producer wrote by this id.
    produce(cluster, OLD, 1, 1)
    assert values_of(cluster, OLD, 0) == left


def led_by_b1(cluster: Cluster) -> bool:
    seen = [one for one in cluster.partitions(OLD, via=1) if one.partition.partition == 0]
    return [(one.leader, tuple(one.isr)) for one in seen] == [(1, (1,))]
