"""This room writes `docs/settings.md` from the declarations of all settings."""

from collections.abc import Iterator

from muster.kernel.environment import Setting
from muster.kernel.settings import LARGEST, SECTIONS

HEAD = """# Settings

Written by `make docs` from `muster/kernel/settings.py`; edit it there. Each setting is an environment
variable, and an empty one counts as not set. A value that cannot be used ends the process with one line
that names the variable; a name that begins with MUSTER_ and is no setting is told in the log, with the one
that was probably meant. "Or more" ends at 2,147,483,647. Of those marked *file* the value may lie in a file
that NAME_FILE names.

`make up` and `make demo` give their processes only variables that begin with MUSTER_ and what any program
needs (PATH, HOME, the language, the time zone): a shell's DATABASE_URL, ALLOWED_HOSTS or
DJANGO_SETTINGS_MODULE means another program.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, settings in SECTIONS.items():
        lines += [f"## {title}", "", "| variable | value | default | meaning |", "|---|---|---|---|"]
        lines += _rows(settings)
        lines.append("")
    return "\n".join(lines)


def _rows(settings: tuple[Setting, ...]) -> Iterator[str]:
    for setting in settings:
        file = " *file*" if setting.secret else ""
        yield f"| `{setting.name}`{file} | {_value(setting)} | {_default(setting)} | {setting.meaning} |"


def _value(setting: Setting) -> str:
    match setting.kind:
        case "number":
            unit = f" {setting.unit}" if setting.unit else ""
            return (
                f"{setting.least:,} to {setting.most:,}{unit}"
                if setting.most < LARGEST
                else (f"{setting.least:,} or more{unit}")
            )
        case "switch":
            return "on or off"
        case "words":
            return "words, with commas"
        case "choice":
            return ", ".join(setting.choices)
        case "text":
            return "text"


def _default(setting: Setting) -> str:
    if setting.required:
        return "required"
    match setting.default:
        case bool():
            return "on" if setting.default else "off"
        case int():
            return f"{setting.default:,}"
        case tuple():
            return ", ".join(setting.default)
        case _:
            return setting.default
