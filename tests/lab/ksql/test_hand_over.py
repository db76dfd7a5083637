"""`ksql submit --server`: what a server answers, and what the topic says of it (M14)."""

from pathlib import Path

import pytest

from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    ConnectFailed,
    OutcomeUnknown,
    Refused,
    UsageError,
)
from breakglass.services.guard.act import Front, GuardedRun
from breakglass.services.lab.properties import write_certificates
from breakglass.services.metastore.acts.command_topic import HandedStatement, HandToServer
from breakglass.services.metastore.ksql_server import KsqlServer, server_url
from breakglass.services.metastore.log.validator import StatementRejected
from breakglass.services.session import Power
from tests.kit.clusters import access_to
from tests.lab.ksql.commands import run
from tests.lab.ksql.rest_server import PASSWORD, USER, Fault, rest_server
from tests.lab.ksql.topics import SECONDS, CommandTopic

STATEMENT = "CREATE STREAM A AS SELECT * FROM B EMIT CHANGES"
KEY = b'"stream/`A`/create"'


def handed(topic: CommandTopic, server: KsqlServer, state: Path) -> HandedStatement:
    access = access_to(topic.cluster)
    act = HandToServer(topic.service_id, STATEMENT, server, SECONDS)
    guarded = GuardedRun(act, Front(access, state_folder=state))
    frozen = guarded.freeze()
    phrases = [asked.phrase for asked in frozen.asked]
    found = guarded.carry_out(Power(access), frozen, phrases).value
    assert isinstance(found, HandedStatement)
    return found


def keys(topic: CommandTopic) -> list[bytes | None]:
    return [record.key for record in topic.read()]


def test_a_statement_is_handed_over_and_confirmed_in_the_topic(
    topic: CommandTopic, tmp_path: Path
) -> None:
    """By the command line, with a user and a password."""
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    password.chmod(0o600)
    with rest_server(topic) as server:
        words = ["submit", STATEMENT, "--service-id", topic.service_id, "--write"]
        words += ["--server", server.address, "--server-user", USER]
        words += ["--server-password-file", str(password)]
        phrase = run(topic.cluster, *words).consent
        assert phrase == f"{topic.name} stream/`A`/create"
        assert [request.path for request in server.requests] == ["/info"]
        done = run(topic.cluster, *words, "--consent", phrase)
    assert done.code == 0, done.err
    assert server.requests[-1].body == {"ksql": f"{STATEMENT};", "streamsProperties": {}}
    assert keys(topic) == [KEY]


def test_over_tls_the_certificate_is_checked(topic: CommandTopic, tmp_path: Path) -> None:
    write_certificates(tmp_path / "tls", ())
    with rest_server(topic, certificate=tmp_path / "tls" / "broker.pem") as server:
        url = server_url(server.address)
        with pytest.raises(ConnectFailed):
            handed(topic, KsqlServer(url), tmp_path)
        assert server.requests == []
        trusted = KsqlServer(url, ca=tmp_path / "tls" / "ca.pem")
        assert handed(topic, trusted, tmp_path).offset == 0


@pytest.mark.parametrize(
    ("fault", "error", "written"),
    [
        (Fault.INVALID, StatementRejected, False),
        (Fault.FENCED, ClusterError, False),
        (Fault.FENCED_LATE, OutcomeUnknown, True),
        (Fault.SILENT_BEFORE, OutcomeUnknown, False),
        (Fault.SILENT_AFTER, OutcomeUnknown, True),
        (Fault.LIES, OutcomeUnknown, True),
    ],
)
def test_m14_what_a_server_did_is_what_the_topic_says(
    fault: Fault, error: type[BreakglassError], written: bool, topic: CommandTopic, tmp_path: Path
) -> None:
    with rest_server(topic, fault) as server, pytest.raises(error) as raised:
        handed(topic, KsqlServer(server_url(server.address)), tmp_path)
    assert type(raised.value) is error
    assert keys(topic) == [KEY] * written


def test_what_the_server_could_not_execute_and_did_not_need_is_told(
    topic: CommandTopic, tmp_path: Path
) -> None:
    with rest_server(topic, Fault.NEEDLESS) as server:
        found = handed(topic, KsqlServer(server_url(server.address)), tmp_path)
        assert found == HandedStatement(None, None, "", "Cannot add stream A: exists.")
        server.fault = Fault.FAILS
        found = handed(topic, KsqlServer(server_url(server.address)), tmp_path)
    assert (found.offset, found.failed, found.message) == (0, True, "no such function")


def test_nothing_is_sent_to_a_server_of_another_service_or_without_credentials(
    topic: CommandTopic, tmp_path: Path
) -> None:
    with rest_server(topic, service_id="other_") as server:
        url = server_url(server.address)
        with pytest.raises(Refused):
            handed(topic, KsqlServer(url), tmp_path)
        with pytest.raises(AuthenticationFailed):
            handed(topic, KsqlServer(url, USER, "wrong"), tmp_path)
    assert {request.path for request in server.requests} == {"/info"}
    with pytest.raises(ConnectFailed):
        handed(topic, KsqlServer(url), tmp_path)
    with pytest.raises(UsageError):
        KsqlServer(server_url("http://ksql1:8088"), USER, PASSWORD)
    assert topic.read() == []
