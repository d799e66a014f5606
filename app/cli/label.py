"""`phonechain label`: recordings and their segmentations in, labels and posteriors out.

One recording is labelled here, a folder of them in `label_folder`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import answers, common, options, picture
from phonechain.app.cli.certainty import Ranking
from phonechain.app.cli.label_folder import label_folder
from phonechain.features.errors import AudioError, SettingsError

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.features.annotation import Annotation
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler


def label(
    audio: Annotated[
        Path, typer.Argument(help="A recording, or a folder of recordings with annotations.", metavar="AUDIO")
    ],
    segments: Annotated[
        Path | None,
        typer.Argument(help="Its segmentation, in any annotation format; omit it for a folder.", metavar="[SEGMENTS]"),
    ] = None,
    model: options.Model = "default",
    tier: options.Tier = None,
    all_speakers: options.AllSpeakers = False,
    utterance: options.Recording = None,
    shift: options.Shift = "0",
    raw: options.Raw = None,
    channel: Annotated[
        str,
        typer.Option(help="Channel to read: an index from 0, or mix. Default: the one named in SEGMENTS, or mix."),
    ] = "mix",
    n_best: Annotated[
        int, typer.Option("--n-best", "-n", help="Number of labels to list per segment.", min=1, max=1000)
    ] = 1,
    decode: options.Decode = "posterior",
    normalise: options.Normalise = None,
    entropy: Annotated[
        bool, typer.Option("--entropy", help="Show the entropy of each segment's posterior, in nats (table and JSON).")
    ] = False,
    gop: Annotated[
        bool,
        typer.Option(
            "--gop",
            help="Show how well each segment fits its given label: log posterior, log posterior ratio, goodness of "
            "pronunciation (table and JSON).",
        ),
    ] = False,
    sequences: Annotated[
        int,
        typer.Option(
            help="Show the N most probable label sequences, with probabilities (table and JSON).", metavar="N", min=0
        ),
    ] = 0,
    words: Annotated[
        bool,
        typer.Option("--words", help="Show the probability that all labels of each word are right (table and JSON)."),
    ] = False,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Add the posteriors of the model's hidden variables (JSON).")
    ] = False,
    fix: options.Fix = False,
    on_bad_segment: options.BadSegment = "refuse",
    gaps: options.Gaps = "across",
    max_gap: options.MaxGap = 0.2,
    map_: options.LabelMap = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="table, json, or an annotation format. Default: from the name of --out; for a folder, that of each input.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write instead of standard output; a folder if AUDIO is one."),
    ] = None,
    doubtful: Annotated[
        int,
        typer.Option(
            help="Print the N least certain given labels, and the N least certain answers to segments without one.",
            metavar="N",
            min=0,
        ),
    ] = 0,
    table: Annotated[
        Path | None, typer.Option("--table", help="Write every segment to this CSV file, least certain first.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the spectrogram, tiers and certainty to this .png, .svg or .pdf file."),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
) -> None:
    """Label the segments of recordings.

    A segment's certainty is the support of its given label, if the model knows that label: the probability that the label
    is right, given the sound and all other labels. Otherwise it is the posterior of the answer. The two are ranked
    separately.
    """
    # Before numpy and torch are loaded: further threads cost a tenth of the time of a short recording, and gain nothing.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from phonechain.app.labelling.extras import Extras

    checked = options.check_options(
        utterance=utterance,
        shift=shift,
        raw=raw,
        channel=channel,
        n_best=n_best,
        decode=decode,
        fix=fix,
        tier=tier,
        on_bad_segment=on_bad_segment,
        gaps=gaps,
        max_gap=max_gap,
    )
    checked["mapping"] = common.read_map(map_)
    common.check_output(table)
    picture.check_picture(plot, audio.is_dir())
    if all_speakers and tier is not None:
        raise SettingsError("--all-speakers: expected no --tier, got both")
    extras = Extras(sequences, words, hidden)
    if audio.is_dir():
        if segments is not None:
            raise SettingsError(
                f"SEGMENTS ({segments}) cannot be used with a folder: they are read from beside its recordings"
            )
        label_folder(
            audio, out, model, format, checked, doubtful, table, entropy=entropy, gop=gop, normalise=normalise,
            all_speakers=all_speakers, extras=extras, device=device, precision=precision,
        )  # fmt: skip
        return
    common.check_file(audio, "a sound file")
    if segments is None:
        raise SettingsError(f"SEGMENTS is missing: expected the segmentation of {audio}")
    common.check_file(segments, "an annotation file")
    common.check_output(out)
    form = common.choose_format(format, out)
    if extras and form not in (("json",) if hidden else ("json", "table")):
        raise SettingsError(f"--format: expected json{'' if hidden else ' or table'} with these options, got {form}")
    labeler = common.load_model(model, device, precision)
    support = bool(doubtful) or table is not None
    from phonechain.app.labelling.pipeline import note_precision
    from phonechain.app.labelling.sequences import describe

    if all_speakers:
        labelled_tiers = label_all_speakers(labeler, audio, segments, normalise=normalise, support=support, **checked)
    else:
        labelled_tiers = [label_files(labeler, audio, segments, normalise=normalise, support=support, **checked)]
    for ready, _ in labelled_tiers:
        ready.notices += note_precision(labeler.model_)
    common.warn(dict.fromkeys(notice for ready, _ in labelled_tiers for notice in ready.notices))
    more = (
        [describe(labeler, ready, own, extras, normalise=normalise) for ready, own in labelled_tiers] if extras else []
    )
    answers.write(
        labeler,
        model,
        labelled_tiers,
        form,
        out,
        all_speakers=all_speakers,
        entropy=entropy or sequences > 0,
        gop=gop,
        more=more,
    )
    if plot is not None:
        picture.draw(audio, channel, labelled_tiers, plot)
    if doubtful or table is not None:
        ranking = Ranking()
        for ready, labelled in labelled_tiers:
            ranking.add(f"{segments}#{ready.tier.name}" if all_speakers else str(segments), ready, labelled)
        ranking.output(doubtful, table)


def label_files(
    labeler: PhoneLabeler,
    audio: Path,
    segments: Path,
    *,
    n_best: int,
    decode: Any,
    normalise: str | None = None,
    support: bool = False,
    mapping: Any = None,
    utterance: str | None = None,
    shift: Any = 0.0,
    **more: Any,
) -> tuple[Prepared, list[LabelledSegment]]:
    """Read two files and label the segments. Raises PhonechainError, OSError."""
    from phonechain.app.labelling import pipeline

    segmentation = _read(audio, segments, utterance, shift, more.get("channel", "mix"))
    known = labeler.label_set_.with_map(mapping)
    with common.name_file(audio, AudioError):
        ready = pipeline.prepare_utterance(audio, segmentation, labeler.features_, known=known, **more)
    ready.normalised = mode = labeler.normalisation(normalise)
    [labelled] = pipeline.label_sequences(
        labeler.model_,
        [(ready.inputs, ready.segments, ready.starts)],
        n_best=n_best,
        decode=decode,
        comparisons=[ready.comparison],
        mode=mode,
        support=support,
    )
    return ready, labelled


def label_all_speakers(
    labeler: PhoneLabeler,
    audio: Path,
    segments: Path,
    *,
    mapping: Any = None,
    utterance: str | None = None,
    shift: Any = 0.0,
    **more: Any,
) -> list[tuple[Prepared, list[LabelledSegment]]]:
    """Read two files and label the phone tiers of all speakers. Raises PhonechainError, OSError."""
    from phonechain.app.labelling import speakers

    segmentation = _read(audio, segments, utterance, shift, more.get("channel", "mix"))
    del more["tier"]
    return speakers.label_speakers(labeler, audio, segmentation, known=labeler.label_set_.with_map(mapping), **more)


def _read(audio: Path, segments: Path, utterance: str | None, shift: Any, channel: Any) -> Annotation:
    """The annotation of a recording, its times shifted. Raises AnnotationError, OSError."""
    from phonechain.features import annotation

    with common.name_file(segments):
        segmentation = annotation.read(
            segments.read_bytes(),
            name=segments.name,
            utterance=utterance,
            audio=audio.stem,
            channel=None if channel == "mix" else channel,
        )
    return annotation.shift(segmentation, shift)
