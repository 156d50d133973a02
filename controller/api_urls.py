"""This room names the REST addresses of brokers, topics, partitions, configs, quotas, moves and requests."""

from access.rest.addresses import both
from controller import (
    api,
    brokers_api,
    conditions_api,
    configs_api,
    history_api,
    losses_api,
    plans_api,
    processes_api,
    quotas_api,
    reassignments_api,
    requests_api,
    topics_api,
)

urlpatterns = [
    *both("brokers", api.BrokerList.as_view(), "api-brokers"),
    *both("brokers/<int:broker_id>", brokers_api.OneBroker.as_view(), "api-broker"),
    *both("brokers/<int:broker_id>/configs", configs_api.BrokerConfigs.as_view(), "api-broker-configs"),
    *both(
        "brokers/<int:broker_id>/condition",
        conditions_api.BrokerConditionDetail.as_view(),
        "api-broker-condition",
    ),
    *both("logs", conditions_api.LogList.as_view(), "api-logs"),
    *both("processes", processes_api.ProcessList.as_view(), "api-processes"),
    *both("losses", losses_api.Losses.as_view(), "api-losses"),
    *both("cluster/configs", configs_api.ClusterConfigs.as_view(), "api-cluster-configs"),
    *both("quotas", quotas_api.Quotas.as_view(), "api-quotas"),
    *both("topics", topics_api.Topics.as_view(), "api-topics"),
    *both("topics/<str:topic>", topics_api.OneTopic.as_view(), "api-topic"),
    *both("topics/<str:topic>/partitions", topics_api.TopicPartitions.as_view(), "api-topic-partitions"),
    *both(
        "topics/<str:topic>/partitions/removal",
        topics_api.RemovedPartitions.as_view(),
        "api-topic-removal",
    ),
    *both("topics/<str:topic>/history", history_api.TopicHistory.as_view(), "api-topic-history"),
    *both("topics/<str:topic>/configs", configs_api.TopicConfigs.as_view(), "api-topic-configs"),
    *both("partitions", brokers_api.Partitions.as_view(), "api-partitions"),
    *both("partitions/<str:topic>/<int:partition>", api.PartitionDetail.as_view(), "api-partition"),
    *both(
        "partitions/<str:topic>/<int:partition>/history",
        history_api.PartitionHistory.as_view(),
        "api-partition-history",
    ),
    *both("reassignments", reassignments_api.Reassignments.as_view(), "api-reassignments"),
    *both("reassignments/<uuid:move_id>", reassignments_api.OneReassignment.as_view(), "api-reassignment"),
    *both("plans", plans_api.Plans.as_view(), "api-plans"),
    *both("plans/<uuid:plan_id>", plans_api.OnePlan.as_view(), "api-plan"),
    *both("plans/<uuid:plan_id>/steps", plans_api.PlanSteps.as_view(), "api-plan-steps"),
    *both("controller/requests", requests_api.ControllerRequestList.as_view(), "api-controller-requests"),
    *both(
        "controller/requests/<uuid:request_id>",
        requests_api.ControllerRequestDetail.as_view(),
        "api-controller-request",
    ),
]
