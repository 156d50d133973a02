"""This room holds what the settings say about REST; it imports nothing, so that they can import it."""

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["access.rest.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["access.rest.permissions.MayView"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["access.rest.bodies.JsonBody"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    # OPTIONS is refused like every other method that does not read.
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_THROTTLE_CLASSES": ["access.rest.throttling.TokenThrottle"],
    "EXCEPTION_HANDLER": "access.rest.problems.answer",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "access.rest.negotiation.AlwaysJson",
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Muster",
    "DESCRIPTION": "Groups, topics, brokers, partitions, offsets of a cluster. Every request needs a token.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["access.rest.permissions.MayView"],
    "SERVE_AUTHENTICATION": ["access.rest.authentication.TokenAuthentication"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["access.rest.schema.add_what_all_share"],
    "PREPROCESSING_HOOKS": ["access.rest.addresses.without_aliases"],
    "PATH_CONVERTER_OVERRIDES": {"name": str},
    "COMPONENT_SPLIT_REQUEST": True,
    # A PATCH here is a change that says why, not part of a row: what is needed is needed.
    "COMPONENT_SPLIT_PATCH": False,
    "SERVERS": [{"url": "/", "description": "The web process that serves this document."}],
}
