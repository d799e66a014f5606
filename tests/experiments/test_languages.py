"""The recipe for many languages, run dry on two of a corpus laid out like VoxAngeles, and a folder that is none."""

from __future__ import annotations

from pathlib import Path

from experiments import languages
from tests.experiments.test_corpora import utterance


def test_each_language_has_a_row_and_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    root = tmp_path / "voxangeles"
    for seed, language in enumerate(("abk", "ace")):
        for n in range(12):
            utterance(root / language / f"{language}_word-list", f"{language}_{n:03d}", 20 * seed + n, phn=False)
    (root / "zzz").mkdir()
    results = tmp_path / "R.md"
    assert languages.main([str(root), "--epochs", "1", "--results", str(results)]) == 0
    rows = [line for line in results.read_text().splitlines() if line.startswith("|")][2:]
    assert [row.split("|")[1].strip() for row in rows] == ["abk", "ace", "zzz", "mean"]
    cells = [cell.strip() for cell in rows[0].split("|")[2:-1]]
    assert cells[:1] + cells[2:3] == ["4", "10"]
    assert all(0 <= float(cell) <= 100 for cell in cells[3:])
    assert "no " in rows[2] or "expected" in rows[2]


def test_the_last_fifth_is_tested_on(tmp_path: Path) -> None:
    for n in range(11):
        utterance(tmp_path / "abk", f"w{n:02d}", n, phn=False)
    learn, test = languages.split(languages.corpora.read(tmp_path / "abk").utterances)
    assert [Path(u.audio).stem for u in test] == ["w09", "w10"]
    assert len(learn) == 9
