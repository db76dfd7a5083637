"""The page of ACLs leaves no command out; tests/lab/product/test_acl_page.py proves its rows."""

from __future__ import annotations

from breakglass.services.lab.access import Operation
from scripts import cli_reference
from tests.acl_page import needs_of_commands


def test_every_command_that_asks_a_cluster_has_its_row() -> None:
    asking = {
        one.command_path.removeprefix("breakglass ")
        for one in cli_reference.commands()
        if any(option.name == "bootstrap_server" for option in one.command.params)
    }
    assert set(needs_of_commands()) == asking


def test_rows_hold_kafkas_own_names_of_operations() -> None:
    for one in needs_of_commands().values():
        for operation in (*one.topic, *one.cluster, *one.group):
            assert operation in Operation.__members__
