"""A corrupt batch on a real broker's disk: what is said of it, and what an election then costs."""

from pathlib import Path
from typing import Any

from breakglass.services.kafka.replicas.limits import PARTITION_BYTES, Allowance, ReadingLimits
from breakglass.services.model import LogContents, PartitionEvidence, Unknown
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.session import Effort
from tests.kit.program import Ended, breakglass
from tests.lab.asking import messages
from tests.lab.console.commands import elections
from tests.lab.recover.corrupt.conftest import (
    CORRUPT,
    FIRST,
    FLIPPED,
    FLIPPED_TOO,
    LOSING_B2,
    LOSING_B3,
    MORE,
    PER_BATCH,
    ROLLED,
    TAIL,
    WHOLE,
    Lab,
    partition,
)
from tests.lab.recover.session import judgement

END = FIRST + MORE
SENTENCE = f"b2 holds a corrupt batch at offset {CORRUPT}: consumers stop there"


def on(lab: Lab, *arguments: object) -> Ended:
    return breakglass(*arguments, "--bootstrap-server", lab.cluster.bootstrap_servers)


def triaged(lab: Lab, topic: str, *more: str) -> dict[str, Any]:
    """What `breakglass triage --json` says of *topic*'s partition, b1 being gone."""
    ended = on(lab, "triage", "--json", "--gone", 1, "--topics", topic, *more)
    assert ended.code == 0, ended.err
    (only,) = ended.document["partitions"]
    return dict(only)


def replica(told: dict[str, Any], broker: int) -> dict[str, Any]:
    return next(one for one in told["replicas"] if one["broker"] == broker)


def contents(lab: Lab, topic: str, broker: int, limits: ReadingLimits | None = None) -> LogContents:
    """What is read of one replica, whole by default."""
    found = lab.judged(topic)
    reading = ContentsReading(
        lab.client,
        Effort.FULL if limits is None else Effort.BUDGET,
        lambda _: broker,
        allowance=None if limits is None else Allowance(limits),
    )
    unread = [_unread(evidence) for evidence in found.evidence.partitions]
    (evidence,) = reading.read(unread)
    told = evidence.replica(broker)
    assert told is not None
    assert isinstance(told.contents, LogContents), told.contents
    return told.contents


def _unread(evidence: PartitionEvidence) -> PartitionEvidence:
    from dataclasses import replace

    unread = Unknown("not read")
    replicas = tuple(replace(log, contents=unread) for log in evidence.replicas)
    return replace(evidence, replicas=replicas)


def test_b3_is_proposed_in_place_of_a_longer_replica_with_a_flipped_byte(lab: Lab) -> None:
    found = judgement(lab.judged(FLIPPED), partition(FLIPPED))
    assert found.ranking.brokers[:2] == (3, 2)
    assert (found.verdict, str(found.action)) == (Verdict.LOSS, "elect b3")
    assert (found.loss_of(3).total, found.loss_of(2).total) == (LOSING_B3, LOSING_B2)
    assert SENTENCE in found.reasons
    assert not found.automatable


def test_the_triage_document_says_how_far_each_replica_was_read(lab: Lab) -> None:
    told = triaged(lab, FLIPPED)
    assert told["designated_leader"] == 3
    assert told["loses"]["records"] == LOSING_B3
    assert replica(told, 2)["contents"]["corrupt_at"] == CORRUPT
    assert replica(told, 2)["loses_if_chosen"]["records"] == LOSING_B2
    whole = replica(told, 3)["contents"]
    assert (whole["verified_from"], whole["verified_to"], whole["stopped"]) == (0, FIRST, "")


def test_without_reading_contents_the_corrupt_one_is_proposed_and_said_to_be_unread(
    lab: Lab,
) -> None:
    told = triaged(lab, FLIPPED, "--verify-contents", "off")
    assert (told["verdict"], told["designated_leader"]) == ("SAFE", 2)
    assert told["reasons"][0].endswith("its contents were not read (--verify-contents off)")


def test_a_whole_designee_is_safe_and_says_that_it_was_read_whole(lab: Lab) -> None:
    told = triaged(lab, WHOLE)
    assert (told["verdict"], told["designated_leader"]) == ("SAFE", 2)
    assert told["reasons"][0] == (
        "b2 holds everything that can be read; all its contents were read"
    )


def test_a_budget_that_ends_is_told_and_no_older_batch_is_vouched_for(lab: Lab) -> None:
    told = contents(lab, ROLLED, 2, ReadingLimits(30.0, 2**40, PARTITION_BYTES))
    assert told.corrupt_at is None
    assert CORRUPT + PER_BATCH <= told.verified_from < told.verified_to == END
    assert told.stopped
    found = triaged(lab, ROLLED)
    assert found["reasons"][0].startswith(
        "b2 holds everything that can be read; its contents were read back to offset "
    )
    full = triaged(lab, ROLLED, "--verify-contents", "full")
    assert (full["verdict"], full["designated_leader"]) == ("LOSS", 3)


def designated(lab: Lab, file: Path, *more: object) -> Ended:
    kind = ("--election-type", "designated")
    options = (*kind, "--path-to-json-file", file, "--write", "--gone", 1)
    return on(lab, "leader-election", *options, *more)


def test_electing_the_corrupt_one_by_hand_asks_for_its_whole_price(
    lab: Lab, tmp_path: Path
) -> None:
    ended = designated(lab, elections(tmp_path, {partition(FLIPPED): 2}))
    assert ended.code == 3
    assert ended.said[-1] == f"consent: {FLIPPED}-0 lose {LOSING_B2} and abandon b1"
    assert any(SENTENCE in line for line in ended.said)


def test_a_plan_made_of_a_corrupt_replica_is_priced_again_when_it_is_carried_out(
    lab: Lab, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    made = on(
        lab, "plan", "make", "--gone", 1, "--topics", FLIPPED, "--verify-contents", "off",
        "--out", plan,
    )  # fmt: skip
    assert made.code == 0, made.err
    ended = on(lab, "recover", "--plan", plan, "--write")
    assert ended.code == 3, ended.err
    assert "b2" in ended.err
    assert not any(line.startswith("consent: ") for line in ended.said), ended.err


def test_the_tail_that_only_the_corrupt_one_has_is_saved_before_b3_is_elected(
    lab: Lab, tmp_path: Path
) -> None:
    file = elections(tmp_path, {partition(FLIPPED_TOO): 3})
    phrase = f"{FLIPPED_TOO}-0 lose {LOSING_B3} and abandon b1"
    refused = designated(lab, file)
    assert refused.said[-1] == f"consent: {phrase}"
    to = tmp_path / "saved"
    ended = designated(lab, file, "--store", to, "--consent", phrase)
    assert ended.code == 0, ended.err
    assert "elected b3" in ended.out
    assert any(f"{MORE}" in line and "rescue" in line.lower() for line in ended.said), ended.err
    assert len(list(messages(lab.cluster, partition(FLIPPED_TOO)))) == FIRST


def test_a_tail_that_cannot_be_saved_whole_holds_its_election_and_says_so(
    lab: Lab, tmp_path: Path
) -> None:
    file = elections(tmp_path, {partition(TAIL): 3})
    phrase = f"{TAIL}-0 lose {MORE} and abandon b1"
    ended = designated(lab, file, "--store", tmp_path / "saved", "--consent", phrase)
    assert ended.code == 3, ended.err
    assert any("not rescued" in line and "CRC" in line for line in ended.said), ended.err
