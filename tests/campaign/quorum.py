"""`python -m tests.campaign.quorum --seed N`: a quorum lost at random, and brought back.

A seed draws a quorum of three controllers and two brokers, static or dynamic; what happens while
nodes are down; which disks are lost; and power cuts that shorten copies. `breakglass quorum` then
brings the cluster back, by what it prints alone, and `quorum_judge` says whether it is what was
acknowledged. Exits with 1 if a seed fails; its folder is kept under --evidence.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from breakglass.bookkeeping.producer import QUIET
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster, LabOptions
from breakglass.services.lab.distribution import LOG_LEVEL
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.node import Node, all_listen
from tests.campaign import quorum_judge as judge
from tests.campaign.__main__ import _scratch
from tests.campaign.commands import Ran, Shell
from tests.lab.quorum.lagging import OVERRIDES, addresses, copy_of, metadata_dir_of
from tests.lab.quorum.test_return import bash, make_dynamic, steps_in

SECONDS = 120.0
"""It only ends a wait in vain."""
NAMES, USERS = ("t0", "t1", "t2", "t3"), ("u0", "u1")
SETTINGS = {"retention.ms": (700_000, 900_000), "max.message.bytes": (500_000, 900_000)}
SHORT = {
    "internal.metadata.log.segment.bytes": "16384",
    "metadata.max.retention.bytes": "32768",
}
"""Segments that are deleted: a log that begins at its snapshot."""
NEW_VOTER = 104


class QuorumLoss:
    """One seed: the cluster, the book of what was acknowledged, and what its operator does."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        draw = self.random.random
        self.folder = folder
        self.dynamic, self.alive, self.short = draw() < 0.5, draw() < 0.25, draw() < 0.4
        self.older, self.new_voter = draw() < 0.25, not self.alive and draw() < 0.2
        self.shell = Shell(folder, ())
        self.verdict = judge.Verdict()
        self.truth: judge.State = {}
        self.acked: list[judge.Record] = []
        self.ghosts: set[tuple[Any, ...]] = set()
        self.open: list[Any] = []
        self.happened: list[str] = []
        self.written = 0
        options: LabOptions = {"controllers": 3, "brokers": 2, "tethered": True}
        options["overrides"] = {**OVERRIDES, **(SHORT if self.short else {})}
        self.cluster = Cluster.plan(folder / "lab", **options)

    def played(self) -> judge.Verdict:
        """Play, bring back and judge."""
        try:
            if self.dynamic:
                make_dynamic(self.cluster)
            self.cluster.start()
            self._happen()
            self._lose()
            self._bring_back()
            # As on the broken cluster, clients of before end first.
            self.open.clear()
        finally:
            self.cluster.down(keep=True)
        return self.verdict

    @property
    def servers(self) -> str:
        return self.cluster.lab_bootstrap

    def _say(self, what: str) -> None:
        self.happened.append(f"{time.strftime('%H:%M:%S')} {what}")
        (self.folder / "happened.txt").write_text("\n".join(self.happened) + "\n", encoding="utf-8")

    # What happens before.

    def _happen(self) -> None:
        self._ask_anew()
        for name in NAMES[:2]:
            self._make(name)
        self._write()
        for _ in range(self.random.randint(2, 4)):
            for _ in range(self.random.randint(3, 7)):
                self.random.choice(self._acts())()
            self._write()
            self._turn()

    def _ask_anew(self) -> None:
        """A connection to a broker that was killed would fail a request."""
        running = [node for node in self.cluster.brokers if node.running]
        servers = ",".join(str(node.address(Listener.LAB)) for node in running)
        self.admin = AdminClient({"bootstrap.servers": servers}, logger=QUIET)

    def _acts(self) -> list[Callable[[], None]]:
        changes = [self._configure, self._allow, self._user, self._limit]
        return [*changes, self._make, self._delete, self._remake, self._grow, self._transact]

    def _topics(self) -> dict[str, str]:
        return {value[0]: key[1] for key, value in self.truth.items() if key[0] == "topic"}

    def _make(self, name: str | None = None) -> None:
        free = [one for one in NAMES if one not in self._topics()]
        if name is None and not free:
            return
        name = name or self.random.choice(free)
        size = self.random.choice((1, 2, 2, 2))
        replicas = [self._replicas(size) for _ in range(self.random.randint(1, 2))]
        new = NewTopic(name, len(replicas), replica_assignment=replicas)
        _all(self.admin.create_topics([new], request_timeout=SECONDS))
        self._settled(name, len(replicas))
        found = self.cluster.partition(name, 0).topic_id
        topic_id = base64.urlsafe_b64encode(found.bytes).decode().rstrip("=")
        self.truth["topic", topic_id] = (name, len(replicas))
        self._say(f"make {name} {topic_id} {replicas}")

    def _replicas(self, size: int) -> list[int]:
        """A leader that runs, and perhaps the other broker."""
        running = [node.id for node in self.cluster.brokers if node.running]
        drawn: list[int] = self.random.choice(([1, 2], [2, 1]))
        return drawn if size == 2 else [self.random.choice(running)]

    def _settled(self, name: str, count: int) -> None:
        """Every running broker knows these partitions, each with a leader that runs."""
        running = [node.id for node in self.cluster.brokers if node.running]

        def known() -> bool:
            with suppress(LabError):
                return all(
                    sum(one.leader in running for one in self.cluster.partitions(name, via=broker))
                    == count
                    for broker in running
                )
            return False

        self.cluster.wait_until(known, f"{name} on every broker")

    def _drawn_topic(self) -> Any:
        return self.random.choice(sorted(self._topics()) or [None])

    def _delete(self) -> None:
        name = self._drawn_topic()
        if name is None or len(self._topics()) < 2:
            return
        _all(self.admin.delete_topics([name], request_timeout=SECONDS))
        running = [node.id for node in self.cluster.brokers if node.running]
        self.cluster.wait_until(
            lambda: (
                not any(
                    one.partition.topic == name
                    for via in running
                    for one in self.cluster.partitions(via=via)
                )
            ),
            f"{name} to be deleted",
        )
        del self.truth["topic", self._topics()[name]]
        for key in [key for key in self.truth if key[:2] == ("setting", name)]:
            self.ghosts.add((key, self.truth.pop(key)))
        self._say(f"delete {name}")

    def _remake(self) -> None:
        name = self._drawn_topic()
        before = len(self._topics())
        self._delete()
        if len(self._topics()) < before and name:
            # Whichever was deleted: its name is the only free one that was there.
            self._make(name if name not in self._topics() else None)

    def _grow(self) -> None:
        name = self._drawn_topic()
        if name is None:
            return
        key = ("topic", self._topics()[name])
        count = self.truth[key][1] + 1
        size = len(self.cluster.partition(name, 0).assignment)
        new = NewPartitions(name, count, [self._replicas(size)])
        _all(self.admin.create_partitions([new]))
        self._settled(name, count)
        self.truth[key] = (name, count)
        self._say(f"grow {name} to {count}")

    def _configure(self) -> None:
        name, key = self._drawn_topic(), self.random.choice(sorted(SETTINGS))
        value = str(self.random.randint(*SETTINGS[key]))
        drop = self.random.random() < 0.3 and ("setting", name, key) in self.truth
        kind = AlterConfigOpType.DELETE if drop else AlterConfigOpType.SET
        entry = ConfigEntry(key, value, incremental_operation=kind)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        _all(self.admin.incremental_alter_configs([resource]))
        self._put(("setting", name, key), None if drop else value)

    def _put(self, key: tuple[Any, ...], value: Any) -> None:
        self.truth.pop(key, None)
        if value is not None:
            self.truth[key] = value
        self._say(f"{' '.join(map(str, key))} = {value}")

    def _allow(self) -> None:
        user, topic = f"User:{self.random.choice(USERS)}", self.random.choice(NAMES)
        operation = self.random.choice((AclOperation.READ, AclOperation.WRITE))
        key = ("acl", user, {"READ": 3, "WRITE": 4}[operation.name], topic)
        rest = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", operation)
        if key in self.truth:
            _all(self.admin.delete_acls([AclBindingFilter(*rest, AclPermissionType.ALLOW)]))
        else:
            _all(self.admin.create_acls([AclBinding(*rest, AclPermissionType.ALLOW)]))
        self._put(key, None if key in self.truth else True)

    def _user(self) -> None:
        key = ("scram", self.random.choice(USERS))
        kind = ScramMechanism.SCRAM_SHA_256
        drop = self.random.random() < 0.4 and key in self.truth
        info = ScramCredentialInfo(kind, 4096)
        change: Any = UserScramCredentialUpsertion(key[1], info, b"secret-%d" % self.written)
        if drop:
            change = UserScramCredentialDeletion(key[1], kind)
        _all(self.admin.alter_user_scram_credentials([change]))
        self._put(key, None if drop else True)

    def _limit(self) -> None:
        from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

        key = ("quota", self.random.choice(USERS), "producer_byte_rate")
        drop = self.random.random() < 0.3 and key in self.truth
        value = float(self.random.randint(10_000_000, 99_000_000))
        entry = AlterClientQuotasRequest.EntryData
        made = entry(
            entity=[entry.EntityData(entity_type="user", entity_name=key[1])],
            ops=[entry.OpData(key=key[2], value=value, remove=drop)],
        )
        request = AlterClientQuotasRequest(entries=[made], validate_only=False)
        answer = self.cluster.command(request, AlterClientQuotasResponse)
        assert not answer.entries[0].error_code, answer
        self._put(key, None if drop else value)

    def _producer(self, **more: Any) -> Any:
        given = {"bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True}
        return Producer({**given, "message.timeout.ms": 60_000, **more}, logger=QUIET)

    def _places(self) -> list[tuple[str, str, int]]:
        """Topic, id and partition of each partition whose leader runs."""
        running = {node.id for node in self.cluster.brokers if node.running}
        ids = self._topics()
        return [
            (state.partition.topic, ids[state.partition.topic], state.partition.partition)
            for state in self.cluster.partitions()
            if state.partition.topic in ids and state.leader in running
        ]

    def _write(self, producer: Any = None, **more: Any) -> list[judge.Record]:
        """Some records to each partition that has a leader; returns those acknowledged."""
        producer = producer or self._producer(**more)
        count, got = self.random.randint(2, 6), list[judge.Record]()
        for topic, topic_id, partition in self._places():
            for _ in range(count):
                self.written += 1
                value = b"%d" % self.written

                def noted(error: Any, message: Any, of: str = topic_id) -> None:
                    if not error:
                        place = (message.partition(), message.offset())
                        got.append((of, *place, message.value()))

                producer.produce(topic, value, partition=partition, on_delivery=noted)
        producer.flush(SECONDS)
        self.acked += got
        self._say(f"{len(got)} records")
        return got

    def _transact(self) -> None:
        """Once in a campaign's cluster: committed, or left open."""
        if self.open or len(self._up()) < 5:
            return
        producer = self._producer(**{"transactional.id": "writer"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._write(producer)
        if self.random.random() < 0.5:
            producer.commit_transaction(SECONDS)
        self.open.append(producer)

    def _up(self) -> list[Node]:
        return [node for node in self.cluster.nodes if node.running]

    def _turn(self) -> None:
        """A node that is down returns, or one stops; at most one of each kind is down."""
        for nodes in (self.cluster.controllers, self.cluster.brokers):
            down = [node for node in nodes if not node.running]
            drawn = self.random.random()
            if down and drawn < 0.4:
                down[0].start()
                self.cluster.wait_ready()
                self._say(f"start {down[0].id}")
                self._ask_anew()
            elif not down and drawn < 0.7:
                node = self.random.choice(nodes)
                (node.stop if drawn < 0.35 else node.kill)()
                if node.id in self.brokers:
                    self.cluster.wait_fenced(node.id)
                self._ask_anew()
                self._say(f"{'stop' if drawn < 0.35 else 'kill'} {node.id}")

    # The loss.

    def _lose(self) -> None:
        cluster = self.cluster
        for node in (*cluster.controllers, *(() if self.alive else cluster.brokers)):
            if node.running:
                node.kill()
        if self.alive:
            self._write(**{"enable.idempotence": False})
        controllers = self.random.sample(cluster.controllers, self.random.randint(1, 3))
        brokers = [self.random.choice(cluster.brokers)] if self.random.random() < 0.3 else []
        self.lost = [*controllers, *(() if self.alive else brokers)]
        for node in self.lost:
            node.replace_disks()
        self._say(f"lost {[node.id for node in self.lost]}, alive {self.alive}")
        for node in self._left():
            logs = sorted(copy_of(node).glob("*.log"))
            if not node.running and self.random.random() < 0.35 and logs:
                size = logs[-1].stat().st_size
                at = max(0, size - self.random.randint(1, self.random.choice((200, 5_000, 50_000))))
                os.truncate(logs[-1], at)
                self._say(f"cut {logs[-1]} from {size} to {at}")
            snapshots = sorted(copy_of(node).glob("*.checkpoint"))
            if not node.running and self.random.random() < 0.25 and len(snapshots) > 1:
                snapshots[-1].unlink()
                self._say(f"drop {snapshots[-1]}")

    def _left(self) -> list[Node]:
        return [node for node in self.cluster.nodes if copy_of(node).exists()]

    # The return, by what is printed.

    def _bring_back(self) -> None:
        with suppress(_Stalled):
            self._return()
        text = "\n".join(map(str, self.shell.ran))
        (self.folder / "commands.txt").write_text(text, encoding="utf-8")

    def _stop(self, why: str, ran: Ran) -> None:
        said = (ran.err.strip() or ran.out.strip())[-600:]
        self.verdict.findings.append(f"{why}: exit {ran.code}, {said}")
        raise _Stalled

    def _return(self) -> None:
        cluster, verdict, shell = self.cluster, self.verdict, self.shell
        sources = addresses(*self._left())
        sources = [one for one in sources if Path(one[4:]).is_dir()]
        copies = judge.dump(cluster.kafka, [copy_of(node) for node in self._left()])
        inspected = shell.breakglass("quorum", "inspect", *sources, "--json")
        if not inspected.document:
            self._stop("inspect failed", inspected)
        best = judge.judge_inspection(verdict, copies, inspected.document)
        chosen = best
        more: tuple[object, ...] = ()
        if self.older:
            chosen = self.random.choice(copies)
            more = ("--copy", f"log:{chosen.path}")
        voter: object = self.random.choice(cluster.controllers).id
        machine = self.lost[0]
        if self.new_voter:
            voter = f"{NEW_VOTER}@127.0.0.1:{machine.layout.ports[Listener.CONTROLLER]}"
        file = self.folder / "plan.json"
        words = ("quorum", "plan", *sources, "--voter", voter, "--out", file, *more)
        planned = shell.breakglass(*words)
        if planned.code == 3 and "top every broker" in planned.err:
            self._say(f"kill the brokers: {planned.err.strip()}")
            for node in cluster.brokers:
                if node.running:
                    node.kill()
            planned = shell.breakglass(*words)
        if planned.code:
            self._stop("plan refused", planned)
        plan = json.loads(file.read_text(encoding="utf-8"))
        named = plan["request"]["copy"].removeprefix("log:")
        chosen = next(one for one in copies if str(one.path) == named)
        verdict.require(
            self.older or chosen.end == best.end, f"{named} was chosen, and {best.path} is better"
        )
        shared = chosen.shared_with(best)
        lacking = best.end[1] - shared if chosen is not best else 0
        verdict.require(
            plan["lost"]["records"] in (lacking, None), f"{lacking} lost, not {plan['lost']}"
        )
        log_dirs = {
            node.id: node.layout.log_dirs for node in cluster.brokers if node not in self.lost
        }
        lost = {node.id for node in self.lost}
        log_dirs = {broker: dirs for broker, dirs in log_dirs.items() if broker not in lost}
        left = judge.replicas(log_dirs)
        before = set(self._strays())
        out = self.folder / "promoted"
        prepared = shell.agreeing(
            *("quorum", "prepare", file, "--out", out, "--manager", "process")
        )
        if prepared.code:
            self._stop("prepare refused", prepared)
        self._follow(prepared.out, machine)
        state = chosen.state(chosen.end[1])
        short = lost & self.brokers
        watched = shell.breakglass(
            *("quorum", "watch", file, "--bootstrap-server", self.servers),
            *("--within", "40s" if short else "300s"),
        )
        said = watched.out.strip()
        verdict.require(said, "watch said nothing")
        awaited = said.startswith("Brokers that are fenced or not registered: b")
        verdict.require(
            not watched.code or (short and awaited), f"watch ends with {watched.code}: {said}"
        )
        strays = {one["path"] for one in plan["lost"]["strays"]}
        for path in sorted({*self._strays()} - before):
            verdict.count("strays named")
            verdict.require(path.rpartition(".")[0] in strays, f"{path} was not named")
        self._judge(plan, {"best": best.state(best.end[1]), "chosen": state}, left)

    def _strays(self) -> Iterator[str]:
        for node in self.cluster.brokers:
            for folder in node.layout.log_dirs:
                yield from map(str, folder.glob("*-stray"))

    @property
    def brokers(self) -> set[int]:
        return {node.id for node in self.cluster.brokers}

    def _leaderless(self, state: judge.State) -> set[tuple[str, int]]:
        """Partitions whose ISR and ELR were on lost disks alone."""
        lost = {node.id for node in self.lost}
        return {
            (key[1], key[2])
            for key, one in state.items()
            if key[0] == "partition" and {*one["isr"], *one["eligibleLeaderReplicas"]} <= lost
        }

    def _follow(self, text: str, machine: Node) -> None:
        """Do what *text* says, step by step; a new voter runs on *machine*."""
        for step in steps_in(text):
            if "Do not start" in step.title or step.title.split(" ")[1] == "Leave":
                continue
            if step.node in {one.id for one in self.lost if one.id in self.brokers}:
                # Its log directories are lost, and the step says not to start it then.
                said = any("If they are lost, do not start" in above for above, _ in step.blocks)
                self.verdict.require(said, f"{step.title}: of a lost disk nothing is said")
                continue
            node = machine if step.node == NEW_VOTER else self.cluster.node(step.node)
            shell = ""
            for above, lines in step.blocks:
                if above == step.title and lines:
                    place = rf"/METADATA_LOG_DIR_OF_[BC]{step.node}\b"
                    shell = re.sub(place, str(metadata_dir_of(node)), "\n".join(lines))
                    bash(shell)
                elif above.startswith("In its configuration") and (
                    self.new_voter or "unless" not in above
                ):
                    self.cluster.configure(node.id, dict(line.split("=", 1) for line in lines))
                elif above == "Start it, then look:":
                    node.start()
                    look = "\n".join([*shell.splitlines()[:3], *lines[1:]])
                    self._await(node, step.blocks[-1][0], look)
            self._say(step.title)

    def _await(self, node: Node, then: str, look: str) -> None:
        leader = re.search(r"leaderId (\d+) and a leaderEpoch above (\d+)", then)
        if leader is None:
            # If it does not start, the watch has to say so.
            with suppress(LabError):
                self.cluster.wait_until(lambda: all_listen([node]), "the broker to start")
            return

        def leads() -> bool:
            node.require_running()
            shown = re.search(r'"leaderId":(-?\d+),"leaderEpoch":(\d+)', bash(look))
            return bool(shown and shown[1] == leader[1] and int(shown[2]) > int(leader[2]))

        self.cluster.wait_until(leads, "the new voter to lead")

    # What is there.

    def _judge(
        self, plan: Any, states: dict[str, judge.State], left: Sequence[judge.Replica]
    ) -> None:
        partitions = [
            one for one in self.cluster.partitions() if not one.partition.topic.startswith("__")
        ]
        ids = {one.partition.topic: _id(one.topic_id) for one in partitions}
        final = self._state(ids, [one.partition.topic for one in partitions])
        judge.judge_state(
            self.verdict, plan, {**states, "truth": self.truth, "final": final}, left, self.ghosts
        )
        offline = {
            (ids[one.partition.topic], one.partition.partition)
            for one in partitions
            if one.leader is None
        }
        alone = self._leaderless(states["chosen"])
        self.verdict.require(offline <= alone, f"{offline - alone} have no leader")
        found = {
            (ids[topic], number): self._read(topic, number)
            for topic, number in (astuple(one.partition) for one in partitions)
            if (ids[topic], number) not in offline
        }
        judge.judge_records(self.verdict, plan, self.acked, left, found, offline)
        self.truth = final
        for topic_id, number, offset, value in self._write():
            topic = final["topic", topic_id][0]
            got = self._read(topic, number).get(offset)
            self.verdict.count("new records")
            sentence = f"{topic}-{number} {offset} is {got!r}, not {value!r}"
            self.verdict.require(got == value, sentence)

    def _state(self, ids: dict[str, str], names: Sequence[str]) -> judge.State:
        """What clients can see, in the words of `judge.plain`."""
        from kafka.protocol.admin import DescribeClientQuotasRequest, DescribeClientQuotasResponse

        self._ask_anew()
        seen: judge.State = {("topic", ids[name]): (name, names.count(name)) for name in ids}
        for name in ids:
            resource = ConfigResource(ResourceType.TOPIC, name)
            (configs,) = (
                one.result(SECONDS) for one in self.admin.describe_configs([resource]).values()
            )
            for entry in configs.values():
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
                    seen["setting", name, entry.name] = entry.value
        whose: tuple[Any, ...] = (None, None, AclOperation.ANY, AclPermissionType.ANY)
        whose = (ResourceType.TOPIC, None, ResourcePatternType.ANY, *whose)
        every = AclBindingFilter(*whose)
        for acl in self.admin.describe_acls(every).result(SECONDS):
            operation = {"READ": 3, "WRITE": 4}[acl.operation.name]
            seen["acl", acl.principal, operation, acl.name] = True
        users: Any = self.admin.describe_user_scram_credentials()
        seen |= {("scram", user): True for user in users.result(SECONDS)}
        component = DescribeClientQuotasRequest.ComponentData
        every_user = component(entity_type="user", match_type=2, match=None)
        request = DescribeClientQuotasRequest(components=[every_user], strict=False)
        answer = self.cluster.command(request, DescribeClientQuotasResponse)
        for entry in answer.entries:
            for value in entry.values:
                seen["quota", entry.entity[0].entity_name, value.key] = value.value
        return seen

    def _read(self, topic: str, partition: int) -> dict[int, bytes]:
        """Every record that is there, by offset."""
        settings = {"bootstrap.servers": self.servers, "group.id": "reads-all"}
        more = {"enable.auto.commit": False, "enable.partition.eof": True}
        isolation = {"isolation.level": "read_uncommitted"}
        consumer = Consumer({**settings, **more, **isolation}, logger=QUIET)
        try:
            consumer.assign([Position(topic, partition, 0)])
            found: dict[int, bytes] = {}
            while message := consumer.poll(SECONDS):
                if message.error():
                    return found
                found[message.offset() or 0] = message.value() or b""
            raise AssertionError(f"{topic}-{partition} was not read to its end")
        finally:
            consumer.close()


class _Stalled(Exception):
    """The return cannot go on; the finding is noted."""


def _id(topic_id: Any) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _all(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play seeds; returns the exit code."""
    options = argparse.ArgumentParser(prog="python -m tests.campaign.quorum", description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    options.add_argument("--incidents", type=int, default=1, help="how many seeds (1)")
    options.add_argument("--jobs", type=int, default=1, help="seeds at once (1)")
    options.add_argument("--evidence", type=Path, default=Path("build/campaign/quorum"))
    chosen = options.parse_args(arguments)
    os.environ.setdefault(LOG_LEVEL, "warn")
    seeds = range(chosen.seed, chosen.seed + chosen.incidents)
    totals, failed = judge.Verdict(), 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for tried in as_completed([pool.submit(_tried, seed, chosen.evidence) for seed in seeds]):
            line, verdict = tried.result()
            print(line, *verdict.findings, sep="\n    ", flush=True)
            failed += bool(verdict.findings)
            for name, number in verdict.figures.items():
                totals.count(name, number)
    print(f"{len(seeds)} seeds, {failed} failed; {_figures(totals)}")
    return 1 if failed else 0


def _figures(verdict: judge.Verdict) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in verdict.figures.items() if number)


def _tried(seed: int, evidence: Path) -> tuple[str, judge.Verdict]:
    began, verdict = time.monotonic(), judge.Verdict()
    with _scratch() as scratch:
        folder = Path(scratch)
        try:
            loss = QuorumLoss(seed, folder)
            verdict = loss.verdict
            loss.played()
        except Exception as error:  # noqa: BLE001 (a lab that fails is reported with its seed)
            (folder / "broken.txt").write_text(traceback.format_exc(), encoding="utf-8")
            verdict.findings.append(f"broken: {type(error).__name__} {error}"[:600])
        if verdict.findings:
            target = evidence / f"seed-{seed}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
    seconds = time.monotonic() - began
    how = "FAILED" if verdict.findings else "passed"
    return f"seed {seed} {how} ({seconds:.0f} s): {_figures(verdict)}", verdict


if __name__ == "__main__":
    sys.exit(main())
