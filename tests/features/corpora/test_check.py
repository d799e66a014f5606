"""A corpus held against its own sound."""

import numpy as np
import soundfile

from phonechain.features import corpora
from phonechain.features.corpora.check import check


def test_every_problem_by_its_file(tmp_path):
    sound = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    for name in ("good", "long", "clipped", "other", "samples"):
        soundfile.write(tmp_path / f"{name}.wav", sound, 16000, subtype="PCM_16")
    (tmp_path / "broken.wav").write_bytes(b"no sound at all")
    for name, end in (("good", 10_000_000), ("long", 10_200_000), ("clipped", 10_080_000), ("broken", 10_000_000)):
        (tmp_path / f"{name}.lab").write_text(f"0 5000000 a\n5000000 {end} b\n")
    (tmp_path / "other.lab").write_text("0 5000000 a\n5000000 12000000 b\n12000000 14000000 c\n")
    (tmp_path / "samples.csv").write_text("start,end,label\n0,8000,a\n8000,16000,b\n")
    (tmp_path / "bad.wav").write_bytes(b"")
    (tmp_path / "bad.lab").write_text("0 x a\n")
    corpus = corpora.read(tmp_path)
    seen = []
    problems, notices = check(corpus, progress=lambda done, total: seen.append((done, total)))
    told = {p.file.name: p.message for p in problems}
    assert list(told) == ["bad.lab", "broken.wav", "long.lab", "other.lab", "samples.csv"]
    assert problems[0].line == 1
    assert "ends 0.020 s past the end of the sound at 1.000 s, more than the 10 ms tolerated" in told["long.lab"]
    assert "another recording's annotation: its segments end at 1.400 s, the sound ends at 1.000 s" in told["other.lab"]
    assert "look like samples at 16000 Hz" in told["samples.csv"]
    assert {"segment-clipped", "segments-long"} <= {n.code for n in notices}
    assert seen == [(k, 6) for k in range(1, 7)]
