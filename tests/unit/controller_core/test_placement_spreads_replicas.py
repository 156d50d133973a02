"""This room checks placement by its properties: even leaders, different brokers, different racks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.core.placement import Place, place

RACKS = st.dictionaries(st.integers(1, 40), st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=12)


@given(RACKS, st.integers(1, 60), st.integers(1, 12))
def test_leaders_are_even_and_replicas_are_apart(racks: dict[int, str], partitions: int, factor: int) -> None:
    factor = min(factor, len(racks))
    places = [Place(broker_id, rack) for broker_id, rack in racks.items()]
    assignments = place(places, partitions, factor)

    assert len(assignments) == partitions
    leaders = Counter(one[0] for one in assignments)
    assert max(leaders.values()) - min(leaders[b] for b in racks) <= 1
    for one in assignments:
        assert len(set(one)) == len(one) == factor
        used = {racks[b] for b in one}
        assert len(used) == min(factor, len(set(racks.values()))), "as many racks as there can be"


@given(RACKS, st.sets(st.integers(1, 40)), st.integers(1, 60), st.integers(1, 12))
def test_who_is_in_trouble_is_the_last_choice_and_leads_nothing_while_somebody_else_is_there(
    racks: dict[int, str], troubled: set[int], partitions: int, factor: int
) -> None:
    factor, sound = min(factor, len(racks)), set(racks) - troubled
    assignments = place([Place(b, rack, b in troubled) for b, rack in racks.items()], partitions, factor)
    leaders = Counter(one[0] for one in assignments)
    for one in assignments:
        assert len(set(one)) == len(one) == factor
        assert len(sound.intersection(one)) == min(factor, len(sound))
        assert one[0] in sound or not sound
        of_sound = len({racks[b] for b in sound})
        needed = max(factor - len(sound), 0)
        if needed and sound:
            assert len({racks[b] for b in one}) == min(of_sound + needed, len(set(racks.values())))
    able = sound or set(racks)
    assert max(leaders.values()) - min(leaders[b] for b in able) <= 1


@given(
    RACKS, st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)), st.integers(1, 20), st.integers(1, 12)
)
def test_who_is_away_is_chosen_behind_all_others(
    racks: dict[int, str], away: set[int], troubled: set[int], partitions: int, factor: int
) -> None:
    factor, here = min(factor, len(racks)), set(racks) - away
    if not here:
        return
    places = [Place(b, rack, b in troubled, b in away) for b, rack in racks.items()]
    for one in place(places, partitions, factor):
        assert len(set(one)) == len(one) == factor
        assert len(here.intersection(one)) == min(factor, len(here))
        assert one[0] in (here - troubled or here)


def test_brokers_in_trouble_take_turns_over_topics_of_one_partition() -> None:
    places = [Place(b, "", b > 2) for b in range(1, 6)]
    led, last = Counter[int](), Counter[int]()
    for _ in range(30):
        [one] = place(places, 1, 3, led)
        led[one[0]] += 1
        last[one[2]] += 1
    assert last == {3: 10, 4: 10, 5: 10}


def test_followers_of_one_broker_are_spread_over_all_others() -> None:
    assignments = place([Place(b) for b in range(1, 6)], 100, 2)
    followers = Counter(one[1] for one in assignments if one[0] == 1)
    assert set(followers) == {2, 3, 4, 5}
    assert max(followers.values()) - min(followers.values()) <= 1


def test_a_new_topic_begins_where_least_is_led() -> None:
    assignments = place([Place(b) for b in (1, 2, 3)], 1, 1, led_already=[1, 1, 2, 3, 3])
    assert assignments == [(2,)]
