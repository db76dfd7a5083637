"""Looks at this machine and at the cluster, for doctor.

Looks at this machine: Java, locale, what is installed, space for a rescue.

Asks a cluster as each client does: Breakglass's own, and librdkafka. Reads only.

Bytes that are not Kafka's make librdkafka end its whole process. So it has a process of its own,
whose end is a sentence. The settings, which have secrets, go to that process by its stdin.
"""

from __future__ import annotations

import json
import locale
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.connection.secret import without_secrets
from breakglass.services.doctor.checks import BrokerFacts, ClusterFacts, MachineFacts, TerminalFacts
from breakglass.services.errors import BreakglassError, PipelineError
from breakglass.services.extras import EXTRAS, lacking
from breakglass.services.kafka.cluster.describe_cluster import KRAFT_VERSION, read_controller_time
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.answers import cluster_error, unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import NotOffered, Unknown
from breakglass.services.recovery.judgement.succession import PassedOver
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.snapshot import Broker, ClusterSnapshot

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from breakglass.services.connection.settings import ConnectionSettings
    from breakglass.services.session import ReadAccess


def machine_facts(version: str, terminal: TerminalFacts, rescue_folder: Path) -> MachineFacts:
    """What this machine has; *version* is that of Breakglass."""
    # folder, or its nearest parent that is there.
    place = next(path for path in (rescue_folder, *rescue_folder.parents) if path.is_dir())
    return MachineFacts(
        version=version,
        python=platform.python_version(),
        terminal=terminal,
        encoding=locale.getpreferredencoding(False),
        locale_problem=_locale_problem(),
        missing={extra: packages for extra in EXTRAS if (packages := lacking(extra))},
        java=_java(),
        rescue_folder=str(rescue_folder),
        free_bytes=_free(place),
        writable=os.access(place, os.W_OK | os.X_OK),
    )


def _java() -> str | Unknown:
    from breakglass.services.pipeline.java import find_java

    try:
        return str(find_java())
    except PipelineError as error:
        return Unknown(str(error))


def _locale_problem() -> str:
    """Why the locale of the environment cannot be used; the locale stays as it was."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        wanted = next(
            (value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))),
            "",
        )
        return f"the locale {wanted} is not installed"
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return ""


def _free(place: Path) -> int | Unknown:
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        return Unknown(str(error.strerror))


AT_ONCE = 64
OPERATIONS = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
}
"""The bits of authorized operations (org.apache.kafka.common.acl.AclOperation)."""
NOT_TOLD = -(2**31)
"""A broker without an answer sends this in place of bits; kafka-python makes it None."""


def cluster_facts(access: ReadAccess) -> ClusterFacts:
    """How the cluster answers; never raises for a cluster that does not."""
    settings = access.settings
    servers = ", ".join(map(str, settings.bootstrap_servers))
    with access.reading() as client:
        deadline = Deadline.after(patience.COMMAND)
        try:
            description = client.describe(deadline)
        except BreakglassError as error:
            return ClusterFacts(servers, trouble=str(error))
        sender = client.sender
        brokers = _ask_all(sender, description.brokers, settings)
        snapshot: ClusterSnapshot | Unknown
        dynamic: bool | Unknown
        try:
            snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), with_settings=False)
            # A broker that knows no kraft.version has no dynamic quorum either.
            dynamic = sender.finalized(ANY_BROKER, deadline).levels.get(KRAFT_VERSION, 0) > 0
        except BreakglassError as error:
            snapshot = dynamic = Unknown(str(error))
        return ClusterFacts(
            servers=servers,
            cluster_id=description.cluster_id,
            names_fenced=description.names_fenced,
            brokers=brokers,
            librdkafka=_by_librdkafka(access),
            cluster_rights=_cluster_rights(sender, deadline),
            topic_rights=_topic_rights(sender, deadline),
            ahead_ms=_ahead_ms(sender, deadline),
            quorum=snapshot if isinstance(snapshot, Unknown) else snapshot.quorum,
            dynamic=dynamic,
            racks={broker.id: broker.rack for broker in description.brokers},
            passed_over=_passed_over(snapshot),
            asked_with_addresses=bool(settings.broker_addresses),
        )


def _passed_over(snapshot: ClusterSnapshot | Unknown) -> tuple[PassedOver, ...] | Unknown:
    """The brokers that elections passed over, by journals; Unknown where these cannot be read."""
    if isinstance(snapshot, Unknown):
        return snapshot
    known = Recollection(snapshot.cluster_id)
    found = known.passed_over(snapshot, whole=True)
    troubles = "; ".join(known.troubles)
    return Unknown(troubles) if troubles and not found else tuple(found.values())


def _ask_all(
    sender: Sender, brokers: Sequence[Broker], settings: ConnectionSettings
) -> tuple[BrokerFacts, ...]:
    """Every broker asked at the same time, so that one that hangs hides no other."""
    if not brokers:
        return ()

    def ask(broker: Broker) -> BrokerFacts:
        own = settings.broker_addresses.get(broker.id)
        address = f"{broker.host}:{broker.port}" if own is None else str(own)
        try:
            deadline = Deadline.after(patience.BRIEF)
            lacks = tuple(
                sorted(
                    key for key in api_keys.READ if sender.offers(broker.id, key, deadline) is None
                )
            )
        except BreakglassError as error:
            return BrokerFacts(broker.id, address, broker.fenced, str(error))
        return BrokerFacts(broker.id, address, broker.fenced, "", lacks)

    with ThreadPoolExecutor(min(AT_ONCE, len(brokers)), "doctor") as asking:
        return tuple(asking.map(ask, brokers))


def _cluster_rights(sender: Sender, deadline: Deadline) -> frozenset[str] | Unknown:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )

    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
    )
    try:
        answer = sender.call(ANY_BROKER, request, DescribeClusterResponse, deadline)
        if answer.error_code:
            raise cluster_error(
                answer.error_code, "reading rights", "DESCRIBE on CLUSTER", answer.error_message
            )
    except BreakglassError as error:
        return unread(error)
    return _rights(answer.cluster_authorized_operations)


def _topic_rights(sender: Sender, deadline: Deadline) -> Mapping[str, frozenset[str]] | Unknown:
    """Of every topic that this user may describe: others are left out by brokers."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    request = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    try:
        answer = sender.call(ANY_BROKER, request, MetadataResponse, deadline)
    except BreakglassError as error:
        return unread(error)
    found: dict[str, frozenset[str]] = {}
    for topic in answer.topics:
        rights = _rights(topic.authorized_operations)
        if isinstance(rights, Unknown):
            return rights
        found[topic.name] = rights
    return found


