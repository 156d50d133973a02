"""This room names the REST addresses of groups and offsets."""

from access.any_name import ANY_NAME
from access.rest.addresses import both
from groups import api, members_api, rebalances_api, requests_api

_GROUP = f"<{ANY_NAME}:group>"

urlpatterns = [
    *both("groups", api.GroupList.as_view(), "api-groups"),
    *both(f"groups/{_GROUP}", api.GroupDetail.as_view(), "api-group"),
    *both("offsets", api.OffsetList.as_view(), "api-offsets"),
    *both(f"offsets/{_GROUP}/<str:topic>/<int:partition>", api.OffsetDetail.as_view(), "api-offset"),
    *both(f"members/{_GROUP}", members_api.MemberList.as_view(), "api-members"),
    *both(f"requests/{_GROUP}", requests_api.RequestList.as_view(), "api-requests"),
    *both("request/<uuid:request_id>", requests_api.RequestDetail.as_view(), "api-request"),
    *both(f"rebalances/{_GROUP}", rebalances_api.RebalanceList.as_view(), "api-rebalances"),
]
