"""What the shell offers as values of options: profiles, themes, topics of a cluster, scenarios."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import typer

from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import BreakglassError


def profiles(incomplete: str) -> list[str]:
    """Names of profiles; none where a file of them cannot be read."""
    from breakglass.services.connection.profiles import default_folder, profile_names

    try:
        return _beginning(incomplete, profile_names(default_folder()))
    except BreakglassError:
        return []


def themes(incomplete: str) -> list[str]:
    """Names of themes, the user's own too."""
    from breakglass.console.look import theme_names
    from breakglass.services.connection.profiles import default_folder

    return _beginning(incomplete, theme_names(default_folder()))


def native_rpc(incomplete: str) -> list[str]:
    """The words that stand for a choice of requests."""
    from breakglass.services.kafka.wire.native_rpc import AUTO, OFF

    return _beginning(incomplete, [AUTO, OFF])


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the cluster's topics for the last name of ``A,B``; none where it answers too late.

    The cluster is the one that the options before name, or the environment.
    """
    before, comma, last = incomplete.rpartition(",")
    named = before.split(",")
    found = _in_time(lambda: _topics_now(context.params))
    return [f"{before}{comma}{name}" for name in _beginning(last, found) if name not in named]


def scenarios(incomplete: str) -> list[str]:
    """Names of what can be done to a lab."""
    from breakglass.services.lab.scenarios import SCENARIOS

    return _beginning(incomplete, [scenario.name for scenario in SCENARIOS])


def _topics_now(given: dict[str, Any]) -> list[str]:
    from breakglass.services.connection.sources import ConnectionOptions

    options = ConnectionOptions(
        bootstrap_server=given.get("bootstrap_server"),
        command_config=given.get("command_config"),
        profile=given.get("profile"),
        broker_address=tuple(given.get("broker_address") or ()),
        listener=given.get("listener"),
    )
    with Connection(options).access().reading() as client:
        partitions = client.partitions((), deadline_after(patience.COMPLETION))
    # The shell runs a line with them: metadata that calls a topic `$(reboot)` was refused.
    return sorted({state.partition.topic for state in partitions})


def _in_time(read: Callable[[], list[str]]) -> list[str]:
    """What *read* returns within `patience.COMPLETION`; nothing where it takes longer or fails."""
    # What reads is imported here: that takes its time on the first completion of a day.
    import breakglass.services.kafka.read_client
    import breakglass.services.session  # noqa: F401

    found: list[str] = []

    def run() -> None:
        with suppress(BreakglassError, OSError):
            found.extend(read())

    reader = Thread(target=run, name="completion", daemon=True)
    reader.start()
    reader.join(patience.COMPLETION)
    return list(found)


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
