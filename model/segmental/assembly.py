"""From posteriors over a graph to an answer: times, words, labels, and a notice where the transcript does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import Notice, SegmentError
from phonechain.features.segments import Segment
from phonechain.model.segmental import passes
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Alignment
from phonechain.model.segmental.boundaries import Boundaries, share_near, summarise
from phonechain.model.segmental.graph import GraphPosteriors, PhoneGraph
from phonechain.model.segmental.transcripts import Word

IMPROBABLE = -4.0
"""Nats per phone below which a transcript is reported as improbable."""


@dataclass(frozen=True)
class Assembly:
    """What a model's answers need beside posteriors.

    Attributes:
        step, fine: of the coarse and the fine grid (s).
        shift: added to every boundary (s): less the model's known bias.
    """

    labels: tuple[str, ...]
    silence: str | None
    step: float
    fine: float
    shift: float

    def alignment(
        self,
        duration: float,
        graph: PhoneGraph,
        words: Sequence[Word],
        posteriors: GraphPosteriors,
        free: NDArray[np.float32],
        log_posterior: float,
        given: Sequence[float] | None,
    ) -> Alignment:
        """The answer.

        Args:
            words: of the transcript, where the graph has words.
            posteriors: of the graph, on the fine grid.
            free: posteriors of all segments [N, D, K] without a graph, on the coarse grid.
            given: starts of the graph's nodes before refining.
        """
        path = passes.best_path(graph, posteriors)
        found = summarise(posteriors.begin[path], self.fine)
        starts, ends = self._times(found, duration)
        near = None if given is None else share_near(
            posteriors.begin[path], np.asarray(given) - self.shift, self.fine
        )  # fmt: skip
        heard = passes.label_posteriors(free)
        phones = []
        for n, node in enumerate(path):
            label = graph.nodes[node].label
            share = passes.mean_between(heard, starts[n], ends[n], self.step)
            order = np.argsort(-share)[:5]
            moved = 0.0 if n == 0 else self.shift
            low, high = (float(np.clip(x[n] + moved, 0.0, duration)) for x in (found.low, found.high))
            phones.append(
                AlignedPhone(
                    self.labels[label], starts[n], ends[n], min(low, starts[n]), max(high, starts[n]),
                    1.0 if n == 0 else float(np.clip(found.within[n], 0.0, 1.0)), float(share[label]),
                    tuple((self.labels[k], float(share[k])) for k in order), graph.nodes[node].word if words else None,
                    None if given is None else given[n],
                    None if near is None else 1.0 if n == 0 else float(np.clip(near[n], 0.0, 1.0)),
                )
            )  # fmt: skip
        aligned = [self._word(w, n, path, graph, posteriors, phones) for n, w in enumerate(words)]
        answer = Alignment(tuple(phones), tuple(aligned), duration, min(0.0, log_posterior), self.silence)
        return Alignment(
            answer.phones,
            answer.words,
            answer.duration,
            answer.log_posterior,
            answer.silence,
            tuple(improbable_notices(answer)),
        )

    def _times(self, found: Boundaries, duration: float) -> tuple[list[float], list[float]]:
        """Contiguous starts and ends, in order, corrected for the model's bias; each phone lasts at least a millisecond."""
        count, least = len(found.time), 0.001
        starts = np.asarray(found.time) + self.shift
        starts[0] = 0.0
        for n in range(1, count):
            starts[n] = max(starts[n], starts[n - 1] + least)
        for n in range(count - 1, 0, -1):
            starts[n] = min(starts[n], duration - least * (count - n))
        starts = np.round(starts, 4)
        return starts.tolist(), [*starts[1:].tolist(), duration]

    def _word(
        self,
        word: Word,
        index: int,
        path: Sequence[int],
        graph: PhoneGraph,
        posteriors: GraphPosteriors,
        phones: Sequence[AlignedPhone],
    ) -> AlignedWord:
        own = [n for n, node in enumerate(path) if graph.nodes[node].word == index]
        chosen = word.pronunciations[graph.nodes[path[own[0]]].variant]
        share = float(np.clip(posteriors.visited[path[own[0]]], 0.0, 1.0))
        start, end, last = phones[own[0]].start, phones[own[-1]].end, own[-1] + 1
        written = word.written or word.word
        return AlignedWord(word.word, written, start, end, chosen.phones, share, (own[0], last), word.guessed)


def fill_gaps(segments: Sequence[Segment], silence: str | None) -> list[Segment]:
    """The segments, and silences in the gaps between them. Raises SegmentError."""
    if not segments:
        raise SegmentError("expected segments to refine, got none", pointer="segments")
    out: list[Segment] = []
    last = 0.0
    for n, s in enumerate(segments):
        if s.start < last - 0.01:
            raise SegmentError(
                f"segments[{n}]: starts at {s.start:.3f} s, before the one before it ends at {last:.3f} s",
                pointer=f"segments/{n}/start", value=s.start, limit=last,
            )  # fmt: skip
        if s.label is None and silence is None:
            raise SegmentError(
                f"segments[{n}]: has no label, and the model has none for silence", pointer=f"segments/{n}"
            )
        if s.start > last + 0.01 and silence is not None:
            out.append(Segment(last, s.start, silence))
        out.append(Segment(s.start, s.end, s.label or silence))
        last = s.end
    return out


def improbable_notices(answer: Alignment) -> list[Notice]:
    """A notice where the sound does not match the transcript, which says where it fits worst."""
    each = answer.log_posterior_per_phone
    worst = answer.worst
    if each >= IMPROBABLE or len(answer.phones) < 4 or worst is None:
        return []
    where = f"{'word' if answer.words else 'phone'} '{worst.text[:40]}' at {worst.start:.2f} to {worst.end:.2f} s"
    message = (
        f"the sound does not match the transcript ({-each:.1f} nats per phone; at most {-IMPROBABLE:g} where it does)"
    )
    message += f"; it fits worst at {where}; expected what is said there, in the model's language"
    return [Notice("transcript-improbable", message, "text", round(each, 2), IMPROBABLE)]
