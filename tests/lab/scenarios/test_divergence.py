"""Two replicas compared on real brokers: exactly what their disks and the truth say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from breakglass.console import app
from breakglass.console.wiring import Connection
from breakglass.screens.messages import DiffAsked
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.divergence.align import PairKind, RecordPair, hunks
from breakglass.services.divergence.entry import Content, Item, RecordEntry, RecordField
from breakglass.services.divergence.replicas import comparison_of, face
from breakglass.services.divergence.source import Reading
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.triage import Triage
from tests.lab.recover.session import judged, judgement, reading
from tests.lab.scenarios.damaged import Damaged
from tests.screens.consoles import console_on
from tests.screens.turns import text, until

LEDGER = TopicPartition("ledger", 0)


@pytest.fixture(scope="module")
def client(three_losses: Damaged) -> Iterator[ReadClient]:
    with reading(three_losses.cluster) as made:
        yield made


@pytest.fixture(scope="module")
def found(client: ReadClient) -> Triage:
    return judged(client)


def pairs_of(
    client: ReadClient, evidence: PartitionEvidence, left: int, right: int
) -> list[RecordPair]:
    """Everything that two replicas hold."""
    facing = face(evidence, left, right)
    assert not isinstance(facing, Unknown), facing.reason
    comparison = comparison_of(facing, client.sender)
    return list(comparison.pairs(0, facing.extent.end, Reading()))


def told(pairs: list[RecordPair], *, left: bool) -> dict[int, RecordEntry]:
    """One side's records, by offset."""
    items: list[Item | None] = [pair.left if left else pair.right for pair in pairs]
    return {item.offset: item for item in items if isinstance(item, RecordEntry)}


def key_of(entry: RecordEntry) -> str:
    assert isinstance(entry.key, Content)
    return entry.key.kept.decode()


def test_two_replicas_differ_exactly_where_the_truth_says(
    three_losses: Damaged, client: ReadClient, found: Triage
) -> None:
    evidence = judgement(found, LEDGER).evidence
    pairs = pairs_of(client, evidence, 1, 2)
    shared, alone, later = three_losses.truth_of(LEDGER).written
    assert [(hunk.kind, hunk.start, hunk.end) for hunk in hunks(pairs)] == [
        (PairKind.EQUAL, 0, shared.end),
        (PairKind.DIFFERENT, later.start, later.end),
        (PairKind.RIGHT, later.end, alone.end),
    ]
    expected = {RecordField.EPOCH, RecordField.KEY, RecordField.VALUE}
    assert all(expected <= set(pair.fields) for pair in pairs if pair.kind is PairKind.DIFFERENT)
    keys: dict[int, Mapping[int, str]] = {
        1: {offset: key_of(one) for offset, one in told(pairs, left=True).items()},
        2: {offset: key_of(one) for offset, one in told(pairs, left=False).items()},
    }
    for broker, writings in ((1, (shared, later)), (2, (shared, alone))):
        written = {
            writing.start + at: key for writing in writings for at, key in enumerate(writing.keys)
        }
        assert keys[broker] == written


async def test_the_screen_shows_the_divergence_of_real_brokers(
    three_losses: Damaged, found: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = dict.fromkeys(app.MODES, "tests.screens.bare_page:BarePage")
    monkeypatch.setattr(app, "MODES", places)
    access = Connection(ConnectionOptions(three_losses.cluster.bootstrap_servers)).access()
    console = console_on(Incident.of(found), access=access)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        console.post_message(DiffAsked(LEDGER))
        await until(
            pilot,
            lambda: (
                "Then ! 25 offsets hold different records, < 0 only on b1, > 25 only on b2."
                in text(console)
            ),
            "the totals",
        )
        assert "── diverge at 100: b1 in epoch 2, b2 in epoch 1 ──" in text(console)
        await pilot.press("n")
        await until(pilot, lambda: "offset 125: only on b2" in text(console), "the next difference")
        await pilot.press("enter")
        await until(pilot, lambda: "no record at this offset" in text(console), "the record")
