"""`make campaign INCIDENTS=N SEED=S`: play, recover and judge seeds S to S+N-1, and write the page.

Most of an incident is waiting for brokers to be fenced, so `--jobs N` plays N incidents at once. A
seed that is already in the results file is skipped, so a campaign can be continued. A seed
that fails leaves its evidence under --evidence: the incident, every command with what it printed,
the findings, and the smaller incident that still fails. Exits 1 if a seed fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from breakglass.services.lab.distribution import LOG_LEVEL
from breakglass.services.lab.incidents.incident import LabIncident, from_json, to_json
from tests.campaign import report, results
from tests.campaign.second_round import of_campaign
from tests.campaign.trial import Outcome, recover_by_breakglass, recover_by_kafka


class Tried(NamedTuple):
    """An incident that was played."""

    incident: LabIncident
    ours: Outcome
    kafkas: Outcome | None
    seconds: float


TRIES = 2
MEMORY = Path("/dev/shm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; returns the exit code."""
    options = _options().parse_args(arguments)
    if options.page_only:
        report.write(options.results)
        return 0
    incidents = _incidents(options)
    done = results.read(options.results)
    failed = []
    # What brokers log at INFO costs a fifth of their start.
    os.environ.setdefault(LOG_LEVEL, "warn")
    todo = [
        incident
        for incident in incidents
        if options.again or incident.seed not in done or not done[incident.seed].played
    ]
    for incident, ours, kafkas, seconds in _all_tried(todo, options):
        if not ours.passed:
            failed.append(incident.seed)
        results.append(results.result_of(incident, ours, kafkas), options.results)
        print(_line(incident, ours, kafkas, seconds), flush=True)
        for finding in ours.findings:
            print(f"    {finding}", flush=True)
    if not options.without_page:
        report.write(options.results)
    return 1 if failed else 0


def _all_tried(incidents: Sequence[LabIncident], options: argparse.Namespace) -> Iterator[Tried]:
    """Each incident as soon as it ended, `--jobs` of them at once."""
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for tried in as_completed([pool.submit(_tried, one, options) for one in incidents]):
                yield tried.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _tried(incident: LabIncident, options: argparse.Namespace) -> Tried:
    began = time.monotonic()
    with _scratch() as folder:
        ours, kafkas = _played(incident, Path(folder), baseline=not options.without_baseline)
        if not ours.passed:
            # Keep what shows how it failed; logs of brokers and their segments among it.
            target = options.evidence / f"seed-{incident.seed}"
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            (target / "incident.json").write_text(to_json(incident) + "\n", encoding="utf-8")
            found = {"findings": [str(finding) for finding in ours.findings], "broken": ours.broken}
            (target / "findings.json").write_text(
                json.dumps(found, indent=1) + "\n", encoding="utf-8"
            )
            shutil.copytree(
                Path(folder) / "ours", target / "ours", ignore=_unneeded, dirs_exist_ok=True
            )
        unjudged = Path(folder) / "ours" / "ours" / "unjudged.txt"
        if unjudged.exists():
            options.evidence.mkdir(parents=True, exist_ok=True)
            with (options.evidence / "unjudged.txt").open("a", encoding="utf-8") as file:
                file.write(f"seed {incident.seed}\n{unjudged.read_text('utf-8')}\n")
    return Tried(incident, ours, kafkas, time.monotonic() - began)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    options.add_argument("--incidents", type=int, default=10, help="how many seeds (10)")
    options.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    options.add_argument("--kafka-version", default="4.3.1", help="what brokers run (4.3.1)")
    options.add_argument("--incident", type=Path, help="an incident kept as JSON, instead")
    options.add_argument("--results", type=Path, default=report.RESULTS, help="the results file")
    options.add_argument("--evidence", type=Path, default=Path("build/campaign"))
    options.add_argument("--jobs", type=int, default=1, help="incidents at once (1)")
    options.add_argument("--again", action="store_true", help="seeds that are done, too")
    options.add_argument("--without-baseline", action="store_true", help="not by Kafka's tools")
    options.add_argument("--without-page", action="store_true", help="leave docs/campaign.md")
    options.add_argument("--page-only", action="store_true", help="write docs/campaign.md only")
    return options


def _incidents(options: argparse.Namespace) -> list[LabIncident]:
    if options.incident is not None:
        return [from_json(options.incident.read_text(encoding="utf-8"))]
    seeds = range(options.seed, options.seed + options.incidents)
    return [replace(of_campaign(seed), kafka_version=options.kafka_version) for seed in seeds]


def _scratch() -> tempfile.TemporaryDirectory[str]:
    memory = MEMORY if MEMORY.is_dir() else None
    return tempfile.TemporaryDirectory(
        prefix="breakglass-campaign-", dir=memory, ignore_cleanup_errors=True
    )


def _played(
    incident: LabIncident, folder: Path, *, baseline: bool
) -> tuple[Outcome, Outcome | None]:
    """`_play`, tried again where the lab failed: a port may be taken, a machine too busy."""
    for number in range(TRIES):
        here = folder / f"try-{number}"
        here.mkdir()
        ours, kafkas = _play(incident, here, baseline=baseline)
        if not ours.broken and not (kafkas and kafkas.broken):
            break
    (here / "ours").rename(folder / "ours")
    return ours, kafkas


def _play(incident: LabIncident, folder: Path, *, baseline: bool) -> tuple[Outcome, Outcome | None]:
    """Both sides at the same time: most of it is waiting for brokers to be fenced."""
    for side in ("ours", "kafkas"):
        (folder / side).mkdir()
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(recover_by_kafka, incident, folder / "kafkas") if baseline else None
        ours = recover_by_breakglass(incident, folder / "ours")
        return ours, other.result() if other else None


def _line(incident: LabIncident, ours: Outcome, kafkas: Outcome | None, seconds: float) -> str:
    how = ours.broken.splitlines()[0] if ours.broken else "FAILED" if ours.findings else "passed"
    cut = f" (cut {ours.cut})" if ours.cut else ""
    theirs = ""
    if kafkas is not None:
        theirs = f", by Kafka's tools {kafkas.broken or kafkas.lost}"
        theirs += f" (cut {kafkas.cut})" if kafkas.cut else ""
    return (
        f"seed {incident.seed}  {incident.way}  {how}: {ours.offline} offline, {ours.left} left, "
        f"{ours.held} records held, lost {ours.lost}{cut}{theirs}; {ours.rescued} saved, "
        f"{ours.put_back} put back; {ours.seconds:.0f} s, {ours.commands} commands "
        f"({seconds:.0f} s)"
    )


def _unneeded(folder: str, names: list[str]) -> set[str]:
    del folder
    return {name for name in names if name in ("scratch", "metadata") or name.endswith("index")}


if __name__ == "__main__":
    sys.exit(main())
