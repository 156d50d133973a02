"""This room keeps sessions in the database, whose clock says when they end: those of hosts may differ."""

from datetime import datetime
from typing import Any

from django.contrib.sessions.backends import db
from django.db.models.functions import Now

from runtime import database_clock


class SessionStore(db.SessionStore):
    """Django's, whose rows end by the clock of the host that reads them."""

    @classmethod
    def clear_expired(cls) -> None:
        """Remove what ended, whichever host began it."""
        cls.get_model_class().objects.filter(expire_date__lt=Now()).delete()

    def get_expiry_date(self, **kwargs: Any) -> datetime:
        """When the row ends, counted from now on unless a `modification` is told."""
        return super().get_expiry_date(**{"modification": database_clock.now(), **kwargs})

    def load(self) -> dict[str, Any]:
        """What the session holds; nothing, and no session, if its row ended."""
        found = self.model.objects.filter(session_key=self.session_key, expire_date__gt=Now()).first()
        if found is None:
            self._session_key = None
            return {}
        kept: dict[str, Any] = self.decode(found.session_data)
        return kept
