"""How the jobs of a sweep ended, by the notes and the folders that they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sciuq_runner.errors import FAILED, INTERRUPTED, OK, WRONG_INPUT
from sciuq_runner.sweeps.earlier import is_alive, origin_of
from sciuq_runner.sweeps.notes import Note, read_notes, take_beginnings
from sciuq_runner.sweeps.plan import Planned

STARTS = 3  # of a job whose process dies


class Outcomes:
    """What is known of the jobs of a sweep that began."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.read: set[str] = set()  # names of notes
        self.ended: dict[str, Note] = {}  # the last note of every folder
        self.strikes: Counter[str] = Counter()  # how often the process of a job died, by folder
        self.interrupted = False

    def look(self, tried: Sequence[Planned]) -> bool:
        """Read what jobs have left, and count those that began and died; whether there was anything new."""
        fresh = read_notes(self.notes, self.read)
        self.read |= fresh.keys()
        self.ended |= {note.folder: note for note in fresh.values()}
        for item in tried:
            origin = origin_of(item.folder) if str(item.folder) not in self.ended else None
            if origin is not None and origin.finished(item.folder):
                self.ended[str(item.folder)] = Note(str(item.folder), OK, score=origin.score)  # a full disk took none
        begun = take_beginnings(self.notes)
        self.strikes.update(folder for folder in begun if folder not in self.ended and not is_alive(folder))
        return bool(fresh or begun)

    def deaths(self, item: Planned) -> int:
        """How often the process of a job died."""
        return self.strikes[str(item.folder)]

    def is_left(self, item: Planned) -> bool:
        """Whether a job has not ended, and may be started once more."""
        return str(item.folder) not in self.ended and self.deaths(item) < STARTS

    def begun(self) -> bool:
        """Whether any job began."""
        return bool(self.ended or self.strikes)

    def note_of(self, item: Planned) -> Note:
        """How a job ended."""
        if item.refusal:
            return Note(str(item.folder), WRONG_INPUT, item.refusal)
        if item.done:
            origin = origin_of(item.folder)
            return Note(str(item.folder), OK, score=origin.score if origin else None)
        return self.ended.get(str(item.folder)) or self.lost(item)

    def lost(self, item: Planned) -> Note:
        """How a job ended that left no note."""
        died = self.deaths(item)
        if self.interrupted:
            return Note(str(item.folder), INTERRUPTED, "at once." if died else "")
        sentence = f"its process died at each of {died} starts." if died else "it did not start."
        return Note(str(item.folder), FAILED, sentence)
