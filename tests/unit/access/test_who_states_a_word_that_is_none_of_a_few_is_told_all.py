"""A field of REST that takes a few words says which, to whoever states another one."""

from rest_framework import serializers

from access.rest.shapes import WordField


class Wish(serializers.Serializer[object]):
    mode = WordField(("incremental", "eager"))


def test_all_words_are_told() -> None:
    wish = Wish(data={"mode": "lazy"})
    assert not wish.is_valid()
    assert wish.errors == {"mode": ["It must be one of incremental, eager."]}


def test_one_of_them_is_taken_as_it_is() -> None:
    wish = Wish(data={"mode": "eager"})
    assert wish.is_valid() and wish.validated_data == {"mode": "eager"}
