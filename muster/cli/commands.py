"""This room makes a function a command: the options that all share, its run, and how it ends."""

import inspect
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, Final, get_type_hints

import typer

from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.places import Wanted
from muster.cli.screen import Output, Screen, close
from muster.cli.session import Asking, Session
from muster.cli.typed import whole
from muster.kernel.version import VERSION

Function = Callable[..., None]
_NOT_UNDERSTOOD: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of an answer that is none of Muster's."""


def _option(*names: str, text: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"muster {VERSION}")
        raise typer.Exit


def _number(value: float) -> float:
    """NaN is within any bounds."""
    if value != value:
        raise typer.BadParameter("nan is no number of seconds.")
    return value


_SHARED: Final = {
    "output": Annotated[Output, _option("-o", "--output", text="How the answer is written.")],
    "quiet": Annotated[bool, _option("-q", "--quiet", text="Write the answer and what failed, no notes.")],
    "context": Annotated[str, _option("--context", text="The cluster, by the name of a context.")],
    "url": Annotated[str, _option("--url", text="The cluster, by the address of its pages.")],
    "token": Annotated[str, _option("--token", text="The token; others on the machine can see it here.")],
    "token_file": Annotated[str, _option("--token-file", text="The file that holds the token.")],
    "ca_file": Annotated[str, _option("--ca-file", text="Authorities to trust in place of the system's.")],
    "plaintext": Annotated[bool, _option("--plaintext", text="Send the token without TLS off this machine.")],
    "timeout": Annotated[
        float,
        _option("--timeout", text="Seconds to wait for an answer.", min=0.1, max=86_400, callback=_number),
    ],
}
_SHARED_DEFAULTS: Final[dict[str, Any]] = {
    "output": Output.TABLE,
    "quiet": False,
    "plaintext": False,
    "timeout": 30.0,
}
_VERSION: Final = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        _option(
            "--version", text="Say which version this command is.", is_eager=True, callback=_tell_version
        ),
    ],
)
_CONTEXT: Final = inspect.Parameter("invocation", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
_LISTED: Final = {
    "most": Annotated[int, _option("--limit", text="At most so many rows; 0: all.", parser=whole(0))]
}
_WATCHED: Final = {
    "watch": Annotated[bool, _option("-w", "--watch", text="Write it again and again, until Ctrl-C.")],
    "interval": Annotated[
        float, _option("--interval", text="Seconds between two looks.", min=0.2, max=86_400, callback=_number)
    ],
}
_WATCHED_DEFAULTS: Final[dict[str, Any]] = {"watch": False, "interval": 2.0}
_ASKED: Final = {
    "reason": Annotated[str, _option("--reason", text="Why; the journal keeps it.")],
    "key": Annotated[
        str, _option("--idempotency-key", text="The key of an earlier try: it is carried out once in all.")
    ],
    "yes": Annotated[bool, _option("-y", "--yes", text="Do not ask whether it is meant.")],
    "wait": Annotated[bool, _option("--wait", text="Wait until it is over, and say how far it is.")],
    "if_match": Annotated[
        str, _option("--if-match", text="The version (ETag) that is meant, or *; else as it is now.")
    ],
}
_ASKED_DEFAULTS: Final[dict[str, Any]] = {"yes": False, "wait": False}
_TRIED: Final = {"dry_run": Annotated[bool, _option("--dry-run", text="Only say what would come of it.")]}


def command(
    app: typer.Typer,
    name: str,
    *,
    lists: int | None = None,
    watched: bool = False,
    asks: bool = False,
    dry_run: bool = False,
) -> Callable[[Function], Function]:
    """Make `of(session, …)` the command `name`: its own arguments first, then the shared ones.

    `lists`: it writes a list, of so many rows unless told otherwise (0: all); `watched`: it can be looked at
    again and again; `asks`: it changes something; `dry_run`: it can only be judged.
    """

    def make(function: Function) -> Function:
        shared = _parameters(lists, watched, asks, dry_run)
        own = _own(function)

        def run(invocation: typer.Context, **given: Any) -> None:
            said = {one.name: given.pop(one.name) for one in shared} | _said_before(invocation)

            def work(session: Session) -> None:
                _refuse_empty(invocation)
                function(session, **given)

            _run(work, said)

        _sign(run, [_CONTEXT, *own, *shared])
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        app.command(name)(run)
        return function

    return make


def before_commands(app: typer.Typer) -> None:
    """Let what all commands share be said before the command as well: `muster --url ADDRESS status`."""
    shared = _parameters(None, watched=False, asks=False, dry_run=False)

    def said(invocation: typer.Context, **given: Any) -> None:
        invocation.obj = {name: value for name, value in given.items() if _is_said(invocation, name)}

    _sign(said, [_CONTEXT, _VERSION, *shared])
    app.callback()(said)


def _said_before(context: typer.Context) -> dict[str, Any]:
    """Of what stands before the command, what does not stand behind it, too."""
    before: dict[str, Any] = context.find_root().obj or {}
    return {name: value for name, value in before.items() if not _is_said(context, name)}


def _refuse_empty(context: typer.Context) -> None:
    """Raise Failure for an option that is empty, as `--url "$PROD"` where nobody set that.

    It would count as left out, and another cluster be meant, all rows, any version, or a new key.
    """
    contexts: list[Any] = [context.find_root(), context]
    for where in contexts:
        for one in where.command.params:
            is_empty = one.param_type_name == "option" and where.params.get(one.name or "") == ""
            if is_empty and _is_said(where, str(one.name)):
                raise usage(f"{max(one.opts, key=len)} is empty.", "Give it a value, or leave it out.")


def _is_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _sign(function: Function, parameters: list[inspect.Parameter]) -> None:
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}


