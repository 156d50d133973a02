"""This room names the REST addresses of brokers, topics and partitions."""

from access.rest.addresses import both
from controller import api

urlpatterns = [
    *both("brokers", api.BrokerList.as_view(), "api-brokers"),
    *both("brokers/<int:broker_id>", api.BrokerDetail.as_view(), "api-broker"),
    *both("topics", api.TopicList.as_view(), "api-topics"),
    *both("topics/<str:topic>", api.TopicDetail.as_view(), "api-topic"),
    *both("partitions", api.PartitionList.as_view(), "api-partitions"),
    *both("partitions/<str:topic>/<int:partition>", api.PartitionDetail.as_view(), "api-partition"),
    *both("reassignments", api.ReassignmentList.as_view(), "api-reassignments"),
]
