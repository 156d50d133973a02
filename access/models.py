"""This room holds the tables of access: principals, tokens, one-time links, and who tried to come in."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from access.grants import Role

ROLE_CHOICES = [(role.value, role.value) for role in Role]

NAME_LENGTH = 150
"""Longest name of a person or a program, in characters: that of Django's users."""


class Principal(models.Model):
    """A person or a program that may come in; a person also has a Django user for the session."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="principal"
    )
    disabled = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A secret of a program: the prefix finds the row, the SHA-256 of 32 random bytes proves it."""

    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=NAME_LENGTH)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.BinaryField(max_length=32)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    topics = ArrayField(
        models.CharField(max_length=250),
        default=list,
        blank=True,
        help_text="Names, or beginnings with a * behind; none: every topic.",
    )
    groups = ArrayField(
        models.CharField(max_length=250),
        default=list,
        blank=True,
        help_text="Names, or beginnings with a * behind; none: every group.",
    )
    scram = models.JSONField(
        null=True, blank=True, help_text="By mechanism, what proves the token without showing it."
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name", "-created_at")
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(revoked_at__isnull=True),
                name="one_living_token_of_a_name",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"


class LoginLink(models.Model):
    """A link that signs in one person once within ten minutes; only its SHA-256 is stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link of {self.user}"


class AccessEvent(models.Model):
    """One line of the audit: who tried to come in, from where, and whether the door opened."""

    at = models.DateTimeField(db_default=Now(), editable=False)
    action = models.CharField(max_length=32)
    name = models.CharField(max_length=NAME_LENGTH)
    address = models.CharField(max_length=64, blank=True)
    allowed = models.BooleanField()
    detail = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = [
            models.Index(fields=["action", "-at"], name="access_event_action_at"),
            models.Index(fields=["-at", "-id"], name="access_event_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.name}"
