"""Which requests each of our clients may send: the list is the power it has."""

from __future__ import annotations

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
SASL_HANDSHAKE = 17
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
TXN_OFFSET_COMMIT = 28
DESCRIBE_CONFIGS = 32
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_QUORUM = 55
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
DESCRIBE_TOPIC_PARTITIONS = 75

READ = frozenset(
    {
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        DESCRIBE_CONFIGS,
        DESCRIBE_LOG_DIRS,
        LIST_PARTITION_REASSIGNMENTS,
        DESCRIBE_QUORUM,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""Requests that change nothing on a broker. Nothing else leaves a read-only process."""

ELECT = frozenset({ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS})
"""What an election sends besides reads."""

GROUPS = frozenset({OFFSET_COMMIT, OFFSET_DELETE})
"""What putting a group's offsets elsewhere sends besides reads."""

TOPICS = frozenset({CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, OFFSET_COMMIT, DELETE_GROUPS})
"""What a restore sends besides reads and records."""

COMMAND_TOPIC = frozenset({CREATE_TOPICS, DELETE_TOPICS})
"""What putting a command topic in another's place sends besides reads and records."""

CHECKPOINTS = frozenset({PRODUCE, CREATE_TOPICS})
"""What taking a checkpoint sends besides reads: markers, and the topic that ids are kept in."""

RECORDS = frozenset(
    {
        PRODUCE,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
    }
)
"""What a task of a restore sends besides reads: records, in transactions."""

HOLDING = CHECKPOINTS | {INCREMENTAL_ALTER_CONFIGS}
"""What taking one sends besides that while it holds the retention of its topics back."""
