"""What the console's screen shows of a service, on a real broker."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.metastore.looking import NewestBackup, ServiceWatch
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.model import Unknown
from tests.kit.clusters import access_to
from tests.lab.ksql.commands import backed_up
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator


def test_a_service_is_followed_with_its_backup_beside_it(topic: CommandTopic, folder: Path) -> None:
    records = Generator(81).records(9)
    topic.produce(records[:6])
    connection = {"bootstrap.servers": topic.cluster.bootstrap_servers}
    watch = ServiceWatch(connection, topic.name, folder)
    with access_to(topic.cluster).reading() as client:
        first = watch.look(client)
        assert isinstance(first.backup, Unknown)
        assert len(first.entries) == 6
        assert set(first.wrong) == set(first.metastore.sources)
        backed_up(topic, folder)
        topic.produce(records[6:])
        second = watch.look(client)
        assert isinstance(second.backup, NewestBackup)
        assert (second.backup.counts.same, second.backup.counts.only_topic) == (6, 3)
        assert len(second.entries) == 9
        topic.configure(retention_ms="0")
        topic.delete()
        assert any("is gone" in alarm for alarm in watch.look(client).alarms)
        topic.create()
        anew = watch.look(client)
        assert anew.metastore == Metastore()
        assert isinstance(anew.backup, NewestBackup)
        assert anew.backup.counts.only_backup == 6
    watch.close()
