"""This room shows the rows of brokers, topics and partitions in Django's admin, read-only."""

from django.contrib import admin

from controller.models import (
    Arrival,
    Broker,
    BrokerConfig,
    ClientQuota,
    ElectionLoss,
    Partition,
    PartitionProgress,
    Topic,
)
from runtime.admin import ReadOnlyAdmin


@admin.register(Broker)
class BrokerAdmin(ReadOnlyAdmin):
    list_display = (
        "broker_id",
        "fenced",
        "rack",
        "endpoints",
        "broker_epoch",
        "metadata_version",
        "changed_at",
    )
    list_filter = ("fenced", "rack")
    search_fields = ("=broker_id", "rack")
    exclude = ("secret_hash",)


@admin.register(BrokerConfig)
class BrokerConfigAdmin(ReadOnlyAdmin):
    list_display = ("broker_id", "configs", "metadata_version", "changed_at")


@admin.register(Topic)
class TopicAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "topic_id",
        "partition_count",
        "replication_factor",
        "configs",
        "metadata_version",
        "created_at",
    )
    list_filter = ("replication_factor",)
    search_fields = ("name", "=topic_id")


@admin.register(Partition)
class PartitionAdmin(ReadOnlyAdmin):
    list_display = (
        "topic",
        "partition",
        "leader",
        "leader_epoch",
        "isr",
        "assigned",
        "version",
        "changed_at",
    )
    list_filter = ("leader",)
    list_select_related = ("topic",)
    search_fields = ("topic__name", "=partition")


@admin.register(PartitionProgress)
class PartitionProgressAdmin(ReadOnlyAdmin):
    list_display = ("partition", "high_watermark", "at")
    list_select_related = ("partition",)
    search_fields = ("partition__topic__name",)


@admin.register(Arrival)
class ArrivalAdmin(ReadOnlyAdmin):
    list_display = ("move", "broker_id", "held_bytes", "at")
    list_select_related = ("move",)
    search_fields = ("move__topic_name",)


@admin.register(ClientQuota)
class ClientQuotaAdmin(ReadOnlyAdmin):
    list_display = ("user_name", "client_id", "producer_byte_rate", "consumer_byte_rate", "changed_at")
    search_fields = ("user_name", "client_id")


@admin.register(ElectionLoss)
class ElectionLossAdmin(ReadOnlyAdmin):
    list_display = (
        "topic_name",
        "partition",
        "leader_epoch",
        "leader",
        "committed",
        "start_offset",
        "cuts",
        "acknowledged_by",
        "elected_at",
    )
    list_filter = ("closed",)
    search_fields = ("topic_name", "=partition")
