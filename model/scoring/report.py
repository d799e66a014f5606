"""An evaluation as one self-contained HTML file: tables and drawings, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from phonechain.model.scoring.evaluation import ScoredSegments
from phonechain.model.scoring.summary import Evaluation

DRAWN_LABELS = 70
"""Labels in the drawing of confusions, the most frequent ones."""
DURATIONS = (0.0, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4, np.inf)
"""Edges of the classes of duration (s)."""

_STYLE = """
:root{color-scheme:light dark;--ink:#16191f;--soft:#565d69;--line:#d9dde3;--paper:#fff;--accent:#0b5cad;--heat:11,92,173}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaee;--soft:#a3abb8;--line:#2d333c;--paper:#14171c;--accent:#7db6f5;--heat:125,182,245}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.15rem;margin-top:2.5rem}p,caption{color:var(--soft)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .75rem;border-bottom:1px solid var(--line);text-align:right}
th:first-child,td:first-child{text-align:left}th{font-size:.8rem;color:var(--soft)}
caption{text-align:left;caption-side:bottom;padding-top:.5rem}
svg{max-width:100%;height:auto}
text{fill:var(--ink);font:9px system-ui,sans-serif}
.axis{stroke:var(--line)}.ideal{stroke:var(--soft);stroke-dasharray:4 3}
.line{fill:none;stroke:var(--accent);stroke-width:2}.dot{fill:var(--accent)}.bar{stroke:var(--accent)}.cell{fill:rgb(var(--heat))}.scroll{overflow-x:auto}
"""


def render(scored: ScoredSegments, title: str, *, seed: int = 1) -> str:
    """The report of `scored`: errors with their interval, reliability, doubt, confusions, by label, speaker and duration.

    Args:
        title: above it, such as the model and the corpus.
        seed: of the bootstrap.
    """
    found = scored.summarise(seed=seed)
    parts = [
        f"<h1>{escape(title)}</h1>", _summary(found), "<h2>Can the posteriors be believed?</h2>", _reliability(found),
        "<h2>The least certain segments</h2>", _doubt(found), "<h2>Confusions</h2>", _confusions(found),
        "<h2>By label</h2>", _labels(found), *_groups(scored),
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _summary(found: Evaluation) -> str:
    low, high = found.interval.low, found.interval.high
    units = found.speakers if found.speakers is not None else found.utterances
    between = f"{_percent(low)} to {_percent(high)} %" if low is not None else found.interval.reason
    rows = [
        ("segments", f"{found.segments:,} in {_count(found.utterances, 'utterance')}"),
        ("errors", f"{_percent(found.per)} % ({found.errors:,})"),
        (f"{100 * found.interval.level:.0f} % interval over {_count(units, found.interval_over)}", between),
        *((f"true label among the first {n}", f"{_percent(share)} %") for n, share in found.top.items() if n > 1),
        ("mean posterior of the answers", f"{_percent(found.mean_confidence)} %"),
        ("expected calibration error", f"{_percent(found.ece)} %"),
        ("the same by chance, were every posterior right", f"{_percent(found.ece_by_chance)} %"),
        *([("calibration of the model", found.calibration)] if found.calibration else []),
        *([("negative log-likelihood", f"{found.nll:.3f} nats")] if found.nll is not None else []),
        ("Brier score", f"{found.brier:.3f}"),
        *(
            (f"not scored: {name}", f"{count:,}")
            for name, count in [*found.unknown.items(), *found.unscored.items()][:20]
        ),
        *((f"not read: {p['utterance']}", p["message"]) for p in found.problems[:20]),
    ]
    return _table((), rows)


def _reliability(found: Evaluation) -> str:
    size, edge = 300, 30

    def at(x: float, y: float) -> tuple[float, float]:
        return edge + x * (size - 2 * edge), size - edge - y * (size - 2 * edge)

    dots = []
    for one in found.reliability:
        x, y = at(one.confidence, one.accuracy)
        if one.interval is not None and one.interval.low is not None and one.interval.high is not None:
            (_, low), (_, high) = at(0, one.interval.low), at(0, one.interval.high)
            dots.append(f'<path class="bar" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        said = f"posterior {one.confidence:.3f}, right {one.accuracy:.3f}, {one.count} segments"
        dots.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{said}</title></circle>')
    (x0, y0), (x1, y1) = at(0, 0), at(1, 1)
    line = " ".join("{:.1f},{:.1f}".format(*at(one.confidence, one.accuracy)) for one in found.reliability)
    return (
        f'<svg viewBox="0 0 {size} {size}" width="{size}" role="img" aria-label="Share of right answers by posterior">'
        f'<path class="axis" fill="none" d="M{x0} {y1}V{y0}H{x1}"/><path class="ideal" d="M{x0} {y0}L{x1} {y1}"/>'
        f'<polyline class="line" points="{line}"/>{"".join(dots)}'
        f'<text x="{(x0 + x1) / 2}" y="{size - 6}" text-anchor="middle">posterior</text>'
        f'<text x="10" y="{(y0 + y1) / 2}" text-anchor="middle" transform="rotate(-90 10 {(y0 + y1) / 2})">right</text></svg>'
        "<p>Each dot is as many answers as the next. On the dashed line, a posterior of 0.8 is right in 80 % of the cases; "
        f"a bar that crosses it is no sign against the posteriors.</p>{_bins(found)}"
    )


def _bins(found: Evaluation) -> str:
    rows = []
    for one in found.reliability:
        between = "–"
        if one.interval is not None:
            low, high = one.interval.low, one.interval.high
            between = one.interval.reason if low is None else f"{_percent(low)} to {_percent(high)}"
        rows.append(
            (
                f"{one.low:.3f} to {one.high:.3f}", f"{one.count:,}", _percent(one.confidence),
                _percent(one.accuracy), between,
            )
        )  # fmt: skip
    level = f"{100 * found.interval.level:.0f} %, over {found.interval_over}s"
    return _table(("posterior", "answers", "mean posterior %", "right %", level), rows)


def _doubt(found: Evaluation) -> str:
    rows = [
        (
            f"{100 * d.share:g} %",
            f"{d.segments:,}",
            f"{d.below:.3f}",
            _percent(d.error_rate),
            _percent(d.share_of_errors),
        )
        for d in found.doubt
    ]
    return _table(("least certain", "segments", "posterior below", "wrong %", "of all errors %"), rows)


def _confusions(found: Evaluation) -> str:
    matrix = np.asarray(found.confusion_matrix)
    frequent = np.argsort(-(matrix.sum(axis=1) + matrix.sum(axis=0)), kind="stable")[:DRAWN_LABELS]
    order = sorted(frequent.tolist(), key=lambda i: found.labels[i])
    shown = matrix[np.ix_(order, order)]
    share = shown / np.maximum(1, matrix.sum(axis=1)[order])[:, None]
    cell, edge = 14, 44
    size = edge + cell * len(order)
    cells = []
    for i, j in zip(*np.nonzero(shown), strict=True):
        said = f"{found.labels[order[i]]} as {found.labels[order[j]]}: {shown[i, j]} ({_percent(share[i, j])} %)"
        cells.append(
            f'<rect class="cell" x="{edge + cell * j}" y="{edge + cell * i}" width="{cell}" height="{cell}" '
            f'opacity="{max(0.04, share[i, j] ** 0.5):.2f}"><title>{escape(said)}</title></rect>'
        )
    names = "".join(
        f'<text x="{edge - 4}" y="{edge + cell * i + 10}" text-anchor="end">{escape(found.labels[k][:8])}</text>'
        f'<text transform="translate({edge + cell * i + 10} {edge - 4}) rotate(-90)">{escape(found.labels[k][:8])}</text>'
        for i, k in enumerate(order)
    )
    frame = f'<rect class="axis" fill="none" x="{edge}" y="{edge}" width="{size - edge}" height="{size - edge}"/>'
    rows = [(f"{c.true} as {c.predicted}", f"{c.count:,}", _percent(c.share)) for c in found.confusions]
    return (
        f'<div class="scroll"><svg viewBox="0 0 {size} {size}" width="{size}" role="img" '
        f'aria-label="Confusions: rows true, columns answered">{names}{frame}{"".join(cells)}</svg></div>'
        "<p>Rows: true label, columns: answer; darker is a larger share of the row (square root). Hold the pointer "
        f"over a cell for its numbers.</p>{_table(('confusion', 'times', '% of the label'), rows)}"
    )


def _labels(found: Evaluation) -> str:
    rows = [
        (row.label, f"{row.count:,}", _percent(row.recall), _percent(row.precision), row.confused_with or "")
        for row in sorted(found.per_phone, key=lambda row: -row.count)
        if row.count
    ]
    return _table(("label", "segments", "recall %", "precision %", "confused with"), rows)


def _groups(scored: ScoredSegments) -> Iterable[str]:
    kept = scored.true >= 0
    wrong = scored.wrong
    if all(speaker is not None for speaker in scored.speakers):
        speakers = np.asarray([str(speaker) for speaker in scored.speakers])
        rows = []
        for name in np.unique(speakers[kept]):
            mask = kept & (speakers == name)
            rows.append((str(name), int(mask.sum()), float(wrong[mask].mean())))
        worst = sorted(rows, key=lambda row: -row[2])
        yield "<h2>By speaker</h2>"
        yield _table(("speaker", "segments", "errors %"), [(n, f"{count:,}", _percent(e)) for n, count, e in worst])
    if scored.durations is not None:
        out = []
        for low, high in pairwise(DURATIONS):
            mask = kept & (scored.durations >= low) & (scored.durations < high)
            if mask.any():
                name = (
                    f"{1000 * low:.0f} to {1000 * high:.0f} ms"
                    if np.isfinite(high)
                    else f"{1000 * low:.0f} ms and longer"
                )
                confidence = scored.posterior[mask, scored.predicted[mask]].mean()
                out.append(
                    (name, f"{int(mask.sum()):,}", _percent(float(wrong[mask].mean())), _percent(float(confidence)))
                )
        yield "<h2>By duration</h2>"
        yield _table(("duration", "segments", "errors %", "mean posterior %"), out)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = f"<thead><tr>{''.join(f'<th>{escape(h)}</th>' for h in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _percent(share: float | None) -> str:
    return "–" if share is None or not np.isfinite(share) else f"{100 * share:.1f}"
