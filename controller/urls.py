"""This room names the address of the page about brokers, topics and partitions."""

from django.urls import path

from controller import views

urlpatterns = [path("cluster/", views.cluster, name="cluster")]
