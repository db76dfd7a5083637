"""Says which answers name brokers' addresses, and which versions a relay can pass on.

An address that a relay does not rewrite would lead its client past the relay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.frames import body_of
from breakglass.services.kafka.wire.messages.message import decode_exactly
from breakglass.services.kafka.wire.passing import Head, answer_frame

ADDRESSING = (api_keys.METADATA, api_keys.FIND_COORDINATOR, api_keys.DESCRIBE_CLUSTER)
"""The requests whose answers name addresses in every version."""
ADDRESS_FREE_VERSIONS = {api_keys.PRODUCE: 9, api_keys.FETCH: 15}
"""The last versions of Produce and Fetch whose answers name no new leader's address (KIP-951)."""

Versions = tuple[int, int]
"""The lowest and the highest version of a request."""


def passable(offered: Mapping[int, Versions], allowed: frozenset[int]) -> dict[int, Versions]:
    """The versions of each *allowed* request that a relay passes on to a broker that *offered*."""
    highest = {**ADDRESS_FREE_VERSIONS, **{key: _response(key).max_version for key in ADDRESSING}}
    found = {
        key: (low, min(high, highest.get(key, high)))
        for key, (low, high) in offered.items()
        if key in allowed
    }
    return {key: (low, high) for key, (low, high) in found.items() if low <= high}


def rewritten(
    head: Head, frame: memoryview, moved: Callable[[int, str, int], tuple[str, int]]
) -> bytes | memoryview:
    """The answer to *head* with each broker's address replaced by *moved* (id, host, port).

    Raises:
        MalformedMessage: the answer is not one to that request.
    """
    if head.api_key not in ADDRESSING:
        return frame
    response_class = _response(head.api_key)
    try:
        body = body_of(frame, response_class, head.api_version)
    except (ValueError, IndexError) as error:
        raise MalformedMessage(f"the header of an answer cannot be read ({error})") from error
    answer = decode_exactly(response_class, body, head.api_version)
    for broker, node in addressed(answer):
        # Where no coordinator is known, the answer has no host, and -1 as its broker.
        if node.host and broker >= 0:
            node.host, node.port = moved(broker, node.host, node.port)
    return answer_frame(head, answer)


def addressed(answer: Any) -> Iterator[tuple[int, Any]]:
    """Broker ids, each with the part of *answer* that has the broker's host and port."""
    lists = [getattr(answer, name) for name in ("brokers", "coordinators") if name in answer.fields]
    for node in [answer] if "host" in answer.fields else []:
        yield node.node_id, node
    for node in (node for nodes in lists for node in nodes or ()):
        yield node.node_id if "node_id" in node.fields else node.broker_id, node


def at_version_0(head: Head) -> Head:
    """*head* as that of version 0, in which an unknown version of ApiVersions is refused."""
    return Head(head.api_key, 0, head.correlation_id, head.client_id, head.end)


def _response(api_key: int) -> Any:
    """The class of the answers to a request of `ADDRESSING`."""
    from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

    from breakglass.services.kafka.wire.messages.reading import DescribeClusterResponse

    classes = (MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
    return dict(zip(ADDRESSING, classes, strict=True))[api_key]
