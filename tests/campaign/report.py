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

`make campaign INCIDENTS=100 SEED=1` breaks a hundred real clusters in a hundred random ways, recovers each cluster unattended, and compares the records that are left with those that every replica's log folder had before.
The command writes this page. With `ARGS="--jobs 3"` three incidents are played at once; a campaign that was stopped continues where it was.

- **An incident** is made from its seed alone: 3 to 6 brokers, 1 or 3 controllers, topics of replication factor 1 to 4 and min ISR 1 or 2, compacted or not, in all compressions, transactions that end or do not, groups. Brokers are killed one after another with writes in between; some lead on while their followers hang and die with records that nobody else has; some return in between and are elected uncleanly; the last leaders die, and stale replicas return. Then disks are replaced, log directories fail, brokers hang, lose their controllers, or are reached by a slow link; a reassignment is under way; a broker returns unasked while commands run.
  From seed 1,001 on also: brokers that are down lose their last batches, as in a power cut, or are unregistered; some partitions are never written; some topics are recovered first, records are written and brokers die after that, and the rest is recovered, with the journals of the first recovery or on another machine; commands are given one address; a broker returns in the middle of the command that elects.
- **The bookkeeper** ([bookkeeping](../bookkeeping)) shares no code with Breakglass. It reads every segment of every replica from disk, and what was saved, and judges sentences of a triage and of rescues (`tests/campaign/sentences.py`); claims that it has no pattern for are listed in `build/campaign/unjudged.txt`. Of a broker that was started because a command said so, every record is looked for, in partitions that others lead as well.
- **Breakglass** recovers by `kafka-unclean-recovery --automated-recovery`, by `breakglass unclean-recovery --automated-recovery`, or by `triage`, `plan make` and `recover`; what was saved is put back by `backup restore --tail-of`. Some commands are killed by `SIGKILL` at a random line of their journal, and resumed. Only brokers that the incident lets return are started when a verdict says so; all others are declared gone.
- **Kafka's own tools** recover the same incident on another cluster: `kafka-topics.sh --describe --unavailable-partitions`, start what can be started, `kafka-log-dirs.sh` to find and stop brokers with empty replicas, `kafka-leader-election.sh --election-type unclean`.
- **Lost by an election** is a record that a readable replica of an offline partition held, and that is afterwards neither in the elected log nor saved. In a compacted topic a record is not lost where a newer one of its key is kept. Where a broker returns that was in sync last, because a verdict said so or unasked, it leads by itself, and other replicas cut what they alone had taken: that is counted apart. Before a broker is started, what it would cut is saved (`rescue --before-return`); nobody can do so before a return that nobody asked for.
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
        "Each side had a cluster of its own, damaged by the same steps. "
        "Seconds are those of one machine that also ran both clusters, until the operator left; "
        "they include the start of each command and waiting for brokers. Breakglass reads what "
        "replicas hold and saves it before it elects. A broker returns unasked on its cluster alone.",
        f"In {killed:,} incidents a command of Breakglass was killed and resumed.",
        "",
    ]
    return "\n".join(lines)


def _kinds(recovered: Sequence[Result]) -> str:
    found = Counter(label for result in recovered for label in result.labels)
    ways = Counter(result.way for result in recovered)
    lines = [
        "## What they had",
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
    said = rows or ["Nothing: no seed of this page failed a check."]
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
