"""Checkpoints as figures for Prometheus, in its text format, version 0.0.4.

Every label is a word of our own, so none has to be escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.checkpoint.background_errors import Counts
from breakglass.services.checkpoint.backup_info import STATES
from breakglass.services.checkpoint.promise import level_of
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.lag import Behind

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
    checkpoints: Sequence[StoredCheckpoint],
    requests: Mapping[tuple[str, int], int],
    errors: Counts | None = None,
    behind: Behind | None = None,
) -> str:
    """All figures of *checkpoints*, the newest first, and of *requests* by operation and status.

    *errors* are those of what runs in the background; None where nothing does. *behind* is since
    when the schedule is not kept; None: it is.
    """
    metrics = [_by_state(checkpoints), *_newest(checkpoints), *_completed(checkpoints)]
    answered: dict[Labels, float] = {
        (("operation", operation), ("status", str(status))): float(count)
        for (operation, status), count in sorted(requests.items())
    }
    metrics.append(
        Metric("breakglass_checkpoint_requests_total", "counter", "Requests answered.", answered)
    )
    if errors is not None:
        metrics += [_errors(errors), _behind(behind)]
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _errors(errors: Counts) -> Metric:
    """An unexpected one is always worth a look: nobody has foreseen it."""
    samples: dict[Labels, float] = {
        (("doing", doing), ("kind", kind)): float(count)
        for (doing, kind), count in sorted(errors.items())
    }
    help = "Errors of copying, of retention and of the schedule."
    return Metric("breakglass_checkpoint_errors_total", "counter", help, samples)


def _behind(behind: Behind | None) -> Metric:
    since = 0.0 if behind is None else behind.since_ms / 1000
    help = "Since when the schedule is not kept, in Unix time; 0: it is kept."
    return Metric("breakglass_checkpoint_behind_since_seconds", "gauge", help, {(): since})


def _by_state(checkpoints: Iterable[StoredCheckpoint]) -> Metric:
    found = Counter((level_of(one), one.status) for one in checkpoints)
    levels = [*Level, *sorted({level for level, _ in found} - set(Level))]
    samples = {
        _labels(level, status): float(found[level, status]) for level in levels for status in STATES
    }
    help = "Checkpoints by level and state."
    return Metric("breakglass_checkpoints", "gauge", help, samples)


def _level(level: str) -> Labels:
    return (("level", level),)


def _labels(level: str, status: Status) -> Labels:
    return (*_level(level), ("state", STATES[status]))


def _newest(checkpoints: Sequence[StoredCheckpoint]) -> Iterable[Metric]:
    if not checkpoints:
        return
    newest = checkpoints[0]
    level = level_of(newest)
    found = Counter(one.status for one in newest.partitions)
    yield Metric(
        "breakglass_checkpoint_newest_id",
        "gauge",
        "The newest checkpoint, in whatever state.",
        {_level(level): float(newest.id)},
    )
    yield Metric(
        "breakglass_checkpoint_newest_partitions",
        "gauge",
        "Partitions of the newest checkpoint by state.",
        {_labels(level, status): float(count) for status, count in sorted(found.items())},
    )


def _completed(checkpoints: Iterable[StoredCheckpoint]) -> Iterable[Metric]:
    """Of the newest checkpoint of each level that can be restored: alarm on its age."""
    newest: dict[str, StoredCheckpoint] = {}
    for one in checkpoints:
        if one.status is Status.COMPLETED:
            newest.setdefault(level_of(one), one)
    if not newest:
        return
    figures = {level: _figures(one) for level, one in newest.items()}
    for name, help in COMPLETED.items():
        samples = {_level(level): one[name] for level, one in figures.items()}
        yield Metric(f"breakglass_checkpoint_completed_{name}", "gauge", help, samples)


COMPLETED = {
    "id": "The newest completed checkpoint of each level.",
    "timestamp_seconds": "When the newest completed one was completed.",
    "bytes": "Its size.",
}


def _figures(found: StoredCheckpoint) -> Mapping[str, float]:
    """Those of a completed checkpoint, each of whose partitions has a completed copy."""
    copies = [one.counting for one in found.partitions if one.counting is not None]
    ended = max((one.updated_at_ms or 0 for one in copies), default=0)
    return {
        "id": float(found.id),
        "timestamp_seconds": ended / 1000,
        "bytes": float(sum(one.size or 0 for one in copies)),
    }
