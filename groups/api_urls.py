"""This room names the REST addresses of groups and offsets."""

from access.rest.addresses import both
from groups import api, members_api, rebalances_api, requests_api

urlpatterns = [
    *both("groups", api.GroupList.as_view(), "api-groups"),
    *both("groups/<path:group>", api.GroupDetail.as_view(), "api-group"),
    *both("offsets", api.OffsetList.as_view(), "api-offsets"),
    *both("offsets/<path:group>/<str:topic>/<int:partition>", api.OffsetDetail.as_view(), "api-offset"),
    *both("members/<path:group>", members_api.MemberList.as_view(), "api-members"),
    *both("requests/<path:group>", requests_api.RequestList.as_view(), "api-requests"),
    *both("request/<uuid:request_id>", requests_api.RequestDetail.as_view(), "api-request"),
    *both("rebalances/<path:group>", rebalances_api.RebalanceList.as_view(), "api-rebalances"),
]
