"""This room has web ask first the server of its database that it met last, of several in DATABASE_URL."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper


def prefer(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Put the server of this connection, which was just made, before the others (`connection_created`).

    libpq tries them in their order, each for as long as a connection may take: where the first is a machine
    that is gone, each new connection of a page would wait for that. Not a standby: where nothing in
    DATABASE_URL keeps web from one, it would stay there when the primary is back, and write nothing.
    Nor where `hostaddr` says in the same order where each is.
    """
    place: dict[str, Any] = connection.settings_dict
    options = place["OPTIONS"]
    hosts = str(options.get("host") or place["HOST"]).split(",")
    ports = str(options.get("port") or place["PORT"]).split(",")
    met = connection.connection.info
    if len(hosts) < 2 or options.get("hostaddr") or met.parameter_status("in_hot_standby") == "on":
        return
    pairs = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    first = next((one for one in pairs if one[0] == met.host and one[1] in ("", str(met.port))), pairs[0])
    pairs.remove(first)
    host, port = (",".join(words) for words in zip(first, *pairs, strict=True))
    # In one piece: another thread may be about to connect.
    place["OPTIONS"] = {**options, "host": host, "port": port}
    place["HOST"] = place["PORT"] = ""
