"""This room tests how numbers, ages and times are written."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from muster.kernel.instants import spelled
from web.templatetags.written import (
    brief,
    by_topic,
    each_named,
    ended,
    folding,
    named,
    near,
    one_line,
    unparted,
)
from web.wording import age, clock, count, length, listed, mean, middle_cut, some_of

NOW = datetime(2026, 11, 21, 3, 12, 41, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (999, "999"), (27_458, "27\u202f458"), (4_120_773, "4\u202f120\u202f773"), (None, "N/A")],
)
def test_counts_have_narrow_spaces_and_unknown_is_not_zero(number: int | None, written: str) -> None:
    assert count(number) == written


def test_a_number_that_fills_a_narrow_line_may_go_on_in_the_next() -> None:
    """At a thousand, and not within three digits: it is one number, not two."""
    assert folding(None) == "N/A" and folding(999_999_999_999) == count(999_999_999_999)
    assert folding(3_999_999_999_999_999_996) == (
        '<span class="folding">3\u202f999\u202f999\u202f<wbr>999\u202f999\u202f999\u202f996</span>'
    )


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.4, "<1s"), (26, "26s"), (163, "2m 43s"), (4_320, "1h 12m"), (273_600, "3d 4h"), (60, "1m 0s")],
)
def test_ages_have_two_units_at_most(seconds: float, written: str) -> None:
    assert spelled(seconds) == written


@pytest.mark.parametrize(
    ("ms", "written"), [(420, "0.42s"), (1_240, "1.24s"), (10_000, "10s"), (372_000, "6m 12s")]
)
def test_lengths_are_exact_below_ten_seconds(ms: int, written: str) -> None:
    assert length(ms) == written


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (datetime(2026, 11, 21, 3, 4, 18, tzinfo=UTC), "03:04:18"),
        (datetime(2026, 11, 20, 16, 18, tzinfo=UTC), "Fri 16:18"),
        (datetime(2026, 10, 22, 16, 18, tzinfo=UTC), "22 Oct 16:18"),
    ],
)
def test_times_are_as_short_as_they_are_near(at: datetime, written: str) -> None:
    assert clock(at, NOW) == written


def test_a_clock_that_runs_ahead_counts_as_now() -> None:
    assert age(NOW + timedelta(seconds=5), NOW) == "<1s"


def test_a_mean_has_a_digit_behind_the_point_where_that_says_something() -> None:
    assert [mean(value) for value in (0.0, 7.75, 99.94, 2509.0)] == ["0.0", "7.8", "99.9", "2\u202f509"]


def test_long_ids_are_cut_in_the_middle() -> None:
    cut = middle_cut("com.example.platform.billing.reconciliation.payments-v2", 20)
    assert (len(cut), cut[0], cut[-2:]) == (20, "c", "v2")
    assert middle_cut("ann") == "ann"


def test_a_cut_leaves_no_mark_without_its_letter() -> None:
    """It would be drawn onto the ellipsis, or join what is left into another picture."""
    assert middle_cut("pre-" * 5 + "e\u0301\u0302nd", 13) == "pre-pre-…nd"
    assert middle_cut("pre-" * 5 + "\u200d\U0001f680no", 13) == "pre-pre-…\U0001f680no"


def test_what_turns_a_line_around_is_seen_where_it_stands() -> None:
    """A name must not make what a page says behind it read backwards."""
    assert middle_cut("ann\u202etxt\u2067") == "ann\ufffdtxt\ufffd"
    assert middle_cut("\u05d0\u05d1") == "\u05d0\u05d1", "letters that are read from the right are letters"


def test_partitions_are_listed_by_the_topics_that_are_named() -> None:
    assert by_topic([("", "0, 1")]) == "0, 1"
    told = by_topic([("orders", "0, 1"), ("c" * 249, "4")])
    assert told.startswith("orders 0, 1 · <span ") and told.endswith(f"{'c' * 249}</span></span> 4")


def test_some_of_many_are_named_and_the_rest_counted_once() -> None:
    names = ["orders-0", "orders-1", "clicks-2"]
    assert some_of(names, 3, middle_cut) == "orders-0, orders-1 and clicks-2"
    assert some_of(names, 8, middle_cut) == "orders-0, orders-1, clicks-2 and 5 more"
    assert some_of(["w" * 249], 1, middle_cut) == f"{'w' * 26}…{'w' * 13}"


def pieces(told: str) -> tuple[str, ...]:
    """What is drawn first, what is drawn last, and the whole."""
    found = re.fullmatch(
        '<span class="cut(?: long)?" data-start="(.*)" data-end="(.*)"><span>(.*)</span></span>', str(told)
    )
    assert found
    return found.groups()


def test_names_on_one_line_keep_their_ends_and_are_whole_to_a_search() -> None:
    """Two topics of one Streams application looked alike."""
    for end in ("changelog-0", "repartition-0"):
        name = f"app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-{end}"
        start, last, whole = pieces(one_line(name))
        assert (start + last, whole) == (name, name) and last in f"-{end}"
    assert one_line("orders-0") == "orders-0"
    assert pieces(one_line("<b>-of-markup")) == ("&lt;b&gt;-", "of-markup", "&lt;b&gt;-of-markup")


def test_a_letter_is_not_parted_from_what_is_drawn_onto_it() -> None:
    name = "group-of-many-" + "e\u0301" * 6
    start, last, _ = pieces(ended(name, 40))
    assert start + last == name and not last.startswith("\u0301")


def test_words_that_are_cut_are_whole_to_a_search_and_on_hover() -> None:
    assert brief("orders", 20) == "orders"
    told = brief("w" * 249, 20)
    assert f'data-shown="{"w" * 12}…{"w" * 7}"' in told
    assert f'title="{"w" * 249}"' in told and f'<span class="vh">{"w" * 249}</span>' in told


def test_where_ids_have_no_room_their_ends_are_kept() -> None:
    """What a client makes up begins alike: a column of them says nothing by its beginnings."""
    name = "muster-python-6759882cc9ba87aec"
    assert ended("ann", 20) == "ann"
    assert pieces(ended(name, 40)) == ("muster-python-6759882cc9ba", "87aec", name)
    # What is left out is marked once: the style sheet cuts the first piece at its end, where room is less.
    assert pieces(ended(name, 20)) == ("muster-python-…", "87aec", name)
    assert near("from", "ann") == "from ann"
    assert near("to", name) == '<span class="vh">to </span>…87aec'
    assert near("to", "<ann's>") == '<span class="vh">to </span>…nn&#x27;s&gt;'


def test_lists_are_read_as_sentences() -> None:
    assert listed([]) == ""
    assert listed(["ann"]) == "ann"
    assert listed(["ann", "ben", "cleo"]) == "ann, ben and cleo"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"


def test_no_line_ends_at_a_hyphen_of_a_name_also_of_one_whose_middle_is_left_out() -> None:
    kept = '<span class="nowrap">-'
    assert named("gate-<3") == f'<span class="name">gate{kept}&lt;</span>3</span>'
    shown = named("the-records-of-a-name-that-is-longer-than-the-line-12")
    drawn = shown.partition('data-shown="')[2].partition('"')[0]
    assert "…" in drawn and drawn.count("-") == drawn.count("-\u2060") == 8
    assert named("größe-é-ö̈n").count(kept) == 2 and f"{kept}ö̈</span>n" in named("größe-é-ö̈n")
    assert unparted("no topic a-b - <c>") == f"no topic a{kept}b</span> {kept}</span> &lt;c&gt;"
    assert each_named(["a-1", "b"]) == f"{named('a-1')}, {named('b')}"
