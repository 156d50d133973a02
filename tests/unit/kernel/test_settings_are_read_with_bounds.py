"""One reader for every process: within its bounds, by its kind, from a file where it is a secret."""

import pytest

from muster.kernel.environment import Environment, Setting, SettingError, Value
from muster.kernel.settings import DECLARED

CAST = (
    Setting(name="MUSTER_PACE_MS", kind="number", default=500, least=10, most=1_000, meaning="-"),
    Setting(name="MUSTER_MOOD", kind="choice", default="calm", choices=("calm", "WILD"), meaning="-"),
    Setting(name="MUSTER_ALOUD", kind="switch", default=False, meaning="-"),
    Setting(name="MUSTER_FRIENDS", kind="words", default=("ann",), meaning="-"),
    Setting(name="MUSTER_KEY", secret=True, required=True, meaning="-"),
)


def _open(name: str) -> str:
    if name == "/empty":
        return "\n"
    if name != "/key":
        raise FileNotFoundError(2, "No such file or directory", name)
    return "from the file\n"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("MUSTER_PACE_MS", " 10 ", 10),
        ("MUSTER_PACE_MS", "", 500),
        ("MUSTER_MOOD", "wild", "WILD"),
        ("MUSTER_ALOUD", "Yes", True),
        ("MUSTER_ALOUD", "off", False),
        ("MUSTER_FRIENDS", "ben, cleo,", ("ben", "cleo")),
        ("MUSTER_KEY", "k", "k"),
        ("MUSTER_KEY_FILE", "/key", "from the file"),
    ],
)
def test_what_can_be_used_is_understood(name: str, text: str, value: Value) -> None:
    assert Environment({name: text}, CAST, _open).value(name.removesuffix("_FILE")) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"MUSTER_PACE_MS": "-5"}, "MUSTER_PACE_MS='-5' is not a whole number from 10 to 1000"),
        ({"MUSTER_PACE_MS": "9"}, "not a whole number from 10 to 1000"),
        ({"MUSTER_PACE_MS": "1001"}, "not a whole number from 10 to 1000"),
        ({"MUSTER_PACE_MS": "9" * 5_000}, "not a whole number"),
        ({"MUSTER_PACE_MS": "٣٠"}, "not a whole number"),
        ({"MUSTER_MOOD": "wilder"}, "MUSTER_MOOD='wilder' is none of calm, WILD"),
        ({"MUSTER_ALOUD": "perhaps"}, "MUSTER_ALOUD='perhaps' is neither on nor off"),
        ({"MUSTER_KEY": " "}, "MUSTER_KEY is not set"),
        ({"MUSTER_KEY": "k", "MUSTER_KEY_FILE": "/key"}, "MUSTER_KEY and MUSTER_KEY_FILE are both set"),
        ({"MUSTER_KEY_FILE": "/missing"}, "MUSTER_KEY_FILE=/missing cannot be read: No such file"),
        ({"MUSTER_KEY_FILE": "/empty"}, "MUSTER_KEY_FILE=/empty is empty"),
        ({"MUSTER_FRIENDS": " , ,"}, "MUSTER_FRIENDS=', ,' names nothing"),
        ({"MUSTER_KEY": "k\udcff"}, "MUSTER_KEY is no text in UTF-8"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(given: dict[str, str], says: str) -> None:
    name = next(iter(given)).removesuffix("_FILE")
    with pytest.raises(SettingError, match=says):
        Environment(given, CAST, _open).value(name)


def test_a_name_of_ours_that_no_setting_has_is_told_with_the_nearest() -> None:
    given = {"MUSTER_MOD": "calm", "MUSTER_FRIENDS_FILE": "/key", "MUSTER_KEY_FILE": "/key", "HOME": "/root"}
    assert list(Environment({**given, "MUSTER_QQQQQ": ""}, CAST).unknown()) == [
        "MUSTER_FRIENDS_FILE is no setting; is MUSTER_FRIENDS meant?",
        "MUSTER_MOD is no setting; is MUSTER_MOOD meant?",
        "MUSTER_QQQQQ is no setting.",
    ]


def test_every_default_could_have_been_set() -> None:
    for setting in DECLARED:
        told = Environment({}, [setting])
        if setting.required:
            continue
        default = setting.default
        words = ",".join(default) if isinstance(default, tuple) else str(default)
        assert Environment({setting.name: words}, [setting]).value(setting.name) == told.value(setting.name)


def test_no_setting_is_declared_twice() -> None:
    assert len({setting.name for setting in DECLARED}) == len(DECLARED)
