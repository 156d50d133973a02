"""This room names the addresses of the pages about brokers, topics and partitions."""

from django.urls import path

from controller import (
    ask_page,
    broker_page,
    history_page,
    loss_page,
    moves_page,
    plan_page,
    quota_page,
    topic_page,
    views,
)

urlpatterns = [
    path("cluster/", views.cluster, name="cluster"),
    path("topics/", topic_page.topic_list, name="topics"),
    path("topics/<str:name>/", topic_page.topic, name="topic"),
    path("topics/<str:name>/<int:number>/", history_page.partition, name="partition"),
    path("brokers/", broker_page.broker_list, name="brokers"),
    path("brokers/<int:broker_id>/", broker_page.broker, name="broker"),
    path("losses/", loss_page.loss_list, name="losses"),
    path("quotas/", quota_page.quota_list, name="quotas"),
    path("reassignments/", moves_page.reassignments, name="reassignments"),
    path("cluster/ask/<slug:kind>/", ask_page.ask, name="ask-cluster"),
    path("cluster/ask/<slug:kind>/topic/<str:name>/", ask_page.ask, name="ask-topic"),
    path("cluster/ask/<slug:kind>/partition/<str:name>/<int:number>/", ask_page.ask, name="ask-partition"),
    path("cluster/ask/<slug:kind>/broker/<int:broker_id>/", ask_page.ask, name="ask-broker"),
    path("cluster/ask/<slug:kind>/plan/<uuid:plan_id>/", ask_page.ask, name="ask-plan"),
    path("cluster/ask/<slug:kind>/quota/<int:quota_id>/", ask_page.ask, name="ask-quota"),
    path("cluster/ask/<slug:kind>/loss/<int:loss_id>/", ask_page.ask, name="ask-loss"),
    path("plans/", plan_page.plan_list, name="plans"),
    path("plans/<uuid:plan_id>/", plan_page.plan, name="plan"),
    path("cluster/ask/<slug:kind>/move/<uuid:move_id>/", ask_page.ask, name="ask-move"),
    path("cluster/requests/", ask_page.listed, name="cluster-requests"),
    path("cluster/requests/<uuid:request_id>/", ask_page.told, name="cluster-request"),
]
