"""What the shell offers as values of options: profiles, themes, screens."""

from __future__ import annotations

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


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
