"""`rescue --source log:DIR`: the disk of a dead broker is saved whole, a running one is refused."""

from pathlib import Path

from breakglass.services.lab.segments import read_log
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import read_manifest
from tests.kit.program import Ended, breakglass
from tests.lab.recover.rescue.conftest import (
    AGED,
    B1_ALSO,
    BY_PLAN,
    LEDGER,
    PAYMENTS,
    SHARED,
    TRIMMED,
    WITHOUT,
)
from tests.lab.recover.rescue.test_rescue import cat, elect, elections, states
from tests.lab.scenarios.damaged import Damaged
from tests.unit.recovery.rescue.test_saver import everything

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
    elected = elect(lab.cluster, elections(tmp_path, by_log_0=OTHER), "--without-rescue")
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
