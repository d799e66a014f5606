"""What only the service refuses. `features/errors.py` has the domain's; `app/problems/documents.py` maps both to HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phonechain.features.errors import PhonechainError


class ServiceError(PhonechainError):
    """What only a service can refuse; the domain's own errors come from `features` and `model`."""

    headers: Mapping[str, str] = {}


class InvalidRequest(ServiceError):
    """The request does not follow the interface. `findings` are members of `errors`, each with its own place."""

    slug = "request-invalid"

    def __init__(self, message: str, *, findings: Sequence[Mapping[str, Any]] = (), **more: Any) -> None:
        super().__init__(message, **more)
        self.findings = tuple(findings)


class MalformedBody(ServiceError):
    slug = "body-malformed"


class UnsupportedMediaType(ServiceError):
    slug = "media-type"


class BodyTooLarge(ServiceError):
    slug = "body-too-large"


class TooManySegments(ServiceError):
    slug = "segments-too-many"


class UnknownModel(ServiceError):
    slug = "model-unknown"


class UnknownProblem(ServiceError):
    slug = "not-found"


class Overloaded(ServiceError):
    slug = "overloaded"

    def __init__(self, message: str, *, retry_after: int, **more: Any) -> None:
        super().__init__(message, **more)
        self.headers = {"Retry-After": str(retry_after)}


class NotReady(Overloaded):
    slug = "not-ready"


class RateLimited(Overloaded):
    slug = "rate-limit"


class DatabaseAway(Overloaded):
    slug = "database-away"


class DatabaseUnusable(DatabaseAway):
    """It is damaged, or of a newer version: it does not come back by itself."""

    slug = "database-unusable"


class SchedulerAway(Overloaded):
    slug = "scheduler-away"


class UpstreamFailed(ServiceError):
    slug = "upstream-failed"


class StorageFull(ServiceError):
    slug = "storage-full"


class QuotaExceeded(ServiceError):
    slug = "storage-quota"


class UnknownCorpus(ServiceError):
    slug = "corpus-unknown"


class CorpusInUse(ServiceError):
    slug = "corpus-in-use"


class PlaceNotAllowed(ServiceError):
    slug = "corpus-place"


class ArchiveError(ServiceError):
    slug = "archive"


class ArchiveTooLarge(ArchiveError):
    slug = "archive-too-large"


class BodyTooSlow(ServiceError):
    slug = "body-slow"
    headers: Mapping[str, str] = {"Connection": "close"}


class HostNotAllowed(ServiceError):
    slug = "host"


class CrossSite(ServiceError):
    slug = "cross-site"


class HeadTooSlow(ServiceError):
    slug = "head-slow"
    headers: Mapping[str, str] = {"Connection": "close"}


class MalformedHead(ServiceError):
    slug = "head-malformed"
    headers: Mapping[str, str] = {"Connection": "close"}


class ModelExists(ServiceError):
    slug = "model-exists"


class ModelInUse(ServiceError):
    slug = "model-in-use"


class UnknownJob(ServiceError):
    slug = "job-unknown"


class NoResult(ServiceError):
    slug = "job-result"


class JobStalled(ServiceError):
    slug = "job-stalled"


class KeyReused(ServiceError):
    """An Idempotency-Key with another body."""

    slug = "idempotency-key"


class JobGone(ServiceError):
    """An Idempotency-Key whose job was deleted."""

    slug = "job-gone"


class KeyMissing(ServiceError):
    slug = "key-missing"
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class KeyForbidden(ServiceError):
    slug = "key-scope"


class UnknownKey(ServiceError):
    slug = "key-unknown"


class WebhookRefused(ServiceError):
    slug = "webhook"


class UnknownReview(ServiceError):
    slug = "review-unknown"


class ReviewConflict(ServiceError):
    """Somebody else's operations came first."""

    slug = "review-conflict"


class InvalidOperation(ServiceError):
    slug = "review-operation"
