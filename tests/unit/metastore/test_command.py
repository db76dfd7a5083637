"""Command ids and commands: what ksqlDB writes is read back, what it refuses is refused."""

import pytest

from breakglass.services.metastore.command import (
    TERMINATE_CLUSTER,
    Command,
    CommandId,
    IncompatibleCommand,
    InvalidCommand,
    InvalidCommandId,
)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "null"),
        (b"stream/A/create", "not JSON"),
        (b'{"a":1}', "not a JSON string"),
        (b'"stream/create"', "Expected a string of the form"),
        (b'"river/A/create"', "river"),
        (b'"stream/A/make"', "make"),
        (b'"\xff"', "not JSON"),
    ],
)
def test_what_is_no_command_id_is_refused(key: bytes | None, why: str) -> None:
    with pytest.raises(InvalidCommandId, match=why):
        CommandId.from_json(key)
    assert CommandId.from_json(b'"cluster/TerminateCluster/terminate"') == TERMINATE_CLUSTER
    assert Command.from_json(b'{"statement":"TERMINATE ALL;"}').plan is None


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, InvalidCommand),
        (b"", InvalidCommand),
        (b"[]", InvalidCommand),
        (b"{}", InvalidCommand),
        (b'{"statement":1}', InvalidCommand),
        (b'{"statement":"A","plan":[]}', InvalidCommand),
        (b'{"statement":"A","version":"18"}', InvalidCommand),
        (b'{"statement":"A","version":19}', IncompatibleCommand),
        (b'{"statement":"A","new":1}', IncompatibleCommand),
        (b'{"statement":"A","plan":{"@type":"ksqlPlanV2"}}', IncompatibleCommand),
        (
            b'{"statement":"A","plan":{"@type":"ksqlPlanV1","statementText":"A",'
            b'"ddlCommand":{"@type":"createViewV1"}}}',
            IncompatibleCommand,
        ),
        (b"[" * 200_000, InvalidCommand),
    ],
)
def test_what_is_no_command_is_refused(value: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(InvalidCommand) as caught:
        Command.from_json(value)
    assert type(caught.value) is error
