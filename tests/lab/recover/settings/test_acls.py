"""R22: what docs/acls.md says that `recover forget-leader` and `after internal-topics` need.

b4 led `carts` and `left` last and is back EMPTY; b3 led the partitions of `__transaction_state`
last and is dead.
"""

from pathlib import Path
from typing import Any

import pytest

from breakglass.services.kafka.cluster.settings import MIN_ISR
from breakglass.services.lab.properties import OPERATOR, SMALL
from breakglass.services.lab.scenarios.behind import HELD_OFF
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, B4_EMPTY, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Script,
    Shape,
    Stage,
)
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from tests.kit.access import Acl, Operation, Resource
from tests.kit.acl_page import acls_of, all_but, allowed
from tests.kit.client_properties import write_client_properties
from tests.lab.asking import transactional
from tests.lab.recover.settings.asking import own
from tests.lab.scenarios.damaged import Damaged, lab_after

TRANSACTIONS = "__transaction_state"
PARTITIONS = int(SMALL["transaction.state.log.num.partitions"])


def _script(stage: Stage) -> Script:
    partitions = [*stage.create("carts", [(4, 1, 2)]), *stage.create("left", [(4, 1, 2)])]
    stage.create(TRANSACTIONS, [(3, 1)] * PARTITIONS)
    # Every coordinator writes down a transactional id.
    for number in range(4 * PARTITIONS):
        transactional(stage.cluster, f"writer-{number}")
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    yield LAST_LOST
    yield B4_EMPTY
    return list[Expectation]()


BROKEN = Scenario(
    "for-acls", __doc__ or "", _script, course=COURSE, shape=Shape(brokers=4, overrides=HELD_OFF)
)


lab = lab_after(beside=[BROKEN], secured=True)


@pytest.fixture(scope="module")
def config(lab: Damaged) -> Path:
    return write_client_properties(lab.cluster.layout, OPERATOR)


def but(acls: list[Acl], operation: Operation, resource: Resource) -> list[Acl]:
    """*acls* without one."""
    (gone,) = [acl for acl in acls if (acl.operation, acl.resource) == (operation, resource)]
    return all_but(acls, gone)


def forget(topic: str) -> tuple[object, ...]:
    return ("recover", "forget-leader", "--topic", topic, "--recovery-duration-ms", 5000, "--write")


def agreed(topic: str) -> tuple[object, ...]:
    return (*forget(topic), "--consent", f"{topic} forgets b4")


def remembers(lab: Damaged, topic: str) -> bool:
    """Whether the controller knows whom it elects next."""
    state = lab.state(TopicPartition(topic, 0))
    return bool(state.elr or state.last_known_elr)


def test_r22_leaders_are_forgotten_by_who_has_just_what_the_page_says(
    lab: Damaged, config: Path
) -> None:
    ended = allowed(
        lab.cluster, config, acls_of("recover forget-leader", "carts"), *agreed("carts")
    )
    assert ended.code == 0, ended.err
    assert "ACL" not in ended.err
    assert not remembers(lab, "carts")
    assert own(lab.cluster, MIN_ISR, "carts") is None


@pytest.mark.parametrize(
    ("operation", "resource", "named", "consent"),
    [
        (Operation.ALTER_CONFIGS, Resource.TOPIC, "ALTER_CONFIGS on topic left", True),
        (Operation.READ, Resource.TOPIC, "READ on topic left", False),
        (Operation.DESCRIBE, Resource.CLUSTER, "DESCRIBE on CLUSTER", False),
    ],
)
def test_r22_with_less_the_acl_is_named_before_it_is_agreed_to_or_it_fails(
    lab: Damaged, config: Path, operation: Operation, resource: Resource, named: str, consent: bool
) -> None:
    acls = but(acls_of("recover forget-leader", "left"), operation, resource)
    ended = allowed(lab.cluster, config, acls, *(agreed("left") if consent else forget("left")))
    assert ended.code != 0
    assert named in ended.err
    assert remembers(lab, "left")
    assert own(lab.cluster, MIN_ISR, "left") is None


INTERNAL = ("after", "internal-topics", "--json", "--gone", 3, "--recovery-duration-ms", 5000)


def test_r22_internal_topics_are_compared_by_who_has_just_what_the_page_says(
    lab: Damaged, config: Path
) -> None:
    ended = allowed(lab.cluster, config, acls_of("after internal-topics", TRANSACTIONS), *INTERNAL)
    assert ended.code == 0, ended.err
    found: list[dict[str, Any]] = ended.document["partitions"]
    assert [one["partition"] for one in found] == list(range(PARTITIONS))
    assert "ACL" not in ended.err
    assert "not allowed" not in ended.err


@pytest.mark.parametrize(
    ("operation", "resource", "named"),
    [
        (Operation.READ, Resource.TOPIC, f"READ on topic {TRANSACTIONS}"),
        (Operation.DESCRIBE_CONFIGS, Resource.TOPIC, f"DESCRIBE_CONFIGS on topic {TRANSACTIONS}"),
        (Operation.DESCRIBE, Resource.CLUSTER, "DESCRIBE on CLUSTER"),
    ],
)
def test_r22_with_less_internal_topics_name_what_is_missing(
    lab: Damaged, config: Path, operation: Operation, resource: Resource, named: str
) -> None:
    acls = but(acls_of("after internal-topics", TRANSACTIONS), operation, resource)
    ended = allowed(lab.cluster, config, acls, *INTERNAL)
    assert f"missing ACL: {named}" in ended.said
