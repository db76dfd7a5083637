"""The page for the incident review, as text, HTML and JSON: what it says, and that it is inert."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.journal import Journal
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.execution.steps import ELECT, described
from breakglass.services.recovery.guarded.subject import frozen, planned
from breakglass.services.recovery.ledger.assemble import gathered, ledger_of
from breakglass.services.recovery.ledger.entries import IncidentLedger
from breakglass.services.recovery.ledger.page import (
    LedgerPage,
    PageTable,
    ledger_head,
    ledger_page,
    ledger_partitions,
    page_html,
    verdict,
)
from breakglass.services.recovery.timeline.account import account_of
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.replicas import log, offline

SAFE_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "dl", "dt", "dd"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def made(folder: Path, path: Path) -> IncidentLedger:
    return ledger_of(gathered(account_of(path), folder))


def cells(page: LedgerPage, title: str) -> list[tuple[str, ...]]:
    (table,) = (block for block in page.blocks if block.title.startswith(title))
    assert isinstance(table, PageTable)
    return list(table.rows)


@pytest.fixture
def page(tmp_path: Path) -> LedgerPage:
    return ledger_page(made(tmp_path, incidents.incident(tmp_path)))


def hostile(folder: Path) -> Path:
    """A journal of which every text would act where it is shown as it is."""
    evidence = offline(log(1, (0, 9)), log(2, (0, 12)), topic=incidents.HOSTILE, number=0)
    with Journal.open(incidents.CLUSTER, folder) as journal:
        item = {**planned(frozen(evidence, 1)), "price": incidents.HOSTILE}
        left = [{"topic": incidents.HOSTILE, "partition": 1, "reason": incidents.HOSTILE}]
        partition = TopicPartition(incidents.HOSTILE, 0)
        journal.plan(
            incidents.HOSTILE, "", {partition: item}, left=left, approved_by=[incidents.HOSTILE]
        )
        journal.consent(incidents.HOSTILE)
        target = described(frozen(evidence, 1).target)
        request = journal.request(ELECT, {partition: target})
        reason = {"result": "elected", "leader": 1, "reason": incidents.HOSTILE}
        journal.outcome(request, {partition: reason})
        journal.finish(incidents.HOSTILE)
    return journal.path


def test_the_page_has_sums_partitions_and_offsets(page: LedgerPage) -> None:
    sums = {row[0]: row[1:4] for row in cells(page, "Records")}
    assert sums["kept"] == ("165", "140", "25")
    assert sums["rescued"] == ("50", "0", "50")
    assert sums["waiting"] == ("12", "12", "0")
    assert (sums["sum"][0], sums["held"][0], page.adds_up) == ("227", "227", True)
    rows = {row[0]: row for row in cells(page, "Partitions")}
    assert rows["ledger-3"][1:] == ("b1", "175", "125", "0", "50", "0", "0", "0", "b3 >= 20")
    assert "orders-0" not in rows
    offsets = [row[1:5] for row in cells(page, "By offsets") if row[0] == "ledger-3"]
    assert offsets == [
        ("b1", "0-124", "125", "kept"),
        ("b2", "0-99", "100", "kept"),
        ("b2", "100-149", "50", "rescued"),
        ("b3", "?-?", "?", "unknown"),
    ]
    facts = dict(page.facts)
    assert facts["Approved"] == "grace, alan"
    assert incidents.DIGEST in facts["Plan"]


def test_no_partition_is_kept_or_counted_that_is_not(tmp_path: Path) -> None:
    ledger = made(tmp_path, incidents.incident(tmp_path))
    first, *rest = ledger.partitions
    for doubt in (replace(first, differences=("by 3",)), replace(first, uncounted=("unread",))):
        doubtful = replace(ledger, partitions=(doubt, *rest))
        assert verdict(doubtful) != verdict(ledger)
        assert "1 partition" in verdict(doubtful)
    answers = (True, False, Unknown("b1 is down"))
    asked = [replace(first, confirmed=answer) for answer in answers]
    facts = dict(ledger_page(replace(ledger, partitions=tuple(asked), asked_cluster=True)).facts)
    assert facts["Cluster now"].count("of 1") == 3


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_hostile_texts_do_nothing_in_html(tmp_path: Path) -> None:
    text = page_html(ledger_page(made(tmp_path, hostile(tmp_path))))
    assert not re.search(r"(src=|href=|url\(|@import|https?:)", text), "it needs nothing else"
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    parsed = _Tags()
    parsed.feed(text)
    assert parsed.tags == SAFE_TAGS
    assert parsed.attributes <= {"lang", "charset", "content", "http-equiv", "name", "class"}
    assert "<script" not in text
    assert all(line.isprintable() for line in text.splitlines())
    assert any("<script>alert(1)</script>\\x1b[2J" in shown for shown in parsed.texts)


def test_the_document_has_everything_by_offsets(tmp_path: Path) -> None:
    ledger = made(tmp_path, incidents.incident(tmp_path))
    head = ledger_head(ledger)
    assert (head["schema"], head["adds_up"], head["held"]) == (1, True, 227)
    assert head["sums"]["rescued"]["records"] == 50
    assert sum(one["records"] for one in head["sums"].values()) == head["held"]
    (ledger_3,) = (
        partition for partition in ledger_partitions(ledger) if partition["topic"] == "ledger"
    )
    assert ledger_3["unread"]["at_least"] == 20
    replicas: list[Any] = ledger_3["replicas"]
    assert [(replica["broker"], len(replica["offsets"])) for replica in replicas] == [
        (1, 2),
        (2, 2),
        (3, 0),
    ]
    for replica in replicas[:2]:
        assert sum(part["end"] - part["start"] for part in replica["offsets"]) == replica["end"]
