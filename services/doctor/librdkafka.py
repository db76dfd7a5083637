"""Asks brokers as librdkafka's clients do, in a process of its own.

Bytes that are not Kafka's make librdkafka end its whole process. Here that is a sentence. The
settings, which have secrets, go to the process by its stdin.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.connection.secret import without_secrets
from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

AT_ONCE = 64
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
            [sys.executable, "-P", "-m", __name__],
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
