"""What a check of a model found, and how grave it is."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"  # settled without being asked for: told, and nothing to worry about
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What a check saw, and what to do about it."""

    check: str
    level: Level
    message: str
    hint: str = ""

    @property
    def text(self) -> str:
        """As a warning."""
        return f"{self.check}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
