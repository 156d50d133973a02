"""This room adds to every operation of the OpenAPI document what all doors share: the refusals."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers


class KafkaErrorShape(serializers.Serializer[Any]):
    code = serializers.IntegerField()
    name = serializers.CharField()
    retriable = serializers.BooleanField()


class ProblemShape(serializers.Serializer[Any]):
    """A problem document (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    kafka_error = KafkaErrorShape(required=False)


class MusterSchema(AutoSchema):
    """AutoSchema with the refusals that every operation can answer."""

    def get_response_serializers(self) -> Any:
        said = super().get_response_serializers()
        responses: dict[Any, Any] = dict(said) if isinstance(said, dict) else {200: said}
        for status in ("400", "401", "403", "404", "429", "503"):
            responses.setdefault(
                (int(status), "application/problem+json"),
                OpenApiResponse(ProblemShape, description="Refused"),
            )
        return responses
