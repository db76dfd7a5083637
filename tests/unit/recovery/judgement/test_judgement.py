"""What is concluded from an incident: one word, one action, who should lead, at which price.

Each incident is two lines: what is known of it, as tests/unit/recovery/notation.py reads it, and
then what follows. ``whole`` are brokers whose start brings the partition back, ``more`` those that
may hold more, ``hazard`` those that a reorder would elect instead, ``next`` whom the controller
elects by itself, ``cuts`` what a return cuts from others. ``automatable`` needs no decision beside
the consent, and ``alone`` a consent of its own. The sentences are in the golden file, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from breakglass.services.model import (
    Denied,
    EpochHistory,
    LogContents,
    LogDir,
    PartitionEvidence,
    ReplicaLog,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import (
    Assessment,
    Verb,
    Verdict,
    own_consent,
)
from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.heard_before import remembering
from breakglass.services.recovery.judgement.inputs import abandoned, proof_of_no_more
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Summary, summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.spans import Span, at_risk_of_return, shares_of
from breakglass.services.snapshot import Quorum
from tests.unit.recovery.notation import NO_QUORUM, QUORUMS, ROLES, Incident, incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, HEALTHY, log, offline, silent

INCIDENTS = """
the last leader is dead
    b1 last down, b2 0:100, b3 0:90
    WAIT start b1; whole b1; b2 loses 0; cuts >= 0 of b2 b3; automatable; alone
a member of the ELR is dead
    b1 elr down, b2 0:100
    WAIT start b1; whole b1; b2 loses 0; cuts >= 0 of b2; automatable; alone
a stale replica that is down may hold more
    b1 down, b2 0:100, b3 0:90
    WAIT start b1; more b1; b2 loses 0; automatable; alone
every replica was read and nothing is lost
    b2 0:100, b3 0:90
    SAFE elect b2; b2 loses 0; automatable
the shorter log of the later epoch wins and cuts off a tail that was never committed
    b2 0:100 1:150 hw100, b1 0:100 2:125 hw100
    LOSS elect b1; b1 loses 50; automatable
an earlier unclean election forked the log
    b1 0:1000, b2 0:1000, b3 0:10 5:12
    FORK decide; best b3; alone
no replica answers
    b1 down, b2 down
    STUCK no answer
every member of the ELR brings it back, the first of the assignment is started
    b1 down, b2 elr down, b3 elr down, b4 0:9
    WAIT start b2; whole b2 b3; more b1; b4 loses 0; cuts >= 0 of b4; automatable; alone
a fenced broker that runs is reconnected
    b1 elr 0:100 fenced, b2 0:90
    WAIT reconnect b1; whole b1; b2 loses 10; alone
of several last known leaders the controller elects none
    b1 last down, b2 last down, b3 0:9
    WAIT start b1; more b1 b2; b3 loses 0; automatable; alone
of several last known leaders that are back EMPTY the controller elects none either
    b1 last empty, b2 last empty, b3 0:9
    SAFE elect b3; hazard b1 b2; b3 loses 0
a member of the ELR comes before the last leader
    b1 last down, b2 elr down, b3 0:9
    WAIT start b2; whole b2; more b1; b3 loses 0; cuts >= 0 of b3; automatable; alone
waiting comes before what would stop an election
    b1 elr down, b2 0:9 | moving
    WAIT start b1; whole b1; best b2; cuts >= 0 of b2; alone

r01 a live member of ISR, ELR or last known ELR bars every other election
    b1 2:90, b2 last 1:100
    BOMB stop b2 NOW; hazard b2; next b2; b1 loses 100; alone
r01 the designee itself is no hazard
    b1 last 0:90 2:110, b2 0:90 1:100 hw90
    WAIT await b1; whole b1; next b1; b1 loses 10; cuts 10 of b2; automatable
