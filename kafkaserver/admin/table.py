"""This room enters which handler answers what the controller is asked for, alike at every door."""

from collections.abc import Callable

from kafkaserver.acls import ACL_REQUESTS
from kafkaserver.admin.asking import Controller
from kafkaserver.admin.brokers import BrokerHandlers
from kafkaserver.admin.configs import ConfigHandlers, KnownConfigs
from kafkaserver.admin.elections import ElectionHandlers
from kafkaserver.admin.partitions import PartitionHandlers
from kafkaserver.admin.quotas import QuotaHandlers
from kafkaserver.admin.reassignments import ReassignmentHandlers
from kafkaserver.admin.topics import TopicHandlers, TopicNames
from kafkaserver.later import Later
from kafkaserver.replies import Handler
from muster.kafkawire.api_table import ApiKey
from muster.kernel.instants import Instant


def admin_handlers(
    controller: Controller,
    later: Later,
    clock: Callable[[], Instant],
    name_of: TopicNames,
    known_configs: KnownConfigs,
) -> dict[int, Handler]:
    """By key of request."""
    topics = TopicHandlers(controller, later, clock, name_of, known_configs)
    reassignments = ReassignmentHandlers(controller, later)
    quotas = QuotaHandlers(controller, later)
    brokers = BrokerHandlers(controller, later)
    return {
        ApiKey.CREATE_TOPICS: topics.create,
        ApiKey.DELETE_TOPICS: topics.delete,
        ApiKey.CREATE_PARTITIONS: PartitionHandlers(controller, later).create,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.list,
        ApiKey.ELECT_LEADERS: ElectionHandlers(controller, later).elect,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe,
        ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: quotas.describe_credentials,
        ApiKey.UPDATE_FEATURES: brokers.update_features,
        ApiKey.UNREGISTER_BROKER: brokers.unregister,
        **ConfigHandlers(controller, known_configs, later).handlers,
        **ACL_REQUESTS,
    }
