"""Sets or takes away one setting of a lab's brokers, topics or groups."""

from enum import IntEnum

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster

SET, DELETE = 0, 1


class ConfigResource(IntEnum):
    """What has a setting (org.apache.kafka.common.config.ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def set_config(
    cluster: Cluster, kind: ConfigResource, name: str, setting: str, value: str | None
) -> None:
    """Set it, or take it away where *value* is None; a broker without a name stands for all.

    Raises:
        LabError: the controller refused it.
    """
    from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    operation = SET if value is not None else DELETE
    change = resource.AlterableConfig(name=setting, config_operation=operation, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=[change])]
    )
    (answer,) = cluster.command(request, IncrementalAlterConfigsResponse).responses
    if answer.error_code:
        raise LabError(f"The lab could not set {setting}: {answer.error_message}")
