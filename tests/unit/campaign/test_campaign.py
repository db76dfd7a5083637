"""What keeps a campaign: results, the page, and making a failing incident smaller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from breakglass.bookkeeping.judge import JudgeFinding
from breakglass.bookkeeping.said import elected, judged
from breakglass.services.lab.incidents.generate import generate
from breakglass.services.lab.incidents.incident import Happening, LabIncident, Way
from tests.campaign import report, results
from tests.campaign.by_breakglass import by_hand, by_loss
from tests.campaign.by_kafka import replica_sizes
from tests.campaign.minimise import minimised
from tests.campaign.trial import Outcome, unplayed

LOST = JudgeFinding("missing", ("orders", 0), "3 records are in neither log nor rescue")


def outcome(way: Way = Way.PLAN, lost: int = 0, *findings: JudgeFinding) -> Outcome:
    return Outcome(way, 4, 0, 4, 100, lost, 2, 7, 5, 12.5, 3.0, 6, 2, 1, findings)


def result(seed: int, ours: Outcome, kafkas: Outcome | None = None) -> results.Result:
    return results.result_of(generate(seed), ours, kafkas)


def test_results_are_continued_and_the_last_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "more" / "results.jsonl"
    results.append(result(1, outcome(Way.PLAN, 3, LOST), outcome(Way.KAFKA, 9)), path)
    results.append(result(2, unplayed(Way.PLAN, "no lab")), path)
    results.append(result(1, outcome(), outcome(Way.KAFKA, 9)), path)
    harness, older = f'"harness":{results.HARNESS},', path.read_text().splitlines()[0]
    assert harness in older
    with path.open("a") as file:
        file.write(older.replace(harness, "").replace('"seed":1,', '"seed":4,') + "\n")
        file.write('{"seed": 3, "torn')
    read = results.read(path)
    assert read.keys() == {1, 2}
    assert read[1].findings == ()
    assert read[1].kafkas is not None
    assert read[1].kafkas["lost"] == 9
    assert (read[1].recovered, read[2].played, read[2].recovered) == (True, False, False)


def test_seeds_are_named_as_ranges() -> None:
    assert results.seeds_text([]) == ""
    assert results.seeds_text([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9-10"


def test_the_page_sums_both_sides_and_names_what_failed() -> None:
    page = report.page(
        [
            result(1, outcome(), outcome(Way.KAFKA, 9)),
            result(2, outcome(Way.PLAN, 3, LOST), outcome(Way.KAFKA, 0)),
            result(3, unplayed(Way.PLAN, "no lab")),
            result(4, replace(outcome(), offline=0)),
        ]
    )
    assert "| **Of these lost by an election** | 3 | 9 |" in page
    assert "| Cut when brokers returned that the operator had started | 2 | 2 |" in page
    assert "| Cut in incidents in which a broker also returned unasked | 2 | 2 |" in page
    assert "| Incidents that lost any by an election | 1 | 1 |" in page
    assert "| Records that readable replicas held | 200 | 200 |" in page
    assert f"- Seed 2: {LOST}" in page
    assert "Recovered: 1-2.\nNothing was offline: 4.\nThe lab could not play: 3." in page


def test_the_page_in_docs_is_what_the_results_say() -> None:
    said = report.page(results.read(report.RESULTS).values())
    assert report.PAGE.read_text(encoding="utf-8") == said


def fails_with(*acts: Happening, topics: int = 1) -> object:
    def fails(incident: LabIncident) -> bool:
        happened = [step.act for step in incident.steps]
        return all(act in happened for act in acts) and len(incident.topics) >= topics

    return fails


def test_a_failing_incident_is_made_as_small_as_it_can_be() -> None:
    incident = generate(
        next(seed for seed in range(1000) if _has(seed, Happening.STRAND, Happening.RETURN))
    )
    smaller = minimised(incident, fails_with(Happening.STRAND, Happening.RETURN))  # type: ignore[arg-type]
    assert sorted(step.act for step in smaller.steps) == [Happening.RETURN, Happening.STRAND]
    assert len(smaller.topics) == 1
    assert len(smaller.topics[0].assignments) == 1
    assert (smaller.kill_at, smaller.returning, smaller.slow) == (None, None, ())


def test_the_number_of_trials_is_bounded() -> None:
    tried: list[LabIncident] = []

    def never(incident: LabIncident) -> bool:
        tried.append(incident)
        return False

    incident = generate(1)
    assert minimised(incident, never, most_trials=3) == incident
    assert len(tried) == 3


def _has(seed: int, *acts: Happening) -> bool:
    incident = generate(seed)
    return len(incident.topics) > 1 and all(
        any(step.act is act for step in incident.steps) for act in acts
    )


def test_sizes_are_read_from_what_kafka_log_dirs_prints() -> None:
    printed = (
        "Querying brokers for log directories information\n"
        '{"brokers":[{"broker":2,"logDirs":[{"partitions":[{"partition":"a-b-1","size":0,'
        '"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]}],"version":1}\n'
    )
    assert replica_sizes(printed) == {("a-b", 1): {2: 0}}


def test_a_triage_is_read_with_what_is_unknown() -> None:
    unknown = {"unknown": "b3 does not answer"}
    loses = {"records": 5, "committed": unknown, "uncommitted": unknown, "approximate": False}
    replicas = [
        {"broker": 1, "log_end": 12, "loses_if_chosen": loses},
        {"broker": 3, "log_end": unknown, "loses_if_chosen": loses},
    ]
    (one,) = judged(
        {
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "verdict": "BOMB",
                    "action": "stop b14 NOW",
                    "designated_leader": 1,
                    "unread_at_least": unknown,
                    "leader_epoch": 3,
                    "automatable": False,
                    "replicas": replicas,
                }
            ]
        }
    )
    assert (one.verb, one.broker, one.unread_at_least) == ("stop NOW", 14, None)
    assert one.prices.keys() == one.log_ends.keys() == {1}
    assert (one.prices[1].total, one.prices[1].committed) == (5, None)
    assert not one.automatable
    assert by_loss(one) == (1,)
    assert by_hand(one) == ()
    assert by_hand(replace(one, verdict="LOSS", designee=2)) == (2,)
    assert by_hand(replace(one, verdict="FORK", designee=None)) == by_loss(one)
    assert by_hand(replace(one, verdict="LOSS", designee=2, automatable=True)) == ()


def test_only_what_was_elected_counts_as_elected() -> None:
    told = {
        "partitions": [
            {"topic": "a", "partition": 0, "result": "elected"},
            {"topic": "a", "partition": 1, "result": "refused"},
        ]
    }
    assert list(elected(told)) == [("a", 0)]
    assert list(elected({})) == []
