"""The sample utterance that ships with the package; see README.md beside this file."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
AUDIO = FOLDER / "LJ001-0002.flac"
SEGMENTS = FOLDER / "LJ001-0002.TextGrid"
EXAMPLES = FOLDER / "examples.json"
TEXT = "in being comparatively modern."
