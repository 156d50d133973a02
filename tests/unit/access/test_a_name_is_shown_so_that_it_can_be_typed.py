"""A name that must be typed is shown whole, with what nobody sees written out; typed either way it counts."""

import pytest

from access.confirming import LONGEST_TYPED, is_confirmed, scripts_of, written_out


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", "orders"),
        ("w" * 249, "w" * 249),
        ("ann\u202etxt\u2067", "ann[U+202E]txt[U+2067]"),
        ("zero\u200bwidth\u00ad", "zero[U+200B]width[U+00AD]"),
        ("two\nlines\t", "two[U+000A]lines[U+0009]"),
        (" a  b ", "[U+0020]a [U+0020]b[U+0020]"),
        ("no\u00a0break", "no[U+00A0]break"),
        ("\u05d0\u05d1", "\u05d0\u05d1"),
        ("\U0001f469\u200d\U0001f680", "\U0001f469\u200d\U0001f680"),
        ("caf\u00e9", "caf\u00e9"),
        ("cafe\u0301", "cafe[U+0301]"),
        ("\u212b", "[U+212B]"),
        ("x\u0301", "x\u0301"),
        ("pay\u200droll", "pay[U+200D]roll"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("pay\ufe0froll\u3164", "pay[U+FE0F]roll[U+3164]"),
        ("ann[U+202E]txt", "ann[U+005B]U+202E]txt"),
    ],
)
def test_what_has_no_shape_is_written_out(name: str, shown: str) -> None:
    assert written_out(name) == shown
    assert is_confirmed(name, name) and is_confirmed(shown, name)


def test_another_name_does_not_count() -> None:
    for typed in ("", "ann", "anntxt", "ann\ufffdtxt", "ann[U+202D]txt", " ann\u202etxt"):
        assert not is_confirmed(typed, "ann\u202etxt")


ALIKE = (
    ("ann[U+202E]txt", "ann\u202etxt"),
    ("[U+005B]U+202E]", "[U+202E]", "\u202e"),
    ("caf\u00e9", "cafe\u0301"),
    ("\u1e69", "s\u0323\u0307", "s\u0307\u0323", "\u1e63\u0307"),
    ("\uac00", "\u1100\u1161"),
    ("\u00c5", "\u212b", "A\u030a"),
    ("payroll", "pay\u200droll", "pay\u200croll", "pay\ufe0froll", "pay\u3164roll", "pay\u2800roll"),
    ("\U0001f469", "\U0001f469\u200d", "\u200d\U0001f469"),
)


@pytest.mark.parametrize("names", ALIKE)
def test_names_that_look_alike_are_shown_otherwise(names: tuple[str, ...]) -> None:
    """Whoever read one off the page of the other deleted the other."""
    assert len({written_out(name) for name in names}) == len(names)


def test_the_field_takes_every_name_as_it_is_shown() -> None:
    """A browser counts a letter beyond the first 65,536 as two."""
    for letter in ("w", "\u202e", "\U0001f680", "\U000e0041", "[U+"):
        shown = written_out((letter * 249)[:249])
        assert len(shown.encode("utf-16-le")) // 2 <= LONGEST_TYPED


@pytest.mark.parametrize(
    ("name", "scripts"),
    [
        ("orders-7", {}),
        ("caf\u00e9", {}),
        ("p\u0430yr\u0430ll", {"Cyrillic": "\u0430", "Latin": "pyrl"}),
        ("\u0441\u043e\u0440\u0443", {"Cyrillic": "\u0441\u043e\u0440\u0443"}),
        ("orders-\u6ce8\u6587", {"CJK": "\u6ce8\u6587", "Latin": "ordes"}),
        # A long sound and a repeated sign belong to words of their scripts.
        ("\u30c7\u30fc\u30bf", {"Katakana": "\u30c7\u30fc\u30bf"}),
        ("\u4eba\u3005", {"CJK": "\u4eba\u3005"}),
        # What is no script is not called one: forms of Latin letters, a micro sign, a Roman numeral.
        ("\uff41\uff42", {"Latin (fullwidth)": "\uff41\uff42"}),
        ("500\xaa", {"Latin (feminine)": "\xaa"}),
        ("\xb5-jobs", {"Greek (micro)": "\xb5", "Latin": "jobs"}),
        ("pay\u217coad", {"Latin (small)": "\u217c", "Latin": "payod"}),
        ("\U0001d5c9ay", {"Latin (mathematical)": "\U0001d5c9", "Latin": "ay"}),
    ],
)
def test_letters_of_other_scripts_are_told_apart(name: str, scripts: dict[str, str]) -> None:
    """Two groups may be named payroll, one of them with a letter that is no Latin one."""
    assert scripts_of(name) == scripts
