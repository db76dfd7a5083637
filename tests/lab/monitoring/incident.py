"""One incident on real brokers, as the exporter shows it from its beginning to its end.

A broker comes back with an empty disk (a time bomb) beside two replicas that diverge; the operator
stops the broker; then the whole cluster is gone. `python -m tests.lab.monitoring.incident` keeps
what the exporter answered, for the tests of the alert rules.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from breakglass.services.lab.scenarios.behind import DIVERGED, REPLACED_DISK
from breakglass.services.lab.scenarios.scenario import play, raise_lab
from breakglass.services.monitoring import meters
from tests.kit.promtool import Stage, stage_of
from tests.kit.running import Running, running
from tests.kit.waiting import wait_until
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run

STAGES = ("healthy", "bomb", "stopped", "unreachable")
EXPECTED: dict[int, tuple[str, ...]] = {
    9: (),
    10: ("BreakglassBomb",),
    15: (
        *("BreakglassBomb", "BreakglassBrokerFenced", "BreakglassLossAtRisk"),
        "BreakglassOfflinePartitions",
    ),
    29: ("BreakglassBrokerFenced", "BreakglassLossAtRisk", "BreakglassOfflinePartitions"),
    31: (),
    39: ("BreakglassSourceDown", "BreakglassSourceDown"),
}
"""The alerts that fire, by the minute of the incident; each stage lasts ten."""
KEPT = Path(__file__).parents[2] / "golden" / "exporter"
EVENTS = "events.jsonl"
"""What a command was told meanwhile."""
SERVING = "Serving "
SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Exporter:
    """An exporter under way."""

    url: str
    token: str
    program: Running

    def answer(self) -> str:
        """What it answers now."""
        request = Request(self.url, headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310
        with urlopen(request, timeout=300) as response:  # noqa: S310 -- our own, on loopback
            text: str = response.read().decode()
            return text

    def status_without_token(self) -> int:
        """The status of an answer to somebody else."""
        try:
            with urlopen(self.url, timeout=300) as response:  # noqa: S310
                return int(response.status)
        except HTTPError as error:
            return error.code

    def until(self, so: Callable[[Stage], object], what: str) -> str:
        """Its first answer of which *so* holds."""
        last = ""

        def holds() -> object:
            nonlocal last
            last = self.answer()
            return so(stage_of(last))

        wait_until(holds, what, SECONDS, every=0.2, instead=lambda: last)
        return last


@contextmanager
def exporting(servers: str, state: Path, *words: str) -> Iterator[Exporter]:
    """An exporter that looks at the cluster of *servers* every second."""
    given = ("--bootstrap-server", servers)
    with running(
        state, "serve", "metrics", *given, "--port", "0", "--every", "1s", *words
    ) as program:
        token = program.wait_for("token: ").removeprefix("token: ")
        yield Exporter(program.wait_for(SERVING).removeprefix(SERVING), token, program)


def value(stage: Stage, meter: meters.ExportedMetric, **labels: str) -> float | None:
    """A sample; None where there is none."""
    return stage.get((meter.name, tuple(sorted(labels.items()))))


def play_incident(folder: Path) -> dict[str, str]:
    """What the exporter answered in each stage; takes a minute."""
    backups = folder / "backups"
    backups.mkdir(parents=True)
    back_up(backups, run(0, 8))
    answers: dict[str, str] = {}
    scenarios = (REPLACED_DISK, DIVERGED)
    with (
        raise_lab(folder / "lab", scenarios, tethered=True) as cluster,
        exporting(
            *(cluster.bootstrap_servers, folder / "state", "--store", str(backups)),
            *("--on-event", f"tee -a {folder / EVENTS}"),
        ) as exporter,
    ):
        answers["healthy"] = exporter.until(_healthy, "figures of a whole cluster")
        play(cluster, scenarios)
        answers["bomb"] = exporter.until(_judged(bombs=3), "three bombs")
        cluster.broker(4).kill()
        cluster.wait_fenced(4)
        answers["stopped"] = exporter.until(_judged(bombs=0), "no bomb")
        for broker in cluster.brokers:
            broker.kill()
        answers["unreachable"] = exporter.until(_gone, "a cluster that is gone")
        assert exporter.status_without_token() == 401
        exporter.program.terminate()
        exporter.program.wait_for("The exporter has ended.")
        assert exporter.program.wait() == 0
    return {stage: text.replace(str(folder), "") for stage, text in answers.items()}


def _healthy(stage: Stage) -> bool:
    known = (meters.QUORUM, meters.OFFLINE_DIRS, meters.SILENT)
    whole = value(stage, meters.OFFLINE) == 0 and _all_up(stage)
    return whole and all(value(stage, meter) is not None for meter in known)


def _all_up(stage: Stage) -> bool:
    return [number for (name, _), number in stage.items() if name == meters.UP.name] == [1, 1, 1]


def _judged(*, bombs: int) -> Callable[[Stage], bool]:
    def so(stage: Stage) -> bool:
        return (
            _all_up(stage)
            and value(stage, meters.OFFLINE) == 4
            and value(stage, meters.VERDICTS, verdict="BOMB") == bombs
            and value(stage, meters.VERDICTS, verdict="unjudged") == 0
            and value(stage, meters.LOSS) == 50
            and value(stage, meters.UNDER_MIN) is not None
        )

    return so


def _gone(stage: Stage) -> bool:
    sources = ("cluster", "topic_ends")
    return all(value(stage, meters.UP, source=source, place="") == 0 for source in sources)


def keep() -> None:
    """Play it, and keep what was answered."""
    with tempfile.TemporaryDirectory() as folder:
        for stage, text in play_incident(Path(folder)).items():
            (KEPT / f"{stage}.prom").write_text(
                re.sub(r"cluster_id=\"[^\"]+\"", 'cluster_id="lab"', text)
            )


if __name__ == "__main__":
    keep()