r01 a clean successor is awaited though another log has a longer uncommitted tail
    b1 isr 0:100, b2 0:150 hw100
    WAIT await b1; whole b1; hazard b1; next b1; best b2; cuts 50 of b2; alone
r01 a member whose fencing is unknown is a hazard
    b1 isr down fenced?, b2 0:9
    WAIT start b1; whole b1; hazard b1; b2 loses 0; cuts >= 0 of b2; alone
r01 a member on an offline directory cannot be elected and is no hazard
    b1 last hung no-dir, b2 0:9
    LOSS elect b2; b2 loses 0; automatable; alone
r02 a member of the ISR that is back EMPTY is a bomb
    b1 isr empty, b2 0:100, b3 down
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0; alone
r02 a member of the ELR that is back EMPTY is a bomb
    b1 elr empty, b2 0:100, b3 down
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0; alone
r02 the last leader that is back EMPTY is a bomb
    b1 last empty, b2 0:100, b3 down
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0; alone
r02 a last leader below another replica is a bomb
    b1 last 0:100, b2 0:150 hw100
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0; alone
r02 a member of the ISR without records known as committed is a bomb
    b1 isr 0:100, b2 0:150 hw120
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0; alone
r02 a last leader of a later epoch on a committed fork is a bomb
    b1 last 0:10 5:12, b2 0:1000
    BOMB stop b1 NOW; hazard b1; next b1; best b1; alone
r02 a bomb that is still fenced goes off when it is unfenced
    b1 last empty fenced, b2 0:100
    BOMB stop b1 NOW; b2 loses 0; alone
r02 EMPTY while no other replica can be read is a bomb
    b1 last empty, b2 down, b3 down
    BOMB stop b1 NOW; hazard b1; next b1; best b1; alone
r02 EMPTY where offsets were committed is a bomb
    b1 last empty | floor 9
    BOMB stop b1 NOW; hazard b1; next b1; best b1
r02 a partition that was never written is none
    b1 last empty, b2 empty, b3 empty
    WAIT await b1; whole b1; next b1; b1 loses 0; automatable
r02 a bomb that was stopped is not waited for once it is declared gone
    b1 last down, b2 0:100 | gone 1
    SAFE elect b2; b2 loses 0; automatable; alone
r02 a broker declared gone that runs is still a bomb
    b1 last empty, b2 0:100 | gone 1
    BOMB stop b1 NOW; hazard b1; next b1; b2 loses 0

r08 an unproven order is shown and needs a consent of its own
    b1 5:100, b2 end150
    LOSS elect b1; b1 loses ?; alone
r08 unknown epochs with equal ends leave the loss unknown
    b1 end100, b2 end100
    LOSS elect b1; b1 loses ?; automatable; alone
r08 a whole log is proposed at the price of what only the corrupt one holds
    b2 0:120 corrupt40, b3 0:100 whole
    LOSS elect b3; b3 loses 20; alone
r08 a whole log that holds everything is safe beside a corrupt one
    b2 0:120 corrupt40, b3 0:120 whole
    SAFE elect b3; b3 loses 0; automatable
r08 a corrupt winner loses what consumers cannot read, and needs a consent of its own
    b2 0:120 corrupt40, b3 0:30
    LOSS elect b2; b2 loses 80; alone
r08 a live successor that is corrupt is awaited
    b2 isr 0:120 corrupt40, b3 0:100
    WAIT await b2; whole b2; hazard b2; next b2; best b3; alone
r09 a fork is shown with its price and decided by the operator
    b1 0:1000 hw990, b3 0:10 5:12
    FORK decide; best b3; alone
r09 an unknown high watermark on a tail that is cut needs a consent of its own
    b2 0:100 1:150 hw?, b1 0:100 2:125 hw100
    LOSS elect b1; b1 loses 50; alone
r09 an unknown high watermark matters not where nothing is cut
    b1 0:100 hw?, b2 0:90 hw?
    SAFE elect b1; b1 loses 0; automatable
