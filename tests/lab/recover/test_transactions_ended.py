"""R18: transactions that lost their markers end as those say, or by an abort that names its price.

b3 led last and alone has every marker; it is dead, and b2 was elected.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.behind import TRANSACTION_SECONDS, begun
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.lab.truth import Truth
from breakglass.services.model import TopicPartition
from tests.kit.program import Ended, breakglass
from tests.lab.asking import consume, open_transactions
from tests.lab.recover.cut_transactions import (
    CUT,
    CUT_TRANSACTION,
    MORE,
    ORPHAN,
    ORPHANED,
    RENEWED,
    RENEWED_EPOCH,
    SHARED,
)
from tests.lab.scenarios.damaged import damaged

BILLING = TopicPartition("billing", 0)
RECORDS, SINCE = 10, 5
"""Of the transaction on billing, and written after the election."""
ENDED = "after", "transactions", "finish"


class Recovered(NamedTuple):
    """A lab after its elections, and what was listed before any transaction was ended."""

    cluster: Cluster
    truth: Truth
    listed: Ended


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recovered]:
    newer = [RENEWED_EPOCH] if request.param == "4.3.1" else []
    with damaged(
        tmp_path_factory.mktemp("lab"),
        "hanging-transaction",
        beside=[CUT_TRANSACTION, ORPHANED, *newer],
        kafka_version=request.param,
    ) as (cluster, truth):
        for partition in (partition.partition for partition in truth.partitions):
            elect_unclean(cluster, partition)
            cluster.wait_partition(
                partition.topic, 0, lambda state: state.leader == 2, "b2 to lead"
            )
            produce(cluster, partition.topic, 0, SINCE)
        lab = Recovered(cluster, truth, Ended(0, "", ""))
        listed = run(lab, "after", "transactions", "list", "--from", folder(lab, BILLING), "--json")
        yield lab._replace(listed=listed)


def partitions(lab: Recovered) -> list[TopicPartition]:
    return [partition.partition for partition in lab.truth.partitions]


def folder(lab: Recovered, partition: TopicPartition) -> str:
    (logs,) = lab.cluster.broker(3).layout.log_dirs
    return f"log:{logs}/{partition}"


def run(lab: Recovered, *words: object) -> Ended:
    return breakglass(*words, "--bootstrap-server", lab.cluster.bootstrap_servers)


def only(partition: TopicPartition) -> tuple[str, str]:
    return "--topic", partition.topic


def producer(lab: Recovered, partition: TopicPartition) -> int:
    (producer,) = open_transactions(lab.cluster, 2, partition)
    return producer


def test_r18_the_list_says_which_hang_and_what_their_markers_say(lab: Recovered) -> None:
    assert lab.listed.code == 0, lab.listed.err
    found = {one["topic"]: one for one in lab.listed.document["open"]}
    assert set(found) == {partition.topic for partition in partitions(lab)}
    assert all(one["hanging"] is True for one in found.values())
    billing, orphan = found["billing"], found["orphan"]
    assert (billing["start_offset"], billing["last_stable_offset"]) == (0, 0)
    assert (billing["end"], billing["records"], billing["missing"]) == ("commit", RECORDS, 0)
    assert billing["marker_found_in"] == folder(lab, BILLING)
    assert (orphan["end"], orphan["why"]) == (None, "no log was named that may hold its marker")


def test_r18_a_broker_that_alone_has_a_marker_is_safe_to_start_once_a_rescue_has_it(
    lab: Recovered, tmp_path: Path
) -> None:
    (logs,) = lab.cluster.broker(3).layout.log_dirs
    check = ("can-start", "--from", f"log:{logs}", "--rescued", tmp_path, "--json")
    before = told_of(run(lab, *check), ORPHAN)
    assert (before["fate"], before["records"], before["lost_markers"]) == ("lost", 0, 1)
    assert before["why"] == f"in no rescue: 1 transaction marker, the first at offset {SHARED}"
    saved = run(lab, "rescue", "--from", folder(lab, ORPHAN), "--to", tmp_path, "--json")
    assert saved.code == 0, saved.err
    after = told_of(run(lab, *check), ORPHAN)
    assert (after["fate"], after["markers"], after["lost_markers"]) == ("rescued", 1, 0)


def told_of(checked: Ended, partition: TopicPartition) -> Any:
    """What `can-start` says of the partition; others are not rescued, so b3 may not start."""
    assert checked.code == 1, checked.err
    (one,) = [one for one in checked.document["partitions"] if one["topic"] == partition.topic]
    return one


def test_r18_a_marker_of_a_dead_brokers_log_folder_commits_and_consumers_read_on(
    lab: Recovered,
) -> None:
    phrase = f"billing-0 commit producer {producer(lab, BILLING)}"
    source = ("--from", folder(lab, BILLING))
    unarmed = run(lab, *ENDED, *only(BILLING), *source)
    unasked = run(lab, *ENDED, *only(BILLING), *source, "--write")
    assert (unarmed.code, unasked.code, unasked.said[-1]) == (3, 3, f"consent: {phrase}")
    assert consume(lab.cluster, BILLING, isolation="read_committed") == {}

    both = (*only(BILLING), *only(ORPHAN))
    ended = run(lab, *ENDED, *both, *source, "--write", "--consent", phrase)
    assert (ended.code, "left alone: no log was named" in ended.err) == (1, True), ended.err
    assert ended.out.strip().endswith(f"committed: last stable offset 0 -> {RECORDS + SINCE + 1}")
    assert open_transactions(lab.cluster, 2, BILLING) == {}
    assert len(consume(lab.cluster, BILLING, isolation="read_committed")) == RECORDS + SINCE
    journal = list_journals(lab.truth.cluster_id)[0]
    assert isinstance(journal, JournalView)
    (step,) = [step for step in journal.steps if step.name == "end transaction"]
    assert step.outcomes[BILLING].result == "done"
    listed = run(lab, "after", "transactions", "list", *only(BILLING))
    assert "No transaction is open." in listed.err


def test_r18_a_marker_in_a_rescue_commits_what_is_left_at_a_price_that_is_named(
    lab: Recovered, tmp_path: Path
) -> None:
    saved = run(lab, "rescue", "--from", folder(lab, CUT), "--to", tmp_path, "--json")
    assert saved.code == 0, saved.err
    (partition,) = saved.document["partitions"]
    assert partition["start"] == SHARED
    rescue = Path(partition["path"]).parents[2]
    phrase = f"cut-0 commit producer {producer(lab, CUT)} without {MORE} records"
    source = ("--from", f"rescue:{rescue}")
    unasked = run(lab, *ENDED, *only(CUT), *source, "--write")
    assert (unasked.code, unasked.said[-1]) == (3, f"consent: {phrase}")
    ended = run(lab, *ENDED, *only(CUT), *source, "--write", "--json", "--consent", phrase)
    assert ended.code == 0, ended.err
    (told,) = ended.document["ended"]
    assert (told["result"], told["records"], told["missing"]) == ("done", SHARED, MORE)
    kept = consume(lab.cluster, CUT, isolation="read_committed")
    assert len(kept) == SHARED + SINCE
    assert [kept[offset] for offset in range(SHARED)] == [f"t-{n}" for n in range(SHARED)]


def test_r18_an_abort_names_what_it_hides_and_read_committed_reads_past_it(lab: Recovered) -> None:
    left = run(lab, *ENDED, *only(ORPHAN), "--write")
    assert left.code == 1
    assert "left alone: no log was named that may hold its marker" in left.err

    phrase = f"orphan-0 abort producer {producer(lab, ORPHAN)} lose {SHARED}"
    unasked = run(lab, *ENDED, *only(ORPHAN), "--abort", "--write")
    assert (unasked.code, unasked.said[-1]) == (3, f"consent: {phrase}")
    ended = run(lab, *ENDED, *only(ORPHAN), "--abort", "--write", "--consent", phrase)
    assert ended.code == 0, ended.err
    kept = consume(lab.cluster, ORPHAN, isolation="read_committed")
    assert sorted(kept) == list(range(SHARED, SHARED + SINCE))


def test_r18_a_marker_of_the_producers_next_epoch_is_written_with_it(lab: Recovered) -> None:
    if RENEWED not in partitions(lab):
        pytest.skip("KIP-890's second part came with Kafka 4.0")
    phrase = f"renewed-0 commit producer {producer(lab, RENEWED)}"
    source = ("--from", folder(lab, RENEWED))
    ended = run(lab, *ENDED, *only(RENEWED), *source, "--write", "--consent", phrase)
    assert ended.code == 0, ended.err
    assert len(consume(lab.cluster, RENEWED, isolation="read_committed")) == SHARED + SINCE


def test_r18_what_its_producer_may_still_end_is_left_alone(lab: Recovered) -> None:
    create_topic(lab.cluster, "alive", [(2, 1)])
    living = begun(lab.cluster, "alive-writer")
    living.produce("alive", partition=0, value=b"v")
    assert living.flush(TRANSACTION_SECONDS) == 0
    ended = run(lab, *ENDED, "--topic", "alive", "--abort", "--write")
    assert ended.code == 0
    assert "left alone: its coordinator says Ongoing, and will ABORT it at " in ended.err
    living.commit_transaction(TRANSACTION_SECONDS)
    alive = TopicPartition("alive", 0)
    lab.cluster.wait_until(
        lambda: len(consume(lab.cluster, alive, isolation="read_committed")) == 1,
        "the coordinator to write its marker",
    )


def test_r18_a_source_of_another_cluster_is_refused(lab: Recovered, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "billing-0").mkdir(parents=True)
    (logs / "billing-0" / f"{0:020}.log").touch()
    (logs / "meta.properties").write_text("cluster.id=another\nnode.id=9\n")
    ended = run(lab, "after", "transactions", "list", "--from", f"log:{logs}")
    assert ended.code == 2
    assert "is of cluster another" in ended.err
