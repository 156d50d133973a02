"""The mark of the house has a size of its own: where styles do not come it is no larger than its words."""

from config.settings import BASE_DIR

TEMPLATES = BASE_DIR / "templates"
MARK = TEMPLATES / "parts" / "mark.html"


def test_the_mark_of_the_house_is_small_without_styles() -> None:
    """Without its file of styles the logo was as wide as the window, and what was the matter stood below."""
    assert '<svg class="tally" width="26" height="20"' in MARK.read_text()


def test_the_mark_of_the_house_is_drawn_once() -> None:
    assert [page for page in TEMPLATES.rglob("*.html") if "tally" in page.read_text()] == [MARK]