r09 committed records on a fenced replica are lost by a consent of its own
    b1 0:100, b2 0:150 fenced
    LOSS elect b1; b1 loses 50; alone
r09 a fork beside an unread replica is decided by the operator
    b2 down, b1 0:1000 hw990, b3 0:10 5:12
    WAIT start b2; more b2; best b3; alone
r11 records known to be in no readable replica make a loss
    b1 0:100, b2 down | gone 2, floor 125
    LOSS elect b1; b1 loses 0; automatable
r11 an unread log of which nothing is known is given up by a consent of its own
    b1 down, b3 0:10 | gone 1
    SAFE elect b3; b3 loses 0; automatable; alone
r12 a reassignment stops every election
    b1 0:9, b2 0:9 | moving
    STUCK reassignment; best b1
r12 a reassignment that is not known needs a consent of its own
    b1 0:9 | moving?
    SAFE elect b1; b1 loses 0
r12 an unregistered broker in the assignment stops every election
    b1 0:9, b2 down | unregistered 2
    STUCK unregistered; best b1; alone
r12 an unregistered last leader is not waited for
    b1 0:9, b3 last down | unregistered 3
    STUCK unregistered; best b1; alone
r14 where unclean election is on the controller may elect the first live replica
    b1 0:50, b2 0:90 | unclean
    SAFE elect b2; next b1; b2 loses 0; automatable
r14 a setting that was not read leaves open whom the controller elects
    b1 0:9 | unclean?
    SAFE elect b1; b1 loses 0; automatable
r15 until the deadline an unfenced replica may still answer
    b1 0:9, b2 hung | early
    WAIT await b2; more b2; b1 loses 0; alone
r15 after the deadline an unfenced replica that hangs is restarted
    b1 0:9, b2 hung
    WAIT start b2; more b2; b1 loses 0; automatable; alone
r15 a partition whose live replicas all answered waits for no deadline
    b1 0:9, b2 down | early
    WAIT start b2; more b2; b1 loses 0; automatable; alone
r15 a partition that was read whole waits for no deadline
    b1 0:9, b2 0:5 | early
    SAFE elect b1; b1 loses 0; automatable
r16 replicas that cannot be chosen leave none
    b1 0:9 fenced, b2 hung, b3 0:9 no-dir
    STUCK none eligible
r16 a winner whose fencing is unknown needs a consent of its own
    b1 0:9 fenced?
    SAFE elect b1; b1 loses 0; alone
r17 an internal topic is agreed to alone
    b1 0:9 | internal
    SAFE elect b1; b1 loses 0; automatable; alone
r20 without a quorum no election can work
    b1 last down, b2 0:9 | no quorum
    STUCK no quorum; best b2; alone
r20 a quorum that does not answer is none
    b1 0:9 | silent quorum
    STUCK no quorum; best b1
r20 a bomb is stopped before the quorum is restored
    b1 last empty, b2 0:9 | no quorum
    STUCK no quorum; hazard b1; best b2; alone
r20 a quorum that could not be read bars nothing
    b1 0:9 | unread quorum
    SAFE elect b1; b1 loses 0; automatable
r21 an EMPTY log is remarked where others hold records
    b1 empty, b2 0:9, b3 down
    WAIT start b3; more b3; b2 loses 0; automatable; alone

the example of KIP-966: an EMPTY replica is all that can be read
    b1 down, b2 down, b4 empty
    WAIT start b1; more b1 b2; b4 loses 0; alone
the same with the others declared gone
    b1 down, b2 down, b4 empty | gone 1, gone 2
    LOSS elect b4; b4 loses 0; alone
an EMPTY log is no better than others beside an unread one
    b2 down, b3 empty | floor 0
    WAIT start b2; more b2; b3 loses 0; alone
