"""Every command, variable, port, path and secret in docker/ exists in the product."""

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from broker.settings import from_environment
from standalone.ports import Ports
from standalone.processes import children
from tests.tidy.sources import ROOT, modules

DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "muster:latest"}
IMAGE_LINES = (DOCKER / "Dockerfile").read_text(encoding="utf-8").splitlines()


def _settings(service: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in (service.get("environment") or {}).items()}


def _words_of_the_product() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in modules())


def _probed_urls(service: dict[str, Any]) -> list[str]:
    words = service.get("healthcheck", {}).get("test", [])
    return [word for word in words if word.startswith("http://")]


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_is_one_of_the_product(name: str) -> None:
    program, *arguments = OURS[name].get("command", ["python", "manage.py", "run_web"])
    match [program, *arguments]:
        case ["python", "manage.py", command]:
            assert command in get_commands()
        case ["python", "-m", module]:
            assert find_spec(f"{module}.__main__") is not None
        case ["celery", "-A", application, "worker", *_]:
            assert find_spec(f"{application}.celery") is not None
        case ["sh", script, *_]:
            assert (ROOT / script).exists() and _manage_commands(script) <= set(get_commands())
        case _:
            assert program == "sleep"


def _manage_commands(script: str) -> set[str]:
    text = (ROOT / script).read_text(encoding="utf-8")
    return set(re.findall(r"manage\.py (\w+)", text))


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_is_read_by_the_product(name: str) -> None:
    known = _words_of_the_product()
    unknown = [
        variable
        for variable in _settings(OURS[name])
        if f'"{variable}"' not in known and f'"{variable.removesuffix("_FILE")}"' not in known
    ]
    assert unknown == []


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_probe_asks_a_door_that_the_service_opens(name: str) -> None:
    listened = {value for variable, value in _settings(OURS[name]).items() if variable.endswith("_LISTEN")}
    ports = {address.rpartition(":")[2] for address in listened}
    for url in _probed_urls(OURS[name]):
        port, path = url.removeprefix("http://127.0.0.1:").split("/")
        assert port in ports
        assert path in _words_of_the_product()


