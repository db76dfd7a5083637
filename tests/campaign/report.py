"""docs/campaign.md, written from the results."""

# ruff: noqa: E501 -- a paragraph of the page is one line

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from breakglass.services.lab.incidents.generate import UNASKED_RETURN
from tests.campaign.results import Result, read, seeds_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "campaign.md"
RESULTS = Path(__file__).parent / "results.jsonl"

OPENING = """\
# A campaign of random incidents

`make campaign INCIDENTS=100 SEED=1` breaks a hundred real clusters at random, recovers each unattended, and compares the records that are left with those that every replica's log folder held before.
It writes this page. `ARGS="--jobs 3"` plays three incidents at once; a stopped campaign continues where it was.

- **An incident** is made from its seed alone: 3 to 6 brokers; 1 or 3 controllers; topics of replication factor 1 to 4 and min ISR 1 or 2, compacted or not, in every compression; transactions that end or hang; groups. Brokers die one after another with writes in between; some lead while their followers hang, and die with records that no other replica has; some return in between and are elected uncleanly. In the end the last leaders die and stale replicas return. Disks are replaced, log directories fail, brokers hang, lose their controllers or are reached over a slow link, a reassignment is under way, or a broker returns unasked while commands run.
  From seed 1,001 on, brokers that are down may also lose their last batches, as in a power cut, or be unregistered; some partitions are never written; some topics are recovered first and more brokers die after new writes, with the journals of the first recovery or on another machine; commands know one address only; a broker returns in the middle of an election.
- **The bookkeeper** ([bookkeeping](../bookkeeping)) shares no code with Breakglass. It reads every segment of every replica from disk, and what was saved, and judges sentences of triage and rescue (`tests/campaign/sentences.py`). Claims without a pattern are listed in `build/campaign/unjudged.txt`. If a broker was started because a command said so, every one of its records is looked for.
- **Breakglass** recovers by `kafka-unclean-recovery --automated-recovery`, by `breakglass unclean-recovery --automated-recovery`, or by `triage`, `plan make` and `recover`, and puts saved records back by `backup restore --tail-of`. Some commands are killed by `SIGKILL` at a random line of their journal and resumed. If a verdict says so, brokers that the incident lets return are started; all others are declared gone.
- **Kafka's own tools** recover the same incident on another cluster: `kafka-topics.sh --describe --unavailable-partitions`, start what can be started, find and stop brokers with empty replicas by `kafka-log-dirs.sh`, then `kafka-leader-election.sh --election-type unclean`.
- **Lost by an election** is a record that a readable replica of an offline partition held and that is afterwards neither in the elected log nor saved. In a compacted topic, a record is not lost if a newer one of its key remains. If a broker returns that was last in sync, it leads by itself, and other replicas cut what they alone had; these records are counted separately. Before Breakglass has a broker started, it saves them (`rescue --before-return`); before an unasked return it cannot.
- **Lost quorums** are a campaign of their own: `python -m tests.campaign.quorum --seed 1 --incidents 200 --jobs 2`. A seed draws a static or dynamic quorum of three controllers and two brokers, what changes while a node is down, the disks that are lost (one to three controllers, at most one broker), and power cuts that shorten copies of the metadata log or drop a snapshot. `breakglass quorum inspect`, `plan`, `prepare` and `watch` bring the cluster back by what they print. The judge (`tests/campaign/quorum_judge.py`) shares no code with `services/quorum`: it reads every copy with Kafka's DumpLogSegments, ranks the copies, computes what each lacks, and compares topics, settings, ACLs, SCRAM users, quotas and every acknowledged record with its own book.
"""

Figures = Mapping[str, object]


def page(results: Iterable[Result]) -> str:
    """The whole page."""
    all_of = sorted(results, key=lambda result: result.seed)
    recovered = [result for result in all_of if result.recovered]
    both = [
        result for result in recovered if result.kafkas is not None and not result.kafkas["broken"]
    ]
    parts = [
        OPENING,
        _side_by_side(recovered, both),
        _kinds(recovered),
        _wrong(all_of),
        _seeds(all_of, recovered),
    ]
    return "\n".join(parts)


def write(results: Path = RESULTS, target: Path = PAGE) -> None:
    """Write the page from the results file."""
    target.write_text(page(read(results).values()), encoding="utf-8")


