"""What is committed names no machine it was made on: no paths of a home, no addresses of package mirrors."""

import re

from tests.tidy.sources import shown, tracked_files

TEXT = {
    ".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".html", ".css", ".js", ".sh", ".xml", ".sql", ".conf",
    ".json", "",
}  # fmt: skip
# Pieced together, so that this file does not find itself.
MACHINE = re.compile(
    "|".join(
        [
            r"(?<![\w.-])/" + r"(?:work|root|home)/[\w.-]+",
            r"(?<![\w.-])/" + r"tmp/[\w.-]*muster[\w.-]*/",
            r"--(?:extra-)?index-url",
            r"pypi" + r"\.org|files\." + r"pythonhosted|repo1?\." + r"maven",
            r"artifact" + r"ory|nexus[./]",
        ]
    ),
    re.IGNORECASE,
)


def test_no_file_names_a_home_or_a_package_mirror() -> None:
    found = []
    for path in tracked_files():
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if (match := MACHINE.search(line)) and "no-emit-index-url" not in line:
                found.append(f"{shown(path)}:{number} {match.group()}")
    assert found == []


def test_nothing_that_was_fetched_is_committed() -> None:
    fetched = {".jar", ".whl", ".gz", ".zip", ".class", ".pyc"}
    assert [shown(path) for path in tracked_files() if path.suffix in fetched] == []
