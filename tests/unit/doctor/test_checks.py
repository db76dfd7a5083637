"""From facts to lines: in order, or what to do; what was not found out is never in order."""

from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.doctor.checks import (
    ROOM,
    SKEW_MS,
    BrokerFacts,
    Check,
    CheckState,
    ClusterFacts,
    MachineFacts,
    TerminalFacts,
    cluster_checks,
    machine_checks,
)
from breakglass.services.extras import how_to_install
from breakglass.services.model import Silent, Unknown
from breakglass.services.recovery.judgement.succession import RESTORE_QUORUM
from breakglass.services.snapshot import Quorum, Voter

TERMINAL = TerminalFacts("xterm-256color", True, (120, 40), False, "256 or more")
MACHINE = MachineFacts(
    "1.0", "3.11.7", TERMINAL, "utf-8", "", {}, "/usr/bin/java", "/state/rescue", 9 * ROOM, True
)
RIGHTS = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
LEADS, AWAY = Voter(101, 90, 0, 0), Voter(103, 9, 81, 90_000)
QUORUM = Quorum(101, 7, 90, (LEADS, Voter(102, 90, 0, 400), Voter(103, 90, 0, 400)))
CLUSTER = ClusterFacts(
    servers="b1:9092",
    cluster_id="lab",
    names_fenced=True,
    brokers=tuple(BrokerFacts(number, f"b{number}:9092", False, "") for number in (1, 2, 3)),
    librdkafka={1: "", 2: "", 3: ""},
    cluster_rights=frozenset({"DESCRIBE", "ALTER"}),
    topic_rights={"orders": RIGHTS, "carts": RIGHTS},
    ahead_ms=0,
    quorum=QUORUM,
    dynamic=False,
)
SILENT = BrokerFacts(2, "b2.inside:9092", False, "the name does not resolve")
UNTOLD = Unknown("nobody says")


def of_machine(**changes: Any) -> dict[str, Check]:
    return {check.name: check for check in machine_checks(replace(MACHINE, **changes))}


def of_cluster(**changes: Any) -> dict[str, Check]:
    return {check.name: check for check in cluster_checks(replace(CLUSTER, **changes))}


def test_where_all_is_well_every_line_is_ok() -> None:
    found = {**of_machine(), **of_cluster()}
    assert {check.state for check in found.values()} == {CheckState.OK}
    assert {check.action for check in found.values()} == {""}
    assert len(found) == 13


def test_q17_a_quorum_that_one_disk_or_one_rack_ends_is_a_note() -> None:
    alone = of_cluster(quorum=replace(QUORUM, voters=(LEADS,)))["quorum"]
    racks = dict.fromkeys((101, 102, 103), "r1")
    together = of_cluster(racks=racks)["quorum"]
    assert (alone.state, together.state) == (CheckState.NOTE, CheckState.NOTE)
    assert "only static voter" in alone.found
    assert "each in rack r1" in together.found
    assert of_cluster(racks={**racks, 103: "r2"})["quorum"].state is CheckState.OK


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"java": Unknown("no Java")}, "java", "JAVA_HOME"),
        ({"terminal": replace(TERMINAL, name="dumb")}, "terminal", "set TERM"),
        ({"terminal": replace(TERMINAL, name="")}, "terminal", "set TERM"),
        ({"terminal": replace(TERMINAL, size=(79, 24))}, "terminal", "80x24"),
        ({"encoding": "ANSI_X3.4-1968"}, "locale", "LC_ALL=C.UTF-8"),
        ({"locale_problem": "the locale de_AT is not installed"}, "locale", "LC_ALL=C.UTF-8"),
        ({"free_bytes": ROOM - 1}, "space for a rescue", "--rescue-to DIR"),
        ({"writable": False}, "space for a rescue", "XDG_STATE_HOME"),
        ({"brokers": (SILENT,)}, "broker b2", "advertised.listeners"),
        ({"brokers": (SILENT,), "asked_with_addresses": True}, "broker b2", "--broker-address"),
        ({"brokers": (replace(SILENT, fenced=True),)}, "broker b2", "whether it runs"),
        ({"librdkafka": {1: "", 2: "timed out"}}, "librdkafka", "advertised names"),
        ({"librdkafka": Unknown("no Kerberos")}, "librdkafka", "sasl"),
        ({"topic_rights": {"orders": RIGHTS - {"READ"}}}, "ACLs", "docs/acls.md"),
        ({"cluster_rights": frozenset({"ALTER"})}, "ACLs", "docs/acls.md"),
        ({"ahead_ms": SKEW_MS + 1}, "clock", "NTP"),
        ({"ahead_ms": -SKEW_MS - 1}, "clock", "NTP"),
        ({"quorum": Silent("no answer")}, "quorum", RESTORE_QUORUM),
        ({"quorum": replace(QUORUM, leader=None)}, "quorum", RESTORE_QUORUM),
        ({"quorum": replace(QUORUM, voters=(LEADS, AWAY))}, "quorum", "with their own disks"),
    ],
)
def test_what_is_lacking_has_its_remedy(changes: dict[str, Any], name: str, words: str) -> None:
    found = of_cluster if hasattr(CLUSTER, next(iter(changes))) else of_machine
    check = found(**changes)[name]
    assert check.state is CheckState.TODO
    assert words in check.action


def test_a_missing_right_is_named_with_its_topics() -> None:
    topics = {f"t{number}": RIGHTS - {"READ"} for number in range(5)}
    assert of_cluster(topic_rights=topics)["ACLs"].found == (
        "missing: READ on topic t0, topic t1, topic t2 and 2 more"
    )


def test_a_cluster_that_does_not_answer_leaves_the_rest_unknown() -> None:
    found = of_cluster(trouble="b1:9092 refuses connections: start it")
    assert found["cluster"].state is CheckState.TODO
    assert found["cluster"].action == "b1:9092 refuses connections: start it"
    rest = {check.state for name, check in found.items() if name != "cluster"}
    assert rest == {CheckState.UNKNOWN}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"cluster_rights": UNTOLD}, "ACLs"),
        ({"topic_rights": UNTOLD}, "ACLs"),
        ({"ahead_ms": UNTOLD}, "clock"),
        ({"quorum": UNTOLD}, "quorum"),
    ],
)
def test_what_nobody_tells_is_never_in_order(changes: dict[str, Any], name: str) -> None:
    assert of_cluster(**changes)[name].state is CheckState.UNKNOWN
    free = of_machine(free_bytes=UNTOLD)["space for a rescue"]
    assert free.state is CheckState.UNKNOWN


def test_what_is_not_installed_is_a_note_and_java_is_needed_for_the_pipeline_alone() -> None:
    found = of_machine(missing={"pipeline": ("pyspark",)}, java=Unknown("no Java"))
    assert found["extra pipeline"].state is CheckState.NOTE
    assert how_to_install("pipeline") in found["extra pipeline"].action
    assert found["java"].state is CheckState.NOTE
