"""Changes to answers on their way to the client: where brokers are, what they offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from breakglass.services.errors import LabError
from breakglass.services.lab.proxy.frames import API_VERSIONS, Head, answer_frame, answer_message
from breakglass.services.lab.proxy.refusal import classes_of

FETCH = 1
METADATA = 3
FIND_COORDINATOR = 10
DESCRIBE_CLUSTER = 60

ADDRESS_FREE_VERSIONS = {0: 9, FETCH: 15}
"""The last versions of Produce and Fetch whose answers name no new leader's address (KIP-951)."""

Addresses = Mapping[int, tuple[str, int]]
"""By broker id, where clients are to be sent."""
Offers = Mapping[int, tuple[int, int] | None]
"""By api key, the versions to advertise in place of the broker's own; None: not at all."""

Change = Callable[[Any], None]


class Rewriting:
    """Which answers are changed, and how."""

    def __init__(self, addresses: Addresses | None, offers: Offers) -> None:
        self._addresses: Addresses = {} if addresses is None else addresses
        self._moves = addresses is not None
        self._offers = offers
        self._changes: dict[int, Change] = {}
        if offers or self._moves:
            self._changes[API_VERSIONS] = self._change_offers
        if self._moves:
            for api_key in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER):
                self._changes[api_key] = self._change_addresses

    def apply(self, head: Head, frame: bytes) -> bytes:
        """The answer to *head* as the client is to get it.

        Raises:
            LabError: the answer has a version that we have no schema of.
        """
        change = self._changes.get(head.api_key)
        if change is None:
            return frame
        response_class = classes_of(head.api_key)[1]
        if head.api_key == API_VERSIONS and head.api_version > response_class.max_version:
            # The broker answers version 0 with an error when it does not know the version
            # either; when it does, the client has to be told to ask again in a lower one.
            return answer_frame(_at_version_0(head), response_class(error_code=35))
        if head.api_version > response_class.max_version:
            raise LabError(f"Version {head.api_version} of api {head.api_key} has no schema here.")
        answer = answer_message(head, frame, response_class)
        if head.api_key == API_VERSIONS and answer.error_code:
            return frame
        change(answer)
        return answer_frame(head, answer)

    def _change_offers(self, answer: Any) -> None:
        offered = {api.api_key: api for api in answer.api_keys}
        for api_key, versions in self._offers.items():
            offered.pop(api_key, None)
            if versions is not None:
                offered[api_key] = answer.ApiVersion(
                    api_key=api_key, min_version=versions[0], max_version=versions[1]
                )
        if self._moves:
            for api_key, last in ADDRESS_FREE_VERSIONS.items():
                offered[api_key].max_version = min(offered[api_key].max_version, last)
        answer.api_keys = [offered[api_key] for api_key in sorted(offered)]

    def _change_addresses(self, answer: Any) -> None:
        for broker, node in _nodes(answer):
            if broker in self._addresses:
                node.host, node.port = self._addresses[broker]


def _nodes(answer: Any) -> Iterator[tuple[int, Any]]:
    """Broker ids, each with what bears its host and port in *answer*."""
    lists = [getattr(answer, name) for name in ("brokers", "coordinators") if name in answer.fields]
    for node in [answer] if "host" in answer.fields else []:
        yield node.node_id, node
    for node in (one for nodes in lists for one in nodes):
        yield node.node_id if "node_id" in node.fields else node.broker_id, node


def _at_version_0(head: Head) -> Head:
    return Head(head.api_key, 0, head.correlation_id, head.client_id, head.end)
