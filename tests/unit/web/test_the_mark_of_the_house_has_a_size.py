"""The mark of the house has a size of its own: where styles do not come it is no larger than its words."""

import re

from config.settings import BASE_DIR

TEMPLATES = BASE_DIR / "templates"


def test_the_mark_of_the_house_is_small_without_styles() -> None:
    """Without its file of styles the logo was as wide as the window, and what was the matter stood below."""
    marks = [
        one
        for page in TEMPLATES.rglob("*.html")
        for one in re.findall(r"<svg[^>]*tally[^>]*>", page.read_text())
    ]
    assert len(marks) == 5
    assert [one for one in marks if 'width="26" height="20"' not in one] == []
