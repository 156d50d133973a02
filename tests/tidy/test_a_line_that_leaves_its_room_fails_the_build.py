"""Law 5 holds inside the apps, too: wrongs are planted into the graph of imports, and the build sees each."""

from copy import deepcopy
from typing import Any

import pytest
from grimp import ImportGraph
from importlinter.application import use_cases
from importlinter.configuration import configure
from importlinter.domain.contract import registry

from tests.tidy.sources import ROOT

# A module without a room, or an import that points the wrong way, and the contract that says no.
HOMELESS = {"coordinator.odds": "coordinator-rooms", "runtime.things": "runtime-rooms"}
WRONG_WAYS = [
    ("coordinator.store", "coordinator.service", "coordinator-rooms"),
    ("controller.core.election", "controller.core.turn", "cluster-core-rooms"),
    ("groups.models", "groups.views", "groups-rooms"),
    ("runtime.ports", "runtime.leases", "runtime-rooms"),
    ("controller.api", "controller.store", "controller-writer"),
    ("broker.folder", "broker.process", "circles"),
]


@pytest.fixture(scope="module")
def options() -> Any:
    """The contracts as the build reads them."""
    configure()
    read = use_cases.read_user_options(str(ROOT / "pyproject.toml"))
    # The linter has no public door for a graph of one's own.
    use_cases._register_contract_types(read)
    return read


@pytest.fixture(scope="module")
def graph(options: Any) -> ImportGraph:
    """Who imports whom, as the build sees it; read once."""
    session = options.session_options
    return use_cases._build_graph(
        root_package_names=session["root_packages"],
        include_external_packages=True,
        exclude_type_checking_imports=True,
        verbose=False,
        cache_dir=None,
    )


def _is_kept(options: Any, graph: ImportGraph, contract_id: str) -> bool:
    (told,) = [one for one in options.contracts_options if one["id"] == contract_id]
    kind = registry.get_contract_class(told["type"])
    contract = kind(name=told["name"], session_options=options.session_options, contract_options=told)
    return bool(contract.check(deepcopy(graph), verbose=False).kept)


@pytest.mark.parametrize(("module", "contract"), HOMELESS.items())
def test_a_module_without_a_room_is_seen(
    options: Any, graph: ImportGraph, module: str, contract: str
) -> None:
    assert _is_kept(options, graph, contract)
    planted = deepcopy(graph)
    planted.add_module(module)
    assert not _is_kept(options, planted, contract)


@pytest.mark.parametrize(("importer", "imported", "contract"), WRONG_WAYS)
def test_an_import_that_points_the_wrong_way_is_seen(
    options: Any, graph: ImportGraph, importer: str, imported: str, contract: str
) -> None:
    assert {importer, imported} <= graph.modules
    assert _is_kept(options, graph, contract)
    planted = deepcopy(graph)
    planted.add_import(importer=importer, imported=imported, line_number=1, line_contents="import")
    assert not _is_kept(options, planted, contract)


def test_every_package_of_the_product_has_rooms(options: Any, graph: ImportGraph) -> None:
    """Whoever adds a module must say where it stands: the contract of its package names every one."""
    exhaustive = {
        container
        for told in options.contracts_options
        if told["type"] == "layers" and str(told.get("exhaustive")).lower() == "true"
        for container in told["containers"]
    }
    apps = {"access", "broker", "controller", "coordinator", "groups", "node", "runtime", "standalone", "web"}
    assert apps <= exhaustive