what was stopped before the last leader may hold more than what missed it
    b1 last down, b2 down, b3 0:10 | gone 1, floor 0
    WAIT start b2; more b2; b3 loses 0; automatable; alone
a replica declared gone is waited for no more
    b1 down, b2 down, b3 0:10 | gone 1, gone 2, floor 0
    SAFE elect b3; b3 loses 0; automatable
what makes a partition whole is started before what may hold more
    b1 last down, b2 down, b3 0:10 | floor 0
    WAIT start b1; whole b1; more b2; b3 loses 0; cuts >= 0 of b3; automatable; alone
what runs without a way to the controllers is reconnected
    b2 down cut-off, b3 0:10 | floor 0
    WAIT reconnect b2; more b2; b3 loses 0; automatable; alone
a forfeited log is not started and makes nothing safe
    b2 down forfeited, b3 0:10 | floor 0
    LOSS elect b3; b3 loses 0; automatable
a forfeited log that is declared gone is none
    b2 down forfeited, b3 0:10 | floor 0, gone 2
    SAFE elect b3; b3 loses 0; automatable
a log that was reported before is proved to hold no more
    b2 down 0:5, b3 0:10 | floor 0
    SAFE elect b3; b3 loses 0; automatable

a replica that followed the returning leader loses nothing
    b1 last down, b2 3:100 4:120 | epoch 5
    WAIT start b1; whole b1; b2 loses 0; automatable; alone
a replica that followed the last member of the ISR loses nothing
    b1 isr down, b2 3:100 4:120 | epoch 5
    WAIT start b1; whole b1; b2 loses 0; automatable; alone
a log of an earlier epoch may hold what the returning leader lacks
    b1 last down, b2 0:100 1:150 hw100 | epoch 5
    WAIT start b1; whole b1; b2 loses 0; cuts >= 0 of b2; automatable; alone
of two members of the ELR either may have led last
    b1 elr down, b3 elr down, b2 4:150 | epoch 5
    WAIT start b1; whole b1 b3; b2 loses 0; cuts >= 0 of b2; automatable; alone
a member of the ELR that led last cuts nothing from its followers
    b1 elr down, b3 elr down, b2 4:150 | epoch 5, noted 1
    WAIT start b1; whole b1 b3; b2 loses 0; automatable; alone
a member of the ELR beside whom no leader was noted may cut
    b1 elr down, b2 4:150 | epoch 5
    WAIT start b1; whole b1; b2 loses 0; cuts >= 0 of b2; automatable; alone
a member of the ELR that did not lead last may cut
    b1 elr down, b2 4:150 | epoch 5, noted 3
    WAIT start b1; whole b1; b2 loses 0; cuts >= 0 of b2; automatable; alone
logs that diverge give a lower bound of what is cut
    b1 last down, b2 0:100 1:150 hw100, b3 0:100 2:125 hw100 | epoch 5
    WAIT start b1; whole b1; b3 loses 50; cuts >= 25 of b2 b3; automatable; alone
a follower of the returning leader says which side is cut
    b1 last down, b2 0:100 1:150 hw100, b3 0:100 4:103 | epoch 5
    WAIT start b1; whole b1; b3 loses 50; cuts >= 50 of b2; automatable; alone
a clean successor cuts the uncommitted tail of another
    b1 isr 0:100, b2 0:100 1:110 hw100 | epoch 5
    WAIT await b1; whole b1; hazard b1; next b1; best b2; cuts 10 of b2; alone
a clean successor with the longer log cuts nothing
    b1 isr 0:100, b2 0:90 | epoch 5
    WAIT await b1; whole b1; next b1; b1 loses 0; automatable
a replica to be started that would not lead cuts nothing
    b1 down, b2 0:100 1:150 hw100 | epoch 5
    WAIT start b1; more b1; b2 loses 0; automatable; alone
