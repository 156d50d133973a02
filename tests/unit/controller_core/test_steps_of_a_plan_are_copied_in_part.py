"""This room checks the steps that wait as what they are, a mapping; what was copied stays as it was."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.plan_rows import STEPS_COPIED, PlanStep, StepsByNumber

ORDERS = UUID(int=1)


def step(number: int) -> PlanStep:
    return PlanStep(number, ORDERS, "orders", number, 5, (1,), (2,))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.data())
def test_it_is_a_mapping_and_a_copy_does_not_change(numbers: list[int], data: st.DataObject) -> None:
    steps, expected = StepsByNumber(), dict[int, PlanStep]()
    for number in sorted({n * STEPS_COPIED // 3 for n in numbers}):
        steps.add(step(number))
        expected[number] = step(number)
    for _ in range(5):
        earlier, before = steps, dict(expected)
        steps = steps.copy()
        number = data.draw(st.integers(0, 3 * STEPS_COPIED))
        number = data.draw(st.sampled_from(sorted(expected))) if expected and number % 2 else number
        assert steps.take(number) == expected.pop(number, None)
        added = data.draw(st.integers(10, 12)) * STEPS_COPIED
        if not expected or added > max(expected):
            steps.add(step(added))
            expected[added] = step(added)
        assert dict(steps) == expected and len(steps) == len(expected) and list(steps) == list(expected)
        assert dict(earlier) == before and len(earlier) == len(before)
        assert (all(n in steps for n in expected) and number in steps) or number not in expected