def _rights(bits: int | Collection[int] | None) -> frozenset[str] | Unknown:
    """The operations in *bits*: a number or, as kafka-python has it, the places of its bits."""
    if bits is None or bits == NOT_TOLD:
        return Unknown("this broker does not tell the rights of its users")
    places = {code for code in OPERATIONS if bits >> code & 1} if isinstance(bits, int) else bits
    return frozenset(name for code, name in OPERATIONS.items() if code in places)


def _ahead_ms(sender: Sender, deadline: Deadline) -> int | Unknown:
    """How far our clock is ahead: less than the time that the question took counts as nothing."""
    before = now_ms()
    clock = read_controller_time(sender, deadline)
    after = now_ms()
    if isinstance(clock, Unknown):
        return clock
    if before <= clock <= after:
        return 0
    return before - clock if clock < before else after - clock


def _by_librdkafka(access: ReadAccess) -> Mapping[int, str] | Unknown:
    """Each broker that leads a partition, asked where that ends: only the leader answers.

    No consumer asks: it looks for the coordinator of its group, for which a broker creates
    `__consumer_offsets` where nobody has used a group yet.
    """
    from breakglass.services.connection.security import confluent_config, reached_by_librdkafka

    settings = access.settings_now
    if not reached_by_librdkafka(settings):
        return NotOffered(
            "librdkafka knows the advertised addresses alone, and no Kerberos: of Breakglass, only "
            "participants of checkpoints use it"
        )
    try:
        return ends_asked(confluent_config(settings))
    except BreakglassError as error:
        return Unknown(str(error))


LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
REFUSALS = frozenset({"TOPIC_AUTHORIZATION_FAILED"})
"""Errors of librdkafka that a broker itself has sent: it was reached."""
LONGEST_SECONDS = 2 * patience.CONNECT + patience.COMMAND


def ends_asked(clients: Mapping[str, Any]) -> Mapping[int, str] | Unknown:
    """By the id of each broker that leads a partition, why it does not answer; empty if it does.

    *clients* has confluent-kafka's settings.
    """
    settings = {name: value for name, value in clients.items() if not callable(value)}
    callback = clients.get("oauth_cb")
    token = None if callback is None else list(callback(clients.get("sasl.oauthbearer.config")))
    try:
        asked = subprocess.run(
            [sys.executable, "-P", "-m", "breakglass.services.doctor.cluster"],
            input=json.dumps([settings, token]),
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            env=without_secrets(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Unknown("librdkafka did not answer in time")
    except OSError as error:
        return Unknown(f"no process could be started to ask ({error.strerror})")
    if asked.returncode < 0:
        ended = signal.Signals(-asked.returncode).name
        return Unknown(
            f"librdkafka was ended by {ended}: what a broker answered is not Kafka's, and ends "
            "every application that uses librdkafka"
        )
    if asked.returncode:
        return Unknown(f"librdkafka could not be asked ({asked.stderr.strip()[-200:]})")
    found = json.loads(asked.stdout)
    return Unknown(found) if isinstance(found, str) else {int(id): why for id, why in found.items()}


def _ends(clients: Mapping[str, Any]) -> Mapping[int, str] | str:
    """The answers; a text if there are none."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        admin = AdminClient(dict(clients), logger=LOG)
    except KafkaException as error:
        return _why(error)
    try:
        admin.poll(0)
        # A partition that each broker leads; brokers that lead none are left out.
        led = {
            partition.leader: (topic.topic, partition.id)
            for topic in admin.list_topics(timeout=patience.CONNECT).topics.values()
            for partition in topic.partitions.values()
            if partition.leader >= 0
        }
        with ThreadPoolExecutor(max(1, min(AT_ONCE, len(led))), "doctor") as asking:
            answers = asking.map(lambda partition: _end_asked(admin, partition), led.values())
            return dict(zip(led, answers, strict=True))
    except KafkaException as error:
        return _why(error)


def _end_asked(admin: AdminClient, partition: tuple[str, int]) -> str:
    """Why the leader does not answer; empty if it does, be it by a refusal."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    try:
        (answer,) = admin.list_offsets(
            {TopicPartition(*partition): latest}, request_timeout=patience.BRIEF
        ).values()
        answer.result()
    except KafkaException as error:
        return "" if error.args[0].name() in REFUSALS else _why(error)
    return ""


def _why(error: Any) -> str:
    """Librdkafka's own words."""
    return str(error.args[0].str())


def main() -> None:
    """Read the settings from stdin, and print the answers as JSON."""
    settings, token = json.load(sys.stdin)
    if token is not None:
        settings["oauth_cb"] = lambda _: tuple(token)
    print(json.dumps(_ends(settings)))


if __name__ == "__main__":
    main()
