"""This room signs a viewer in for tests of pages."""

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user


@pytest.fixture
def viewer(db: None, client: Client) -> Client:
    """A browser with the session of a viewer."""
    client.force_login(create_user("mira", Role.VIEWER, None))
    return client
