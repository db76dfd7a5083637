"""A command topic on a lab's broker, as ksqlDB makes it, fills it, and as accidents befall it."""

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import configure_topic, create_topic
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.settings import command_topic
from breakglass.services.model import TopicPartition as KafkaPartition
from tests.kit.faults import RETAINED
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import delete_topic, messages, transactional

SECONDS = DEADLINE_SECONDS
SETTINGS = RETAINED


class CommandTopic:
    """The topic of one service."""

    def __init__(self, cluster: Cluster, service_id: str) -> None:
        self.cluster = cluster
        self.service_id = service_id
        self.name = command_topic(service_id)

    @property
    def id(self) -> str:
        """Its topic id now."""
        return str(self.cluster.partition(self.name, 0).topic_id)

    def create(
        self, settings: Mapping[str, str] | None = None, replicas: Sequence[int] = (1,)
    ) -> None:
        own = SETTINGS if settings is None else settings
        create_topic(self.cluster, self.name, [list(replicas)], own)

    def configure(self, **settings: str) -> None:
        """Set what is given as ``retention_ms="0"``."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        configure_topic(self.cluster, self.name, named)

    def produce(self, records: Sequence[CommandRecord], *, group: int = 1) -> list[CommandRecord]:
        """Write *records* as ksqlDB does, a transaction each (or for *group* of them).

        Returns them with the offsets they got: every marker takes one.
        """
        producer = self._producer()
        offsets: list[int] = []
        for at in range(0, len(records), group):
            producer.begin_transaction()
            offsets += self._sent(producer, records[at : at + group])
            producer.commit_transaction(SECONDS)
        return [one._replace(offset=offset) for one, offset in zip(records, offsets, strict=True)]

    def abort(self, records: Sequence[CommandRecord]) -> None:
        """Write *records* in a transaction that is aborted."""
        producer = self._producer()
        producer.begin_transaction()
        self._sent(producer, records)
        producer.abort_transaction(SECONDS)

    def _producer(self) -> Producer:
        return transactional(self.cluster, self.service_id, linger_ms=0)

    def _sent(self, producer: Producer, records: Sequence[CommandRecord]) -> list[int]:
        """The offsets of *records* once they are written."""
        offsets: list[int] = []

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            offsets.append(message.offset())  # type: ignore[attr-defined]

        for record in records:
            producer.produce(
                self.name,
                key=record.key,
                value=record.value,
                partition=0,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        producer.flush(SECONDS)
        return offsets

    def read(self) -> list[CommandRecord]:
        """All committed commands, as another consumer than the product's reads them."""
        return [
            CommandRecord(
                message.offset() or 0,
                message.key(),
                message.value(),
                message.timestamp()[1],
                tuple(message.headers() or ()),  # type: ignore[arg-type]
            )
            for message in messages(self.cluster, KafkaPartition(self.name, 0))
        ]

    def settings(self) -> dict[str, str]:
        """Those that the topic has of its own."""
        admin = self._admin()
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        (told,) = admin.describe_configs([asked]).values()
        entries = told.result(SECONDS).values()
        return {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }

    def delete(self) -> None:
        delete_topic(self.cluster, self.name)

    def delete_records(self, before: int) -> None:
        """Delete what is before an offset."""
        asked = TopicPartition(self.name, 0, before)
        admin = self._admin()
        for done in admin.delete_records([asked]).values():
            done.result(SECONDS)

    def _admin(self) -> AdminClient:
        return AdminClient(
            {"bootstrap.servers": self.cluster.lab_bootstrap},
            logger=logging.getLogger("metastore tests"),
        )