def _side_by_side(recovered: Sequence[Result], both: Sequence[Result]) -> str:
    ours = [result.ours for result in both]
    kafkas = [result.kafkas for result in both if result.kafkas is not None]
    spent = [_number(figures["put_back_seconds"]) for figures in ours if figures["put_back"]]
    rows = [
        ("Incidents", len(ours), len(kafkas)),
        ("Partitions without leader", *_sums("offline", ours, kafkas)),
        ("Partitions still without leader", *_sums("left", ours, kafkas)),
        ("Records that readable replicas held", *_sums("held", ours, kafkas)),
        ("**Of these lost by an election**", *_sums("lost", ours, kafkas)),
        ("Incidents that lost any by an election", *_counts("lost", ours, kafkas)),
        ("Cut when brokers returned that the operator had started", *_cut(both, unasked=False)),
        ("Cut in incidents in which a broker also returned unasked", *_cut(both, unasked=True)),
        ("Saved from losing replicas", *_sums("rescued", ours, kafkas)),
        ("Put back and compared", *_sums("put_back", ours, kafkas)),
        ("Seconds, median", *_of(median, "seconds", ours, kafkas)),
        ("Seconds, 95th percentile", *_of(_p95, "seconds", ours, kafkas)),
        ("Commands, median", *_of(median, "commands", ours, kafkas)),
        ("Commands, 95th percentile", *_of(_p95, "commands", ours, kafkas)),
        ("Seconds to put back, median", *((f"{median(spent):.3g}" if spent else "-"), "-")),
    ]
    killed = sum(bool(result.ours["resumed"]) for result in recovered)
    lines = [
        "## Side by side",
        "",
        "| | Breakglass | Kafka's own tools |",
        "|---|---|---|",
        *(f"| {name} | {mine} | {theirs} |" for name, mine, theirs in rows),
        "",
        "Each side had a cluster of its own, damaged by the same steps. Seconds were measured on one "
        "machine that also ran both clusters; they include the start of each command and waiting "
        "for brokers. Breakglass reads and saves what replicas hold before it elects. "
        "Brokers return unasked only on its cluster.",
        f"In {killed:,} incidents, a command of Breakglass was killed and resumed.",
        "",
    ]
    return "\n".join(lines)


def _kinds(recovered: Sequence[Result]) -> str:
    found = Counter(label for result in recovered for label in result.labels)
    ways = Counter(result.way for result in recovered)
    lines = [
        "## What happened in them",
        "",
        "| | Incidents |",
        "|---|---|",
        *(f"| {name} | {number} |" for name, number in sorted(ways.items())),
        *(f"| {name} | {number} |" for name, number in sorted(found.items())),
        "",
    ]
    return "\n".join(lines)


def _wrong(results: Sequence[Result]) -> str:
    rows = [f"- Seed {result.seed}: {text}" for result in results for text in result.findings]
    said = rows or ["Nothing: every seed of this page passed all checks."]
    return "\n".join(["## What the judge found", "", *said, ""])


def _seeds(results: Sequence[Result], recovered: Sequence[Result]) -> str:
    whole = [result.seed for result in results if result.played and not result.recovered]
    unplayed = [result.seed for result in results if not result.played]
    lines = [
        "## Seeds",
        "",
        f"Recovered: {seeds_text(result.seed for result in recovered) or 'none'}.",
        f"Nothing was offline: {seeds_text(whole) or 'none'}.",
        f"The lab could not play: {seeds_text(unplayed) or 'none'}.",
        "",
    ]
    return "\n".join(lines)


def _sums(name: str, *sides: Sequence[Figures]) -> tuple[str, ...]:
    return tuple(f"{sum(_number(figures[name]) for figures in side):,.0f}" for side in sides)


def _cut(both: Sequence[Result], *, unasked: bool) -> tuple[str, ...]:
    """Records that were cut by returns, in incidents with or without an unasked return."""
    here = [result for result in both if (UNASKED_RETURN in result.labels) == unasked]
    kafkas = [result.kafkas for result in here if result.kafkas is not None]
    return _sums("cut", [result.ours for result in here], kafkas)


def _counts(name: str, *sides: Sequence[Figures]) -> tuple[str, ...]:
    return tuple(f"{sum(_number(figures[name]) > 0 for figures in side):,}" for side in sides)


def _of(
    figure: Callable[[list[float]], float], name: str, *sides: Sequence[Figures]
) -> tuple[str, ...]:
    values = [[_number(figures[name]) for figures in side] for side in sides]
    return tuple(f"{figure(some):.3g}" if some else "-" for some in values)


def _p95(values: list[float]) -> float:
    """The smallest value that 95 of 100 do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