def _own(function: Function) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [
        one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters
    ]


def _parameters(lists: int | None, watched: bool, asks: bool, dry_run: bool) -> list[inspect.Parameter]:
    annotated: dict[str, Any] = {}
    defaults: dict[str, Any] = _SHARED_DEFAULTS | _WATCHED_DEFAULTS | _ASKED_DEFAULTS
    defaults = defaults | {"most": lists or 0, "dry_run": False}
    if lists is not None:
        annotated |= _LISTED
    if watched:
        annotated |= _WATCHED
    if asks:
        annotated |= _ASKED
    if dry_run:
        annotated |= _TRIED
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, ""), annotation=annotation
        )
        for name, annotation in (annotated | _SHARED).items()
    ]


def _open_streams() -> None:
    """Read nothing from what was closed, write nowhere there; spell out what a terminal's encoding lacks."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  the process ends with it
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  the process ends with it
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(work: Callable[[Session], None], said: dict[str, Any]) -> None:
    """Run it, and end with its code; nobody is shown where in the program something went wrong."""
    _open_streams()
    is_writing = "key" in said
    if is_writing:
        # Whatever ends it by SIGTERM, as `timeout` does, is told of the change what Ctrl-C is told.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = Screen(said["output"], said["quiet"], is_needed=not is_writing)
    session = Session(
        screen,
        Wanted(**{one.name: said[one.name] for one in fields(Wanted)}),
        said["timeout"],
        said.get("interval", 0.0) if said.get("watch") else 0.0,
        said.get("most", 0),
        Asking(**{one.name: said[one.name] for one in fields(Asking) if one.name in said}),
        is_writing,
    )
    try:
        work(session)
    except Failure as failure:
        if is_writing and failure.code is ExitCode.UNREACHABLE:
            known = session.to_go_on or ("" if session.asked else "Nothing was changed.")
            failure.advice = f"{failure.advice} {known}".strip()
        screen.failed(failure)
        raise typer.Exit(failure.code) from None
    except KeyboardInterrupt:
        if session.watch_s:
            raise typer.Exit(ExitCode.DONE) from None
        if is_writing:
            known = session.to_go_on or session.asked or "Nothing was changed."
            screen.failed(Failure(ExitCode.INTERRUPTED, "Interrupted.", known))
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the answer has enough of it.
        close(sys.stdout)
        raise typer.Exit(ExitCode.DONE) from None
    except OSError as error:
        close(sys.stdout)
        text = f"The answer could not be written: {error.strerror or error}."
        screen.failed(Failure(ExitCode.REFUSED, text, session.asked))
        raise typer.Exit(ExitCode.REFUSED) from None
    except _NOT_UNDERSTOOD as error:
        text = f"The answer was not understood: {type(error).__name__} {error}."
        advice = "If this command is as new as the cluster, that is a mistake in it."
        screen.failed(Failure(ExitCode.REFUSED, text, f"{advice} {session.asked}".strip()))
        raise typer.Exit(ExitCode.REFUSED) from None
    finally:
        session.close()
