"""The results of a campaign: a line of JSON for each seed, so that it can be continued."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from breakglass.services.lab.incidents.incident import LabIncident
from tests.campaign.trial import Outcome

HARNESS = 3
"""Results of another harness are discarded: raise it when what is played or judged changes."""
FIGURES = [field.name for field in fields(Outcome) if field.name not in ("way", "findings")]


@dataclass(frozen=True, slots=True)
class Result:
    """One seed."""

    seed: int
    way: str
    labels: tuple[str, ...]
    ours: Mapping[str, Any]
    """Figures of `Outcome` by name, and the findings as sentences."""
    kafkas: Mapping[str, Any] | None
    """The same by Kafka's own tools; None where they were left out."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What the judge found."""
        return tuple(self.ours["findings"])

    @property
    def played(self) -> bool:
        """Whether the lab could play the incident."""
        return not self.ours["broken"]

    @property
    def recovered(self) -> bool:
        """Whether there was anything to recover."""
        return self.played and self.ours["offline"] > 0


def result_of(incident: LabIncident, ours: Outcome, kafkas: Outcome | None) -> Result:
    """The line of one incident."""
    theirs = None if kafkas is None else _figures(kafkas)
    return Result(incident.seed, incident.way.value, incident.labels, _figures(ours), theirs)


def _figures(outcome: Outcome) -> dict[str, Any]:
    figures = {name: getattr(outcome, name) for name in FIGURES}
    return {**figures, "findings": [str(finding) for finding in outcome.findings]}


def append(result: Result, path: Path) -> None:
    """Add a line; what is there stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        line = {"harness": HARNESS, **asdict(result)}
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read(path: Path) -> dict[int, Result]:
    """The last line of each seed; torn lines, and lines of another harness, are passed over."""
    found: dict[int, Result] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                figures = json.loads(line)
            except ValueError:
                continue
            if figures.pop("harness", 1) != HARNESS:
                continue
            found[figures["seed"]] = Result(**{**figures, "labels": tuple(figures["labels"])})
    return found


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds as ranges: ``1-30, 41``."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][-1] == seed - 1:
            ranges[-1][-1:] = [ranges[-1][-1], seed] if len(ranges[-1]) == 1 else [seed]
        else:
            ranges.append([seed])
    return ", ".join("-".join(map(str, some)) for some in ranges)
