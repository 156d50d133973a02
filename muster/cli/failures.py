"""This room names how a command may end, and what it says when it ends badly."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script reads; docs/cli.md tells them."""

    DONE = 0
    REFUSED = 1
    """The cluster refused it or it failed, or `health` found something."""

    USAGE = 2
    """The command was not understood, or wants something that it cannot ask for here."""

    NOT_FOUND = 3
    CONFLICT = 4
    """The state does not allow it, or it changed meanwhile."""

    UNREACHABLE = 5
    """Nobody answered, or not in time, or somebody else did; it may be tried again."""

    NOT_ALLOWED = 6
    """The token is wrong, or its role or its names do not suffice."""

    UNANSWERED = 7
    """It was accepted, and there is no answer yet."""

    INTERRUPTED = 130


class Failure(Exception):
    """One sentence for people of what happened, `advice` on what to do, and the code to end with.

    `details` are lines of what was refused in particular; `is_unknown`: what was asked may have been done.
    """

    def __init__(
        self,
        code: ExitCode,
        text: str,
        advice: str = "",
        details: tuple[str, ...] = (),
        *,
        is_unknown: bool = False,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.advice = advice
        self.details = details
        self.is_unknown = is_unknown


def usage(text: str, advice: str = "") -> Failure:
    """What is wrong with what was typed."""
    return Failure(ExitCode.USAGE, text, advice)
