"""What consoles on this machine saw of a cluster and nobody has acknowledged, said by commands."""

from __future__ import annotations

from breakglass.console.output import say
from breakglass.services.errors import StorageError


def say_observed(*cluster_ids: str) -> None:
    """Say what is not acknowledged; a file that cannot be read is reported, and stops nothing."""
    from breakglass.services.incident.election_words import alarm_lines
    from breakglass.services.incident.observations import Observations, unacknowledged

    told = False
    for cluster_id in cluster_ids:
        try:
            seen = unacknowledged(Observations(cluster_id).load())
        except StorageError as error:
            say(str(error))
            continue
        for line in alarm_lines(seen):
            told = True
            say(f"SEEN: {line}.")
    if told:
        say("Take note of it: breakglass journal observed --acknowledge")
