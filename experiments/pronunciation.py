"""The guesser of English pronunciations, trained on CMUdict and measured on words held out.

    python -m experiments.pronunciation OUT          train, measure, write the file that the package ships
    python -m experiments.pronunciation --measure    the shipped file on the held-out words

A tenth of the words is held out, by a hash of the word. Stress is left out on both sides. A guess is compared with the nearest
of a word's pronunciations: phone error counts substitutions, deletions and insertions per phone of that one, word error the
words with any. "Without relatives" leaves out words of which another form (plural, tense, adverb ...) was trained on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from phonechain.features.words import dictionary
from phonechain.model.pronunciation import guesser, learning


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--order", type=int, default=learning.ORDER)
    parser.add_argument("--size", type=int, default=learning.SIZE, help="n-grams kept")
    given = parser.parse_args(arguments)
    if (given.out is None) != given.measure:
        parser.error("expected OUT or --measure")
    training, held = learning.split(learning.entries(dictionary.english()))
    began = time.process_time()
    if given.measure:
        made = guesser.english()
    else:
        made = learning.train(training, order=given.order, size=given.size)
        made.facts = {
            "data": f"{len(training)} words of CMUdict (BSD-2, Carnegie Mellon University)", "order": given.order,
            "ngrams": len(made.chain),
        }  # fmt: skip
        made.save(given.out)
        made = guesser.PronunciationGuesser.load(given.out)
    trained = time.process_time() - began
    report = {"training_words": len(training), "seconds": round(trained, 1), **made.facts}
    for name, words in (("held_out", held), ("without_relatives", learning.without_relatives(held, training))):
        score = learning.score(made, words)
        report[name] = {
            "words": score.words, "phone_error_percent": round(100 * score.phone_error, 2),
            "word_error_percent": round(100 * score.word_error, 2),
        }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
