"""`docs/settings.md` says what the declarations say, and nothing is declared that nobody reads."""

import re

from config.settings_page import page
from muster.kernel.settings import DECLARED
from tests.tidy.sources import ROOT, modules, tracked_files


def test_the_page_is_what_make_docs_writes() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == page()


def test_every_setting_is_read_somewhere() -> None:
    own = ROOT / "muster" / "kernel" / "settings.py"
    texts = [path.read_text(encoding="utf-8") for path in modules() if path != own]
    texts += [path.read_text(encoding="utf-8") for path in tracked_files() if path.name == "compose.yaml"]
    words = set(re.findall(r"[A-Z_]{4,}", "\n".join(texts)))
    fields = set(re.findall(r"[a-z_]{6,}", "\n".join(texts)))

    def is_read(name: str) -> bool:
        # Some rooms make the names of their fields' variables.
        bare = re.sub("^MUSTER_(CONSUMER_DOOR_|BROKER_|REPLICA_)?", "", name)
        made = {name.removeprefix("MUSTER_").lower(), bare.lower(), name.lower()}
        return name in words or bool(made & fields)

    assert [setting.name for setting in DECLARED if not is_read(setting.name)] == []
