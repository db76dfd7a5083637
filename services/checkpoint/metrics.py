"""Reports checkpoints as metrics for Prometheus, in its text format, version 0.0.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.serving import Counts
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.wording import level_of
from breakglass.services.checkpoint.zeebe_api import STATES, state_of
from breakglass.services.lag import Behind

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Samples = Iterable[tuple[Sequence[str], float]]
"""The label values, in the order of the labels, and the figure."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of one answer: they are computed from the store and not kept."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; the client library calls this."""
        return self.families


def exposition(
    checkpoints: Sequence[StoredCheckpoint],
    requests: Mapping[tuple[str, int], int],
    errors: Counts | None = None,
    behind: Behind | None = None,
) -> bytes:
    """All metrics of *checkpoints*, the newest first, and of *requests* by operation and status.

    *errors* are those of background work; None if there is none. *behind* is the time since which
    the schedule is not met; None: it is met.
    """
    answered = [
        ((operation, str(status)), float(count))
        for (operation, status), count in sorted(requests.items())
    ]
    name = "breakglass_checkpoint_requests"
    metrics = [
        *_stored(checkpoints),
        _counter(name, "Requests answered.", ("operation", "status"), answered),
    ]
    if errors is not None:
        name, what = "breakglass_checkpoint_errors", "of copying, of retention and of the schedule"
        samples = [(key, float(count)) for key, count in sorted(errors.items())]
        metrics.append(_counter(name, f"Errors {what}.", ("doing", "kind"), samples))
        since = 0.0 if behind is None else behind.since_ms / 1000
        help = "Since when the schedule is not kept, in Unix time; 0: it is kept."
        name = "breakglass_checkpoint_behind_since_seconds"
        metrics.append(_gauge(name, help, (), [((), since)]))
    return generate_latest(Figures(tuple(metrics)))


def _gauge(name: str, help: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, help, labels=labels), samples)


def _counter(name: str, help: str, labels: Sequence[str], samples: Samples) -> Metric:
    # The library appends ``_total`` to the name of each sample.
    return _filled(CounterMetricFamily(name, help, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _stored(checkpoints: Sequence[StoredCheckpoint]) -> Iterator[Metric]:
    """The checkpoints by state, the newest one, and the newest completed one of each level."""
    found = Counter((level_of(checkpoint), state_of(checkpoint)) for checkpoint in checkpoints)
    levels = [*Level, *sorted({level for level, _ in found} - set(Level))]
    samples = [
        ((level, STATES[status]), float(found[level, status]))
        for level in levels
        for status in STATES
    ]
    help = "Checkpoints by level and state."
    yield _gauge("breakglass_checkpoints", help, ("level", "state"), samples)
    for newest in checkpoints[:1]:
        level = level_of(newest)
        statuses = Counter(partition.status for partition in newest.partitions)
        yield _gauge(
            "breakglass_checkpoint_newest_id",
            "The newest checkpoint, in whatever state.",
            ("level",),
            [((level,), float(newest.id))],
        )
        yield _gauge(
            "breakglass_checkpoint_newest_partitions",
            "Partitions of the newest checkpoint by state.",
            ("level", "state"),
            [((level, STATES[status]), float(count)) for status, count in sorted(statuses.items())],
        )
    completed = newest_completed(checkpoints).items()
    # Set an alarm on its age.
    for name, help, figure in COMPLETED if completed else ():
        figures = [((level,), figure(checkpoint)) for level, checkpoint in completed]
        yield _gauge(f"breakglass_checkpoint_completed_{name}", help, ("level",), figures)


def newest_completed(checkpoints: Iterable[StoredCheckpoint]) -> dict[str, StoredCheckpoint]:
    """The newest completed checkpoint of each level; *checkpoints* are given newest first."""
    newest: dict[str, StoredCheckpoint] = {}
    for checkpoint in checkpoints:
        if checkpoint.status is Status.COMPLETED:
            newest.setdefault(level_of(checkpoint), checkpoint)
    return newest


def completed_at_ms(found: StoredCheckpoint) -> int:
    """When the last copy of a completed checkpoint was completed."""
    counting = [partition.counting for partition in found.partitions]
    return max((copy.updated_at_ms or 0 for copy in counting if copy is not None), default=0)


def _bytes(found: StoredCheckpoint) -> float:
    copies = [part.counting for part in found.partitions if part.counting is not None]
    return float(sum(copy.size or 0 for copy in copies))


COMPLETED: tuple[tuple[str, str, Callable[[StoredCheckpoint], float]], ...] = (
    ("id", "The newest completed checkpoint of each level.", lambda found: float(found.id)),
    (
        "timestamp_seconds",
        "When the newest completed one was completed.",
        lambda found: completed_at_ms(found) / 1000,
    ),
    ("bytes", "Its size.", _bytes),
)
