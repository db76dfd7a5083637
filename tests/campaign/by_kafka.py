"""The same incident by Kafka's own tools, as a good runbook has it.

1. `kafka-topics.sh --describe --unavailable-partitions`: what is offline.
2. Start what can be started, and look again: a clean election needs nobody.
3. `kafka-log-dirs.sh --describe`: sizes, the one figure of a replica without leader that the
   tools give. A broker with an empty replica, where another has records, is stopped until a leader
   is elected: its disk was replaced.
4. `kafka-leader-election.sh --election-type unclean` on all that is left, then start what was
   stopped, and look again.

The tools cannot choose the leader: the election takes the first live replica of the assignment,
and `kafka-reassign-partitions.sh` refuses an order that names a broker that is down.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field

from breakglass.bookkeeping.log_files import Name
from breakglass.services.errors import LabError
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.distribution import LEADER_ELECTION, TOPICS, tool_command
from breakglass.services.lab.incidents.wreck import Wreck
from tests.campaign.commands import Ran, Shell

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
MOST_ROUNDS = 2


@dataclass
class Runbook:
    """One recovery by Kafka's tools."""

    wreck: Wreck
    shell: Shell
    stopped: list[int] = field(default_factory=list)
    started: set[int] = field(default_factory=set)
    """Brokers that were started again because they could be."""
    elected: set[Name] = field(default_factory=set)
    """Partitions for which an unclean election was asked."""

    def recover(self) -> None:
        """Follow the runbook to its end."""
        self._describe()
        if self._start_what_can_be():
            self._describe()
        offline = self.wreck.offline()
        if not offline:
            return
        self._stop_the_empty(offline)
        self.elected = self.wreck.offline()
        path = self.shell.folder / "elections.json"
        entries = [{"topic": topic, "partition": number} for topic, number in sorted(self.elected)]
        path.write_text(json.dumps({"partitions": entries}), encoding="utf-8")
        self._tool(
            "kafka-leader-election.sh",
            LEADER_ELECTION,
            *("--election-type", "unclean", "--path-to-json-file", str(path)),
        )
        for broker in self.stopped:
            self.wreck.cluster.broker(broker).start()
        self._describe()

    def _tool(self, script: str, tool: str, *arguments: str) -> Ran:
        servers = ("--bootstrap-server", self.wreck.cluster.bootstrap_servers)
        kafka = self.wreck.cluster.kafka
        java, *rest = tool_command(kafka, tool, [*servers, *arguments])
        # The nodes' class data archive has the tools' classes too: they start in half the time.
        command = [java, *kafka.node_options, *rest]
        return self.shell.run_foreign((script, *servers, *arguments), command)

    def _describe(self) -> None:
        self._tool("kafka-topics.sh", TOPICS, "--describe", "--unavailable-partitions")

    def _start_what_can_be(self) -> bool:
        """Brokers that are down, hang, or lost their controllers, and can be cured."""
        cluster, curable = self.wreck.cluster, self.wreck.incident.curable
        for broker in curable:
            node = cluster.broker(broker)
            if not node.running:
                node.start()
            elif node.paused:
                node.resume()
            elif node.layout.controller_links:
                ControllerLink(cluster, broker).heal()
        self.started = set(curable)
        try:
            cluster.wait_unfenced(*curable)
        except LabError:
            return bool(curable)
        self.wreck.settle()
        return bool(curable)

    def _stop_the_empty(self, offline: Collection[Name]) -> None:
        brokers = ",".join(map(str, sorted(self.wreck.awake)))
        topics = ",".join(sorted({topic for topic, _ in offline}))
        ran = self._tool(
            "kafka-log-dirs.sh",
            LOG_DIRS,
            *("--describe", "--broker-list", brokers, "--topic-list", topics),
        )
        sizes = replica_sizes(ran.out)
        empty = {
            broker
            for name in offline
            for broker, size in sizes.get(name, {}).items()
            if size == 0 and any(sizes[name].values())
        }
        for broker in sorted(empty):
            if len(self.wreck.awake) > 1:
                self.wreck.cluster.broker(broker).kill()
                self.wreck.cluster.wait_fenced(broker)
                self.stopped.append(broker)


def replica_sizes(printed: str) -> dict[Name, dict[int, int]]:
    """Bytes of each replica by partition and broker, from what kafka-log-dirs.sh prints."""
    sizes: dict[Name, dict[int, int]] = {}
    for line in printed.splitlines():
        if not line.startswith("{"):
            continue
        for broker in json.loads(line)["brokers"]:
            for log_dir in broker["logDirs"]:
                for replica in log_dir["partitions"]:
                    topic, number = replica["partition"].rsplit("-", 1)
                    sizes.setdefault((topic, int(number)), {})[broker["broker"]] = replica["size"]
    return sizes
