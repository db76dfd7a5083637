"""Who may do what in a guarded lab: ACLs, known to every broker on return."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.wire import Conversation

NO_ERROR = 0
LITERAL = 3
ANY_HOST = "*"
ALLOW = 3
CLUSTER_NAME = "kafka-cluster"


class Resource(IntEnum):
    """What an ACL is about (org.apache.kafka.common.resource.ResourceType)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What an ACL allows (org.apache.kafka.common.acl.AclOperation)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


@dataclass(frozen=True, slots=True)
class Acl:
    """One ACL on one resource by its literal name; ``*`` is every one."""

    user: str
    operation: Operation
    resource: Resource
    name: str = CLUSTER_NAME

    @property
    def principal(self) -> str:
        return f"User:{self.user}"


def grant(cluster: Cluster, *acls: Acl) -> None:
    """Add *acls*.

    Raises:
        LabError: the cluster refused one.
    """
    from kafka.protocol.admin import CreateAclsRequest, CreateAclsResponse

    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=int(acl.resource),
            resource_name=acl.name,
            resource_pattern_type=LITERAL,
            principal=acl.principal,
            host=ANY_HOST,
            operation=int(acl.operation),
            permission_type=ALLOW,
        )
        for acl in acls
    ]
    answer = cluster.command(CreateAclsRequest(creations=creations), CreateAclsResponse)
    for result in answer.results:
        _check("add an ACL", result)
    _wait_everywhere(cluster, lambda node: _hold(node, acls), "the ACLs")


def revoke(cluster: Cluster, *acls: Acl) -> None:
    """Remove *acls*; one that is not there is no error.

    Raises:
        LabError: the cluster refused one.
    """
    from kafka.protocol.admin import DeleteAclsRequest, DeleteAclsResponse

    filters = [DeleteAclsRequest.DeleteAclsFilter(**_filter(acl)) for acl in acls]
    answer = cluster.command(DeleteAclsRequest(filters=filters), DeleteAclsResponse)
    for result in answer.filter_results:
        _check("remove an ACL", result)
    _wait_everywhere(
        cluster, lambda node: not any(_hold(node, [acl]) for acl in acls), "the ACLs' removal"
    )


@contextmanager
def granted(cluster: Cluster, *acls: Acl) -> Iterator[None]:
    """Let users do what *acls* say until the end of the block."""
    grant(cluster, *acls)
    try:
        yield
    finally:
        revoke(cluster, *acls)


def _hold(node: Conversation, acls: Any) -> bool:
    return all(_holds(node, acl) for acl in acls)


def _holds(node: Conversation, acl: Acl) -> bool:
    from kafka.protocol.admin import DescribeAclsRequest, DescribeAclsResponse

    request = DescribeAclsRequest(**_filter(acl))
    answer = node.ask(request, DescribeAclsResponse)
    _check("read the ACLs", answer)
    return any(resource.acls for resource in answer.resources)


def _filter(acl: Acl) -> dict[str, Any]:
    """What requests that look for *acl* say of it."""
    return {
        "resource_type_filter": int(acl.resource),
        "resource_name_filter": acl.name,
        "pattern_type_filter": LITERAL,
        "principal_filter": acl.principal,
        "host_filter": ANY_HOST,
        "operation": int(acl.operation),
        "permission_type": ALLOW,
    }


def _wait_everywhere(cluster: Cluster, holds: Any, what: str) -> None:
    brokers = [node.id for node in cluster.brokers if node.awake]
    cluster.wait_until(
        lambda: all(cluster.read(holds, via=broker) for broker in brokers),
        f"{what} to be known to brokers {', '.join(map(str, brokers))}",
    )


def _check(what: str, result: Any) -> None:
    if result.error_code != NO_ERROR:
        raise LabError(f"The lab could not {what}: {result.error_message or result.error_code}")