"""
HEADLINES = """
the broker that brings back most is started, after a rescue where others brought some back
    b1 elr down, b2 elr down, b9 8:5 | noted 1
    b2 elr down, b9 8:5 | noted 2
    b3 elr down, b9 8:5 | noted 3
    b1 0:9, b2 0:5
a broker that runs fenced is reconnected
    b1 elr 0:9 fenced, b2 0:5
a broker whose return cuts nothing is started
    b1 last down, b2 4:150 | epoch 5
what may be cut is rescued before a broker is started
    b1 last down, b2 0:100 1:150 hw100 | epoch 5
a live successor is awaited
    b1 last 0:9
    b1 0:9, b2 0:5
the broker that may hold more of most is started
    b2 down, b3 0:10 | floor 0
    b2 down, b3 0:10 | floor 0
a broker that may still answer is awaited
    b2 hung, b3 0:10 | floor 0, early
what comes back whole comes before what may hold more
    b2 down, b3 0:10 | floor 0
    b1 last down, b3 8:10
elections lose nothing
    b1 0:9, b2 0:5
    b1 0:9, b2 0:5
an election loses records
    b2 0:100 1:150 hw100, b1 0:100 2:125 hw100
an election loses one record
    b1 0:9 2:10, b2 0:9 1:10 hw9
an election of a compacted topic loses about so many
    b2 0:100 1:150 hw100, b1 0:100 2:125 hw100 | compacted
some lose nothing, some records, some an unknown number
    b1 0:9, b2 0:5
    b2 0:100 1:150 hw100, b1 0:100 2:125 hw100
    b1 5:100, b2 end90
an election loses an unknown number
    b1 5:100, b2 end90
a fork is decided
    b1 0:900, b2 0:9 5:12
    b1 0:9 | moving
all are stuck
    b1 0:9 | moving
r02 bombs come first, whatever else helps, also those that are still fenced
    b4 last empty, b2 0:9
    b3 elr down, b9 8:5 | noted 3
    b1 0:9, b2 0:5
    b4 last empty fenced, b2 0:9
r02 nothing is left to be done after a bomb
    b4 last empty, b2 0:9
r20 a lost quorum comes before all else
    b1 elr down, b9 8:5 | noted 1, no quorum
r20 a quorum that was not read is no lost one
    b1 0:9, b2 0:5 | unread quorum
