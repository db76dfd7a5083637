"""The options of a checkpoint as a screen takes them: text, parsed as the commands parse theirs."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from breakglass.console.help import HelpedCommand
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Command

    from breakglass.services.checkpoint.promises import WantedCheckpoint
    from breakglass.services.checkpoint.wording import RestoreAsked

TAKE = ("topics", "group", "level", "external", "flow", "max_rate", "drain", "control_topic")
RESTORE = ("renamed", "suffix", "resume", "control_topic")
"""The parameters of the commands that a screen offers: the screen itself knows the others."""


class CommandText:
    """Reads what `breakglass checkpoint take` and `restore` read, by their own definitions."""

    def take(self, text: str) -> WantedCheckpoint:
        """What ``--topics A,B --group NAME=POLICY --level LEVEL ...`` asks for.

        Raises UsageError: the command would refuse it.
        """
        from breakglass.console.checkpoint_take import copy_settings, wanted_checkpoint

        given = _parsed("take", TAKE, text)
        how = copy_settings(*(given.pop(name) for name in ("drain", "max_rate", "control_topic")))
        return wanted_checkpoint(**given, how=how)

    def restore(self, text: str) -> RestoreAsked:
        """What ``--map OLD=NEW --suffix TEXT --resume ...`` asks for.

        Raises UsageError: the command would refuse it.
        """
        from breakglass.console.checkpoint_take import restore_asked

        return restore_asked(**_parsed("restore", RESTORE, text))


def _parsed(name: str, offered: tuple[str, ...], text: str) -> dict[str, Any]:
    from typer._click.exceptions import ClickException, NoSuchOption

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"This cannot be read ({error}): close what is quoted.") from None
    command = _command(name, offered)
    try:
        return command.make_context(name, words).params
    except NoSuchOption as error:
        known = ", ".join(option for param in command.params for option in param.opts)
        raise UsageError(
            f"There is no option {error.option_name} here: there are {known}."
        ) from None
    except ClickException as error:
        raise UsageError(error.format_message()) from None


@cache
def _command(name: str, offered: tuple[str, ...]) -> Command:
    """The command `breakglass checkpoint NAME` with its *offered* parameters alone."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from breakglass.console.checkpoint import app

    group = get_command(app)
    assert isinstance(group, TyperGroup)
    params = [option for option in group.commands[name].params if option.name in offered]
    assert len(params) == len(offered), f"{name} has other options than {offered}"
    return HelpedCommand(name, params=params, add_help_option=False)
