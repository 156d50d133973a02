"""An upgrade replaces templates below a web process that runs on: it shows its pages as they were."""

from pathlib import Path

from django.conf import settings
from django.template import Context, Engine
from django.template.loaders.cached import Loader

from config.template_files import read_all


def test_what_is_replaced_before_it_was_shown_is_shown_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "page.html").write_text("{% include 'parts/row.html' %}", encoding="utf-8")
    (folder / "row.html").write_text("old", encoding="utf-8")
    (folder / "broken.html").write_text("{% of_no_library %}", encoding="utf-8")
    engine = Engine(dirs=[str(tmp_path)])
    read_all(engine)
    (folder / "row.html").write_text("new", encoding="utf-8")
    (folder / "page.html").unlink()
    assert engine.get_template("parts/page.html").render(Context()) == "old"


def test_the_process_that_serves_pages_has_read_all_of_ours() -> None:
    from web import serve  # noqa: F401  who serves has it imported

    (loader,) = Engine.get_default().template_loaders
    assert isinstance(loader, Loader)
    ours = settings.BASE_DIR / "templates"
    names = {path.relative_to(ours).as_posix() for path in ours.rglob("*.html")}
    assert names and names <= set(loader.get_template_cache)
