"""Sessions of the product on a lab: reading, judging, recovering, directly or behind proxies."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.journal import Journal
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.proxy import Proxy, SeenRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.steps import RouteChoice, stock_route
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    target_of,
)
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.triage import Triage, triage
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

ANSWER_SECONDS = DEADLINE_SECONDS
"""--recovery-duration-ms: long enough for a busy machine to answer in."""
ELECT_LEADERS = 43
ALTER_PARTITION_REASSIGNMENTS = 45
CHANGES = frozenset({ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS})


@contextmanager
def reading(cluster: Cluster) -> Iterator[ReadClient]:
    """A read-only session with the lab's brokers."""
    with Connection(ConnectionOptions(cluster.bootstrap_servers)).reading() as client:
        yield client


def judged(
    client: ReadClient, *topics: str, seconds: float = ANSWER_SECONDS, gone: Collection[int] = ()
) -> Triage:
    """The last word of a triage."""
    *_, found = triage(client, seconds, topics=topics, gone=gone)
    return found


def judgement(found: Triage, partition: TopicPartition) -> Assessment:
    """What was found about *partition*."""
    assessment = found.assessment(partition)
    assert assessment is not None, f"{partition} was not judged"
    return assessment


def targets(found: Triage, designees: Mapping[TopicPartition, int]) -> list[ElectionTarget]:
    """Elections of *designees*, whatever the judgement says of them."""
    return [
        target_of(judgement(found, partition).evidence, designee)
        for partition, designee in designees.items()
    ]


def recommendations(found: Triage) -> list[ElectionTarget]:
    """Elections of all that triage recommends, as an operator decides who reads the barriers.

    Automation may leave one: where a high watermark was lost in a crash, say (R9).
    """
    chosen = {
        assessment.partition: assessment.designee
        for assessment in found.assessments
        if assessment.designee is not None
    }
    return targets(found, chosen)


class Watched(NamedTuple):
    """A lab that is reached through proxies alone."""

    connection: Connection
    proxies: Mapping[int, Proxy]

    @property
    def sent(self) -> list[SeenRequest]:
        """Every request so far, in the order in which they came."""
        requests = (request for proxy in self.proxies.values() for request in proxy.seen)
        return sorted(requests, key=lambda request: request.at)

    def requests(self, api_key: int, request_class: Any) -> list[Any]:
        """The requests of one kind, decoded."""
        return [
            request.decode(request_class) for request in self.sent if request.api_key == api_key
        ]

    @property
    def changes(self) -> list[int]:
        """The api keys of requests that change a cluster."""
        return [request.api_key for request in self.sent if request.api_key in CHANGES]

    def recover(
        self,
        client: ReadClient,
        wanted: Iterable[ElectionTarget],
        folder: Path,
        route: RouteChoice = stock_route,
    ) -> list[PartitionOutcome]:
        """Hold the elections of *wanted*, rescuing nothing; the journal goes into *folder*."""
        cluster_id = client.describe(Deadline.after(ANSWER_SECONDS)).cluster_id
        with (
            Journal.open(cluster_id, folder) as journal,
            self.connection.armed().power("a test").elections(cluster_id) as armed,
        ):
            recovery = Recovery(armed, journal, route)
            return [outcome for batch in recovery.run(list(wanted)) for outcome in batch]


@contextmanager
def watched(cluster: Cluster) -> Iterator[Watched]:
    """The lab behind a proxy before each broker, which no client may bypass."""
    with ExitStack() as open_proxies:
        proxies = {
            node.id: open_proxies.enter_context(Proxy(node.address())) for node in cluster.brokers
        }
        options = ConnectionOptions(
            ",".join(str(proxy.address) for proxy in proxies.values()),
            broker_address=tuple(f"{broker}={proxy.address}" for broker, proxy in proxies.items()),
        )
        yield Watched(Connection(options), proxies)
        for proxy in proxies.values():
            proxy.assert_clean()


def read_again(watch: IncidentWatch, before: Incident) -> Incident:
    """The last of the next reading: after each, a watch leaves the brokers in peace for a while."""
    found: list[Incident] = []

    def read() -> bool:
        found.extend(watch.read(before))
        return bool(found)

    wait_until(read, "the next reading of the watch")
    return found[-1]
