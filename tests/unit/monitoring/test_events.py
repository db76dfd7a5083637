"""What is sent when something happens: which events, to whom, signed, and never in the way."""

import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.errors import ClusterError, Refused, UsageError
from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.monitoring import events
from breakglass.services.monitoring.events import EventKind, EventReceiver, changes_of, sending
from breakglass.services.recovery.judgement.assessment import Verdict
from tests.kit.incidents import every_verdict, half_heard, nothing_offline
from tests.kit.waiting import wait_until

SECRET = b"a secret of the tests"


class Webhook:
    """A server that notes what is posted to it, and answers with the next of its codes."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.got: list[dict[str, Any]] = []
        self.signatures: list[bool] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = webhook.codes.pop(0) if webhook.codes else 204
                right = f"sha256={hmac.digest(SECRET, body, 'sha256').hex()}"
                webhook.signatures.append(self.headers[events.SIGNATURE] == right)
                if code == 204:
                    webhook.got.append(json.loads(body))
                self.send_response(code)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    thread = threading.Thread(target=hook.server.serve_forever)
    thread.start()
    yield hook
    hook.server.shutdown()
    thread.join()
    hook.server.server_close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


def kinds(changed: list[tuple[EventKind, events.Known]]) -> dict[str, int]:
    return {kind: len(partitions) for kind, partitions in changed}


def test_an_incident_is_told_as_what_changed_and_only_once() -> None:
    known, changed = changes_of({}, replace(every_verdict(), awaited=frozenset()))
    assert kinds(changed) == {"offline": 13, "bomb": 3, "verdict": 10}
    assert changes_of(known, replace(every_verdict(), awaited=frozenset())) == (known, [])
    bomb = next(one for one, verdict in known.items() if verdict is Verdict.BOMB)
    _, changed = changes_of({**known, bomb: Verdict.SAFE}, every_verdict())
    assert kinds(changed) == {"bomb": 1}
    known, changed = changes_of(known, nothing_offline())
    assert (known, kinds(changed)) == ({}, {"online": 13})


def test_a_verdict_waits_until_every_broker_was_heard_but_a_bomb_does_not() -> None:
    waiting = replace(every_verdict(), awaited=frozenset({3}))
    known, changed = changes_of({}, waiting)
    assert kinds(changed) == {"offline": 13, "bomb": 3}
    _, changed = changes_of(known, every_verdict())
    assert kinds(changed) == {"verdict": 10}
    assert kinds(changes_of({}, half_heard())[1]).keys() == {"offline"}


def test_a_webhook_gets_signed_json_and_events_that_fail_again(
    webhook: Webhook, secret: Path
) -> None:
    said: list[str] = []
    webhook.codes = [503]
    with sending("serve metrics", [webhook.url], secret, said.append) as told:
        told.incident(every_verdict())
        wait_until(lambda: len(webhook.got) == 3, "the events")
        told.lag("cluster", Behind(1_000, "no broker answers"))
        told.lag("cluster", CaughtUpAgain(1_000, 2_000))
    assert (said, webhook.signatures) == ([], [True] * 6)
    assert [one["event"] for one in webhook.got] == [
        *("offline", "bomb", "verdict", "behind", "caught up again")
    ]
    offline, _, _, behind, _ = webhook.got
    assert (offline["schema"], offline["count"], offline["missed"]) == (1, 13, 0)
    assert offline["cluster"] == every_verdict().snapshot.cluster_id
    assert {"topic": "carts", "partition": 0, "verdict": "BOMB"} in offline["partitions"]
    assert (behind["source"], behind["since_ms"]) == ("cluster", 1_000)
    assert len({one["id"] for one in webhook.got}) == 5


def test_a_command_gets_no_variable_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "of the brokers")
    monkeypatch.setenv("EVENTS_FOR", "ops")
    got = tmp_path / "got"
    script = tmp_path / "receiver"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\nenv > {got}\n")
    script.chmod(0o700)
    with sending("ksql backup", [str(script)], None, print) as told:
        told.send(EventKind.ALARM, "an alarm")
    assert "EVENTS_FOR=ops" in got.read_text()
    assert "KAFKA_PASSWORD" not in got.read_text()


def test_a_command_gets_events_on_standard_input_without_a_shell(tmp_path: Path) -> None:
    got = tmp_path / "a file; exit 1"
    with ExitStack() as opened, pytest.raises(ClusterError):  # noqa: PT012 - it ends the command
        told = opened.enter_context(sending("ksql backup", [f"tee -a '{got}'"], None, print))
        told.send(EventKind.ALARM, "the topic is gone\x1b[2J")
        with opened.pop_all():
            raise ClusterError("it is gone")
    alarm, failed = (json.loads(one) for one in got.read_text().splitlines())
    assert (alarm["event"], alarm["text"]) == ("alarm", "the topic is gone\\x1b[2J")
    assert (failed["event"], failed["text"]) == ("failed", "it is gone")


def test_a_slow_receiver_delays_nobody_and_learns_how_many_events_it_lost() -> None:
    went, begun, got = threading.Event(), threading.Event(), []

    def slow(body: bytes) -> None:
        begun.set()
        went.wait()
        got.append(json.loads(body))

    receiver = EventReceiver("slow", slow, print)
    receiver.put({"n": 0})
    begun.wait()
    for number in range(1, events.MOST_WAITING + 8):
        receiver.put({"n": number})
    assert got == [], "nothing waited for the receiver"
    went.set()
    receiver.end()
    receiver.join(60)
    assert [(one["n"], one["missed"]) for one in got[:3]] == [(0, 0), (8, 7), (9, 0)]
    assert (len(got), got[-1]["n"]) == (events.MOST_WAITING + 1, events.MOST_WAITING + 7)


def test_events_that_no_try_delivered_are_counted_and_the_operator_hears_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "TRIES", 1)
    said: list[str] = []
    tries, got = threading.Semaphore(0), []

    def refuses_two(body: bytes) -> None:
        tries.release()
        if not said or json.loads(body)["n"] < 2:
            raise ConnectionRefusedError("refused")
        got.append(json.loads(body))

    receiver = EventReceiver("hook", refuses_two, said.append)
    for number in range(3):
        receiver.put({"n": number})
    receiver.end()
    receiver.join(60)
    assert [(one["n"], one["missed"]) for one in got] == [(2, 2)]
    assert said == ["hook does not take events: refused", "hook takes events again"]


def test_a_redirect_is_a_failure_and_is_not_followed(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "TRIES", 1)
    said: list[str] = []
    webhook.codes = [307]
    with sending("serve metrics", [webhook.url], None, said.append) as told:
        told.send(EventKind.ALARM, "an alarm")
    assert (webhook.got, len(webhook.signatures)) == ([], 1)
    assert said == ["http://127.0.0.1 does not take events: it answers 307"]


@pytest.mark.parametrize(
    "given", ["", "no-such-program-here", "'", "http://", "https://u:p@h/", "http://h:x/"]
)
def test_what_is_neither_an_address_nor_a_command_is_refused(given: str) -> None:
    with pytest.raises(UsageError), sending("serve metrics", [given], None, print):
        pass


def test_a_secret_needs_an_address_and_a_file_of_the_operators_own(secret: Path) -> None:
    with ExitStack() as opened, pytest.raises(UsageError, match="--on-event"):
        opened.enter_context(sending("serve metrics", ["true"], secret, print))
    secret.chmod(0o644)
    with ExitStack() as opened, pytest.raises(Refused):
        opened.enter_context(sending("serve metrics", ["http://127.0.0.1:9/"], secret, print))


def test_a_watch_tells_once_that_it_cannot_read_and_a_backup_only_what_matters(
    tmp_path: Path,
) -> None:
    got = tmp_path / "got"
    with sending("bundle capture", [f"tee -a {got}"], None, print) as told:
        for found in (ClusterError("no broker"), ClusterError("no broker"), nothing_offline()):
            told.look(found)
        for kind in ("caught up", "continued", "alarm"):
            told.heard(kind, kind, "_command_topic")
    sent = [json.loads(line) for line in got.read_text().splitlines()]
    assert [event["event"] for event in sent] == ["behind", "caught up again", "alarm"]
    assert sent[-1]["source"] == "_command_topic"
