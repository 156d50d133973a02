"""This room makes passwords cheap to hash: what is tested is the door, not PBKDF2."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def cheap_passwords(settings: Any) -> None:
    """MD5 instead of a million rounds."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
