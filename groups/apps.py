"""This room tells Django that the nouns of consumer groups are an app."""

from django.apps import AppConfig


class GroupsConfig(AppConfig):
    """Rows, queries, pages and REST of consumer groups; the verbs are in `coordinator`."""

    name = "groups"
    verbose_name = "Consumer groups"
    default_auto_field = "django.db.models.BigAutoField"