"""


def blocks(text: str) -> dict[str, list[str]]:
    """The indented lines below each sentence."""
    found: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith(" "):
            found[list(found)[-1]].append(line.strip())
        else:
            found[line] = []
    return found


VERDICTS = blocks(INCIDENTS)


def conclusion(one: Incident) -> str:
    """What is concluded, without its sentences."""
    found, cut = one.judged, one.judged.cut_by_return
    facts = [
        f"{found.verdict} {found.action}",
        listed("whole", found.restorers),
        listed("more", found.unheard),
        listed("hazard", found.hazards),
        listed("next", [found.forecast.broker]),
        f"best b{found.best}" if found.designee is None and found.best is not None else "",
        f"b{found.designee} loses {figure(found.loss.total, '?')}" if found.loss else "",
        f"cuts {figure(cut.records, f'>= {cut.at_least}')}{listed(' of', cut.holders)}"
        if cut
        else "",
        "automatable" if found.automatable else "",
        "alone" if alone(one) else "",
    ]
    return "; ".join(filter(None, facts))


def listed(word: str, brokers: Sequence[int | None]) -> str:
    named = [f"b{broker}" for broker in brokers if broker is not None]
    return " ".join([word, *named]) if named else ""


def figure(number: int | Unknown, unknown: str) -> str:
    return unknown if isinstance(number, Unknown) else str(number)


def alone(one: Incident) -> str:
    """Why the best replica is agreed to by a consent of its own."""
    best = one.judged.best
    return "" if best is None else own_consent(one.evidence, best, one.circumstances.ruled_out)


def judged(*replicas: ReplicaLog) -> Assessment:
    return assess(offline(*replicas, floor=0), HEALTHY)


@pytest.mark.parametrize(("given", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_each_incident_has_one_word_one_action_and_a_price(given: str, expected: str) -> None:
    assert conclusion(incident(given)) == expected


def read_to(contents: LogContents | Unknown) -> Incident:
    return Incident(offline(replace(log(2, (0, 120)), contents=contents)), HEALTHY)


def moved(behind: int | Unknown) -> Incident:
    """b1 has the copy of an unfinished move beside its log, or alone if *behind* is Unknown."""
    copy = LogDir("/two", online=True, size=1_234, future=True, behind=behind)
    if isinstance(behind, Unknown):
        one = replace(silent(1, fenced=False, log_dir_online=False), only_copy=copy)
    else:
        one = replace(log(1, (0, 75)), log_dir=LogDir("/one", online=True, size=7, copy=copy))
    return Incident(offline(one, log(2, (0, 100))), HEALTHY)


UNUSUAL = {
    "contents that were read back to an offset": read_to(LogContents(80, 120, stopped="so far")),
    "contents of which a part was read": read_to(LogContents(80, 90, stopped="b2 throttles us")),
    "contents that may not be read": read_to(Denied("READ is missing", "READ on topic orders")),
    "the copy of a move is ahead of its log": moved(-25),
    "the copy of a move is ahead by one": moved(-1),
    "the copy of a move is all that is left": moved(Unknown("no log")),
}


def sentences(one: Incident) -> Iterator[str]:
    """What is said of an incident: reasons, what else bars an election in bulk, own consent."""
    found = one.judged
    yield from (f"  - {reason}" for reason in found.reasons)
    yield from (f"  ! {barrier}" for barrier in found.barriers if barrier not in found.reasons)
    if alone(one):
        yield f"  alone: {alone(one)}"


def summed(incidents: Sequence[str]) -> Summary:
    found = [incident(text) for text in incidents]
    quorum = found[0].circumstances.quorum if found else HEALTHY.quorum
    return summarize((one.judged for one in found), quorum)


def test_what_an_operator_reads(snapshot: SnapshotAssertion) -> None:
    """Of each incident, and of many at once."""
    usual = {name: incident(text) for name, (text, _) in VERDICTS.items()}
    told = []
    for name, one in (usual | UNUSUAL).items():
        told += [name, *sentences(one)]
    for name, texts in blocks(HEADLINES).items():
        found = summed(texts)
        told += [name, *(f"  {text}" for text in (found.alarm, found.headline) if text)]
    for name, quorum in QUORUMS.items():
        told += [f"nothing is offline, {name}", f"  {summarize([], quorum).headline}"]
    assert "\n".join(told) == snapshot


def test_r20_nothing_offline_is_doubted_only_where_brokers_may_be_cut_off() -> None:
    certain = summarize([], HEALTHY.quorum)
    assert summarize([], Denied("not allowed", "DESCRIBE on CLUSTER")) == certain
    assert all(summarize([], quorum) != certain for quorum in QUORUMS.values())


def test_counts_are_by_verdict_and_leave_out_what_does_not_occur() -> None:
    found = summed(["b1 0:9", "b1 0:9 2:10, b2 0:9 1:10 hw9", "b1 0:9", "b4 last empty, b2 0:9"])
    assert (found.total, bool(found.alarm)) == (4, True)
    assert found.counts == {Verdict.BOMB: 1, Verdict.LOSS: 1, Verdict.SAFE: 2}


@pytest.mark.parametrize("behind", [-25, -1, 0, 9])
def test_r21_the_copy_of_a_move_is_remarked_where_it_is_ahead_of_the_log(behind: int) -> None:
    remarks = [reason for reason in moved(behind).judged.reasons if "/two" in reason]
    assert len(remarks) == (behind < 0)


def test_a_partition_with_a_leader_is_not_judged() -> None:
    with pytest.raises(ValueError, match="orders-3"):
        assess(offline(log(1, (0, 9)), leader=1))


@pytest.mark.parametrize(
    ("before", "candidate", "proved"),
    [
        pytest.param("b2 down 0:10", "b3 0:10", True, id="the same log"),
        pytest.param("b2 down 0:5", "b3 0:10", True, id="a prefix"),
        pytest.param("b2 down told", "b3 0:10", True, id="no records"),
        pytest.param("b2 down 0:11", "b3 0:10", False, id="one more"),
        pytest.param("b2 down 0:5 1:6", "b3 0:10", False, id="another lineage"),
        pytest.param("b2 down 0:10", "b3 0:10 from4", False, id="an older head"),
        pytest.param("b2 down 0:10 from4", "b3 0:10 from4", True, id="the same head"),
        pytest.param("b2 down", "b3 0:10", False, id="never heard"),
        pytest.param("b2 down 0:50", "b3 0:120 whole", True, id="a prefix of a whole log"),
        pytest.param("b2 down 0:50", "b3 0:120 corrupt40", False, id="past a corrupt batch"),
    ],
)
def test_a_log_that_was_reported_before_proves_no_more_when_it_is_a_prefix(
    before: str, candidate: str, proved: bool
) -> None:
    one = incident(f"{before}, {candidate} | floor 0")
    silent_log, best = one.evidence.replicas
    assert bool(proof_of_no_more(one.evidence, silent_log, best)) is proved
    assert abandoned(one.evidence, 3) == (() if proved else (2,))
    assert bool(one.judged.unheard) is not proved
    assert one.judged.heard == (1, 2), "it was not heard now"


def test_a_log_reported_by_a_broker_that_knew_another_epoch_proves_nothing() -> None:
    cut_off = replace(log(2, (0, 5)), leader_epoch=8)
    assert judged(silent(2, last_heard=cut_off), log(3, (0, 10))).unheard == (2,)


class TestRemembering:
    """What was reported earlier counts for as long as no replica has led since."""

    THEN = incident("b2 0:5, b3 0:10").evidence
    NOW = incident("b2 down, b3 0:10").evidence

    def test_it_is_handed_on_while_the_partition_is_as_it_was(self) -> None:
        once = remembering(self.THEN, self.NOW)
        assert once.replicas[0].last_heard == self.THEN.replicas[0]
        assert isinstance(once.replicas[0].log_end, Unknown), "it is no reading of now"
        assert remembering(once, self.NOW).replicas == once.replicas

    @pytest.mark.parametrize(
        "changed", [{"leader_epoch": 10}, {"topic_id": ANOTHER_TOPIC_ID}, {"leader": 3}]
    )
    def test_it_is_forgotten_once_a_replica_may_have_led(self, changed: dict[str, Any]) -> None:
        now = replace(self.NOW, state=replace(self.NOW.state, **changed))
        assert remembering(self.THEN, now) is now

    def test_what_is_read_now_needs_no_memory(self) -> None:
        assert remembering(self.THEN, self.THEN) is self.THEN
        assert remembering(None, self.THEN) is self.THEN


OLD_TAIL = log(2, (0, 100), (1, 150), hw=100)
"""b2 led epoch 1 alone; its records from 100 on may be on no other replica."""
BACK = log(1, (0, 100), (4, 130))


@pytest.mark.parametrize(("epoch", "cut"), [(5, 50), (4, None)], ids=["since", "before"])
def test_a_log_that_was_reported_since_the_leader_was_lost_gives_the_figure(
    epoch: int, cut: int | None
) -> None:
    returning = silent(1, role=ROLES["last"], last_heard=replace(BACK, leader_epoch=epoch))
    found = assess(offline(returning, OLD_TAIL, leader_epoch=5), HEALTHY).cut_by_return
    assert found is not None
    assert (found.holders, found.at_least) == ((2,), cut or 0)
    assert found.records == cut or isinstance(found.records, Unknown)


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        pytest.param(
            "b1 last down, b2 0:100 1:150 hw100, b3 0:100 4:130 | epoch 5",
            {2: (Span(0, 150),)},
            id="of a log that was never reported all but what followers hold",
        ),
        pytest.param(
            "b1 last down 0:100 9:130, b2 0:100 1:150 hw100 | epoch 9",
            {2: (Span(100, 150),)},
            id="of a log that was reported what it lacks",
        ),
        pytest.param(
            "b1 down, b3 last down, b2 0:100 1:150 hw100 | epoch 5",
            None,
            id="nothing for a broker that does not lead on its return",
        ),
    ],
)
def test_the_rescue_takes_what_is_not_proved_to_be_there_and_no_more(
    given: str, saved: dict[int, tuple[Span, ...]] | None
) -> None:
    risk = at_risk_of_return(incident(given).evidence, 1)
    shares = None if risk is None else shares_of(risk)
    assert not isinstance(shares, Unknown)
    assert saved == (shares and {share.replica.broker: share.spans for share in shares})


@given(partitions(), st.booleans(), st.sampled_from([HEALTHY.quorum, NO_QUORUM, Unknown("?")]))
def test_what_may_be_automated_is_always_sound(
    evidence: PartitionEvidence, deadline_passed: bool, quorum: Quorum | Unknown
) -> None:
    found = assess(evidence, Circumstances(quorum, deadline_passed=deadline_passed))
    if found.action.verb is Verb.ELECT:
        assert found.action.broker == found.designee
    if found.designee is not None:
        assert eligibility(evidence, found.designee).recommendable
        assert found.loss is not None
        assert found.loss.candidate == found.designee
    if found.automatable:
        assert found.designee is not None
        assert eligibility(evidence, found.designee).standing is ReplicaStanding.ELIGIBLE
        assert found.hazards == ()
        assert found.verdict not in (Verdict.STUCK, Verdict.BOMB, Verdict.FORK)
        assert found.loss is not None
        assert found.loss.committed_elsewhere is False


@given(partitions())
def test_a_judgement_is_the_same_whatever_the_order_of_replicas(
    evidence: PartitionEvidence,
) -> None:
    assume(obeys_log_matching(evidence.replicas))
    turned = replace(evidence, replicas=evidence.replicas[::-1])
    one, other = assess(evidence, HEALTHY), assess(turned, HEALTHY)
    assert (one.verdict, one.action, one.designee) == (other.verdict, other.action, other.designee)
    assert loses(one) == loses(other)


def obeys_log_matching(replicas: Sequence[ReplicaLog]) -> bool:
    """An epoch has one leader, so it begins at one offset; a log that begins later cuts it."""
    held = [
        (epoch.epoch, epoch.start, epoch.start == replica.log_start)
        for replica in replicas
        if isinstance(replica.epochs, EpochHistory)
        for epoch in replica.epochs.ranges
    ]
    begins = {epoch: start for epoch, start, cut in held if not cut}
    return all(
        start >= begins.get(epoch, start) if cut else start == begins[epoch]
        for epoch, start, cut in held
    )


def loses(found: Assessment) -> list[object]:
    """The loss, with every Unknown alike: of several reasons any may be given."""
    if found.loss is None:
        return []
    records = found.loss.records
    figures = records.total, records.committed, records.uncommitted
    return ["?" if isinstance(number, Unknown) else number for number in figures]


@given(evidence=partitions())
def test_r03_no_sentence_suggests_to_change_the_min_isr(evidence: PartitionEvidence) -> None:
    """It would make the controller forget ELR and last leader, and so an intact one."""
    found = assess(evidence, HEALTHY)
    said = (str(found.action), found.forecast.reason, *found.reasons, *found.barriers)
    assert [sentence for sentence in said if "min.insync" in sentence] == []
