"""Whatever is thrown at a door is answered by a typed error, or hung up on with a reason."""

from tests.fuzz.run import fuzz

FRAMES = 3_000
SEED = 9


async def test_three_thousand_spoilt_frames() -> None:
    result = await fuzz(SEED, range(FRAMES))
    assert "\n".join(map(str, result.watch.findings[:3])) == ""
    assert result.watch.outcomes["frames"] == FRAMES
    assert result.watch.outcomes["answers"] > FRAMES // 10
