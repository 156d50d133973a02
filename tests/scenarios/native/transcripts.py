"""This room reads transcripts, plays their commands again, and writes them anew when asked to.

python -m tests.scenarios.native.transcripts        writes every transcript as it now runs
"""

from pathlib import Path

from coordinator.core.settings import GroupSettings
from groups.core.state import GroupRows
from tests.scenarios.native.stage import SETTINGS, Player

FOLDER = Path(__file__).parent


def transcripts() -> list[Path]:
    """All transcripts, by name."""
    return sorted(FOLDER.glob("*.txt"))


def played(path: Path) -> str:
    """The transcript as it runs now: its comments and commands, with what they bring about."""
    player = _player(path)
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("> "):
            if lines and lines[-1] != "":
                lines.append("")
            lines.append(line)
            lines.extend(f"    {said}" for said in player.play(line[2:]))
        elif line.startswith("#"):
            if lines and not lines[-1].startswith("#") and lines[-1] != "":
                lines.append("")
            lines.append(line)
    return "\n".join(lines) + "\n"


def _player(path: Path) -> Player:
    text = path.read_text()
    settings: GroupSettings = SETTINGS
    if "# on_exhausted = fail" in text:
        settings = GroupSettings(rebalance_max_retries=0, lease_ttl_ms=2_000, on_exhausted="fail")
    mode = "eager" if "# rebalance_mode = eager" in text else "incremental"
    return Player(settings, GroupRows("readers", rebalance_mode=mode))


if __name__ == "__main__":
    for transcript in transcripts():
        transcript.write_text(played(transcript))
