"""Checkpoints as figures for Prometheus, in its text format, version 0.0.4.

Every label is a word of our own, so none has to be escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.checkpoint.backup_info import STATES
from services.checkpoint.protocol.values import Status
from services.checkpoint.store.stored import StoredCheckpoint

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with its samples."""

    name: str
    kind: str
    help: str
    samples: Mapping[Labels, float]

    def lines(self) -> Iterable[str]:
        """As Prometheus reads them."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples.items():
            inside = ",".join(f'{key}="{word}"' for key, word in labels)
            yield f"{self.name}{{{inside}}} {value:.15g}" if inside else f"{self.name} {value:.15g}"


def exposition(
    checkpoints: Sequence[StoredCheckpoint], requests: Mapping[tuple[str, int], int]
) -> str:
    """All figures of *checkpoints*, the newest first, and of *requests* by operation and status."""
    metrics = [_by_state(checkpoints), *_newest(checkpoints), *_completed(checkpoints)]
    answered: dict[Labels, float] = {
        (("operation", operation), ("status", str(status))): float(count)
        for (operation, status), count in sorted(requests.items())
    }
    metrics.append(
        Metric("breakglass_checkpoint_requests_total", "counter", "Requests answered.", answered)
    )
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _by_state(checkpoints: Iterable[StoredCheckpoint]) -> Metric:
    found = Counter(one.status for one in checkpoints)
    samples = {_state(status): float(found[status]) for status in STATES}
    return Metric("breakglass_checkpoints", "gauge", "Checkpoints by state.", samples)


def _state(status: Status) -> Labels:
    return (("state", STATES[status]),)


def _newest(checkpoints: Sequence[StoredCheckpoint]) -> Iterable[Metric]:
    if not checkpoints:
        return
    newest = checkpoints[0]
    found = Counter(one.status for one in newest.partitions)
    yield Metric(
        "breakglass_checkpoint_newest_id",
        "gauge",
        "The newest checkpoint, in whatever state.",
        {(): float(newest.id)},
    )
    yield Metric(
        "breakglass_checkpoint_newest_partitions",
        "gauge",
        "Partitions of the newest checkpoint by state.",
        {_state(status): float(count) for status, count in sorted(found.items())},
    )


def _completed(checkpoints: Iterable[StoredCheckpoint]) -> Iterable[Metric]:
    """Of the newest checkpoint that can be restored: alarm on its age."""
    found = next((one for one in checkpoints if one.status is Status.COMPLETED), None)
    if found is None:
        return
    copies = [one.counting for one in found.partitions if one.counting is not None]
    ended = max((one.updated_at_ms or 0 for one in copies), default=0)
    figures = {
        "id": (found.id, "The newest completed checkpoint."),
        "timestamp_seconds": (ended / 1000, "When the newest completed one was completed."),
        "bytes": (sum(one.size or 0 for one in copies), "Its size."),
    }
    for name, (value, help) in figures.items():
        yield Metric(f"breakglass_checkpoint_completed_{name}", "gauge", help, {(): float(value)})
