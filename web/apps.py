"""This room registers the app `web`: the process that serves pages, REST and live updates."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Pages"
