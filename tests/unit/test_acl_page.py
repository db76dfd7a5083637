"""The page of ACLs leaves no command out; tests/lab/recover/test_acl_page.py proves its rows."""

from __future__ import annotations

from scripts import cli_reference
from tests.kit.access import Operation
from tests.kit.acl_page import needs_of_commands


def test_every_command_that_asks_a_cluster_has_its_row() -> None:
    asking = {
        command.command_path.removeprefix("breakglass ")
        for command in cli_reference.commands()
        if any(option.name == "bootstrap_server" for option in command.command.params)
    }
    assert set(needs_of_commands()) == asking


def test_rows_hold_kafkas_own_names_of_operations() -> None:
    for need in needs_of_commands().values():
        for operation in (*need.topic, *need.cluster, *need.group):
            assert operation in Operation.__members__