def test_every_secret_is_mounted_where_it_is_read() -> None:
    for name, service in OURS.items():
        mounted = set(service.get("secrets", []))
        for variable, value in _settings(service).items():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in mounted, f"{name}: {variable}"
        assert mounted <= set(COMPOSE["secrets"])
    made = set(
        re.findall(r"^write (\w+)", (DOCKER / "make-secrets").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert made == set(COMPOSE["secrets"])


def test_every_volume_is_declared_and_lies_in_a_folder_of_the_image() -> None:
    created = {word for line in IMAGE_LINES if "install -d" in line for word in shlex.split(line)}
    for service in OURS.values():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            assert source in COMPOSE["volumes"]
            assert target in created


def test_brokers_keep_their_log_on_a_volume_and_their_secret_where_preparation_puts_it() -> None:
    prepared = (DOCKER / "prepare").read_text(encoding="utf-8")
    brokers = {name: service for name, service in OURS.items() if name.startswith("broker-")}
    assert [_settings(service)["MUSTER_BROKER_ID"] for service in brokers.values()] == ["1", "2", "3"]
    for name, service in brokers.items():
        settings = _settings(service)
        assert f"{name}:{settings['MUSTER_BROKER_DATA']}" in service["volumes"]
        folder, _, file = settings["MUSTER_BROKER_SECRET_FILE"].rpartition("/")
        assert file == name and f"{folder}/broker-" in prepared
        assert settings["MUSTER_BROKER_ID"] in OURS["prepare"]["command"]


def test_brokers_name_every_node_at_the_address_it_listens_on() -> None:
    nodes = {name: _settings(service) for name, service in OURS.items() if name.startswith("node-")}
    for settings in nodes.values():
        assert settings["MUSTER_NODE_ADDRESS"] == f"ws://{settings['MUSTER_NODE_LISTEN']}"
    addresses = {settings["MUSTER_NODE_ADDRESS"] for settings in nodes.values()}
    for name, service in OURS.items():
        if "MUSTER_NODES" in _settings(service):
            assert set(_settings(service)["MUSTER_NODES"].split(",")) == addresses, name


def test_a_broker_accepts_its_settings(tmp_path: Path) -> None:
    """They share one loopback, because a broker sends its secret nowhere else without TLS."""
    (tmp_path / "secret").write_text("a secret", encoding="utf-8")
    listened = []
    for name, service in OURS.items():
        if name.startswith("broker-"):
            given = _settings(service) | {"MUSTER_BROKER_SECRET_FILE": str(tmp_path / "secret")}
            told = from_environment(given)
            listened += [told.listen, told.replication_listen, told.http_listen]
            assert service["network_mode"] == OURS["node-1"]["network_mode"] == "service:loopback"
    assert len(set(listened)) == len(listened) == 9


def test_secrets_are_made_once_and_behind_a_closed_door(tmp_path: Path) -> None:
    """The files themselves are readable: each container has a user of its own."""
    (tmp_path / "make-secrets").write_bytes((DOCKER / "make-secrets").read_bytes())
    made = []
    for _ in range(2):
        subprocess.run(["sh", str(tmp_path / "make-secrets")], check=True, capture_output=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert made[0] == made[1] and made[0].keys() == COMPOSE["secrets"].keys()
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert made[0]["postgres_password"] in made[0]["database_url"]
    assert made[0]["redis_password"] in made[0]["redis_url"]


def test_a_password_that_was_lost_is_found_in_its_address_again(tmp_path: Path) -> None:
    """PostgreSQL keeps the one with which its volume was made: another would let nobody in."""
    (tmp_path / "make-secrets").write_bytes((DOCKER / "make-secrets").read_bytes())
    folder = tmp_path / "secrets"
    made = []
    for _ in range(2):
        subprocess.run(["sh", str(tmp_path / "make-secrets")], check=True, capture_output=True)
        made.append({path.name: path.read_text() for path in folder.iterdir()})
        (folder / "postgres_password").unlink()
        (folder / "redis_password").chmod(0o600)
        (folder / "redis_password").write_text("")
    assert made[0] == made[1]


def test_no_secret_becomes_an_argument_of_a_process() -> None:
    """A shell writes it to a file before it becomes the program."""
    for name, service in SERVICES.items():
        for word in service.get("command", []):
            program = word.partition("exec ")[2] or (word if word.startswith("$") else "")
            assert "$(" not in program and "/run/secrets" not in program, name


def test_every_container_ends_in_time_and_keeps_few_logs() -> None:
    for name, service in SERVICES.items():
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name
    assert all(service["stop_grace_period"] and service["init"] for service in OURS.values())
    assert SERVICES["postgres"]["stop_grace_period"]


def test_no_container_gains_privileges() -> None:
    for name, service in SERVICES.items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name, service in (OURS | {"redis": SERVICES["redis"]}).items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name


def test_brokers_start_whichever_node_is_away() -> None:
    nodes = {name for name in OURS if name.startswith("node-")}
    for name, service in OURS.items():
        if name.startswith("broker-"):
            assert not nodes & set(service["depends_on"]), name


def test_whoever_asks_brokers_is_where_they_listen() -> None:
    """Their Kafka listeners are on loopback: nodes lead their links, workers ask where logs end."""
    place = SERVICES["broker-1"]["network_mode"]
    for name, service in OURS.items():
        if name.startswith(("broker-", "node-", "worker")):
            assert (
                service["network_mode"] == place and place.removeprefix("service:") in service["depends_on"]
            )


def test_workers_are_run_as_a_stack_runs_them() -> None:
    ports = Ports(web=1, nodes=(), brokers=())
    ours = next(child for child in children(Path("/home"), ports, 1) if child.role == "worker").command
    assert {word for word in ours if word.startswith("--without")} == {
        word for word in SERVICES["worker"]["command"] if word.startswith("--without")
    }


def test_the_proxy_lets_through_what_web_takes() -> None:
    from django.conf import settings

    said = re.search(r"max_size (\d+)MiB", (DOCKER / "Caddyfile").read_text(encoding="utf-8"))
    assert said is not None and int(said[1]) * 2**20 == settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def test_postgres_is_healthy_only_for_those_who_come_by_tcp() -> None:
    assert "--host 127.0.0.1" in SERVICES["postgres"]["healthcheck"]["test"][1]


def test_the_proxy_leads_to_the_web_process() -> None:
    upstream = re.search(r"reverse_proxy (\S+):(\d+)", (DOCKER / "Caddyfile").read_text(encoding="utf-8"))
    assert upstream is not None
    listening = _settings(SERVICES[upstream.group(1)])["MUSTER_WEB_LISTEN"]
    assert listening.rpartition(":")[2] == upstream.group(2)


def _copied() -> list[str]:
    lines = (line.split() for line in IMAGE_LINES if line.startswith("COPY") and "--from" not in line)
    return [source for line in lines for source in line[1:-1]]


def test_the_image_holds_whatever_its_programs_import() -> None:
    rooms = {source for source in _copied() if (ROOT / source).is_dir()}
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    imported: set[str] = set()
    for path in modules():
        if path.relative_to(ROOT).parts[0] in rooms:
            imported |= set(
                re.findall(r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
            )
    assert imported & ours <= rooms


def test_everything_that_the_image_copies_is_there() -> None:
    missing = [source for source in _copied() if not (ROOT / source).exists()]
    assert missing == []
    rooms = {source for source in _copied() if (ROOT / source).is_dir()}
    from django.conf import settings

    assert {app for app in settings.INSTALLED_APPS if (ROOT / app).is_dir()} <= rooms


def test_compose_itself_accepts_the_file() -> None:
    if not shutil.which("docker"):
        pytest.skip("docker is not installed")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose command here")
    command = ["docker", "compose", "-f", str(DOCKER / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
