"""Phonechain: the phones of speech, where they begin, and an honest certainty of both.

    import phonechain

    labeler = phonechain.PhoneLabeler.load(phonechain.pretrained_path())
    audio = phonechain.read_audio("speech.wav")
    for segment in labeler.label(audio, phonechain.read_segments("speech.TextGrid")):
        print(segment.start, segment.label, segment.posterior)

Names are imported when they are first used: `import phonechain` alone loads neither numpy nor torch.
"""

TYPE_CHECKING = False  # as typing.TYPE_CHECKING for type checkers, without the import of typing

_HOMES = {
    "Alignment": "phonechain.model.segmental.answers",
    "Annotation": "phonechain.features.annotation",
    "Audio": "phonechain.features.audio.reader",
    "CRF": "phonechain.model.chain.layer",
    "Client": "phonechain.app.client",
    "Corpus": "phonechain.features.corpora",
    "LabelledSegment": "phonechain.model.answers",
    "PhoneAligner": "phonechain.model.segmental.aligner",
    "PhoneLabeler": "phonechain.model.labeler",
    "PhonechainError": "phonechain.features.errors",
    "Segment": "phonechain.features.segments",
    "Utterance": "phonechain.features.segments",
    "align": "phonechain.app.alignment.python",
    "compare": "phonechain.app.evaluation.compare",
    "pretrained_path": "phonechain.model",
    "read_annotation": "phonechain.features.reading",
    "read_audio": "phonechain.features.reading",
    "read_corpus": "phonechain.features.reading",
    "read_segments": "phonechain.features.reading",
    "recognize": "phonechain.app.alignment.python",
}
"""Where each public name is defined."""

__all__ = [
    "CRF",
    "Alignment",
    "Annotation",
    "Audio",
    "Client",
    "Corpus",
    "LabelledSegment",
    "PhoneAligner",
    "PhoneLabeler",
    "PhonechainError",
    "Segment",
    "Utterance",
    "align",
    "compare",
    "pretrained_path",
    "read_annotation",
    "read_audio",
    "read_corpus",
    "read_segments",
    "recognize",
]

if TYPE_CHECKING:
    from phonechain import plot as plot
    from phonechain.app.alignment.python import align, recognize
    from phonechain.app.client import Client
    from phonechain.app.evaluation.compare import compare
    from phonechain.features.annotation import Annotation
    from phonechain.features.audio.reader import Audio
    from phonechain.features.corpora import Corpus
    from phonechain.features.errors import PhonechainError
    from phonechain.features.reading import read_annotation, read_audio, read_corpus, read_segments
    from phonechain.features.segments import Segment, Utterance
    from phonechain.model import pretrained_path
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.chain.layer import CRF
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.answers import Alignment

    __version__: str
else:

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            value = import_module("phonechain.app.version").version()
        elif name == "plot":  # needs matplotlib only where it draws
            value = import_module("phonechain.plot")
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'phonechain' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*__all__, "__version__", "plot"})
