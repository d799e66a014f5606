"""Every type of problem that the service answers with: a stable slug, its status, its title and a text for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem. `text` is for the person who reads its page: what it means and what to do."""

    slug: str
    status: int
    title: str
    text: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.slug}"


TYPES: dict[str, ProblemType] = {
    kind.slug: kind
    for kind in (
        ProblemType(
            "audio",
            422,
            "The sound cannot be used",
            "The file was decoded, but the sound cannot be labelled. `detail` says why.",
        ),
        ProblemType(
            "audio-unrecognised",
            415,
            "Not a sound file",
            "No decoder recognises the content, which decides, never the name or the declared type: a text file or an "
            "archive named .wav is refused. Send WAV, FLAC, Ogg, MP3 or NIST SPHERE.",
        ),
        ProblemType(
            "audio-empty",
            422,
            "No sound in the file",
            "The file has no bytes, or a header and no samples. Check that the recording was finished and that the "
            "upload sent the file itself.",
        ),
        ProblemType(
            "audio-truncated",
            422,
            "The sound file ends too early",
            "The container ends before any sound does. Copy or export the file again.",
        ),
        ProblemType(
            "audio-non-finite",
            422,
            "The sound has samples that are not numbers",
            "Floating-point samples hold NaN or infinity; `value` is the first such sample. Export the file again.",
        ),
        ProblemType(
            "upstream-failed",
            502,
            "Label Studio did not give what was asked for",
            "The service asks the Label Studio of its settings for the sound of tasks and for finished tasks. `detail` says "
            "what came instead; check PHONECHAIN_LABEL_STUDIO and PHONECHAIN_LABEL_STUDIO_TOKEN.",
        ),
        ProblemType(
            "body-slow",
            408,
            "The body came too slowly",
            "The service waits for a body, longer the more of it has arrived, and then closes the connection. Send the request "
            "again, over a faster connection.",
        ),
        ProblemType(
            "host",
            421,
            "The service is not known under this name",
            "The header Host names a host that PHONECHAIN_ALLOWED_HOSTS does not list. Unset, it takes IP addresses, names "
            "without a dot, and names of private use such as localhost and .internal. A page elsewhere could otherwise read "
            "what a service on this network answers, through a name of its own that leads here.",
        ),
        ProblemType(
            "cross-site",
            403,
            "A page of another site sent the request",
            "A browser says by Sec-Fetch-Site or Origin that another site made this request, which would change something. "
            "PHONECHAIN_CORS lists the sites that may.",
        ),
        ProblemType(
            "head-slow",
            408,
            "The head of the request came too slowly",
            "Request line and header fields have to come within PHONECHAIN_HEADER_TIMEOUT; `limit` is in seconds. The "
            "connection is closed.",
        ),
        ProblemType(
            "head-malformed",
            400,
            "Not an HTTP request",
            "What came is not a request after HTTP/1.1 (RFC 9112), or its head is longer than 64 KiB. The connection is "
            "closed.",
        ),
        ProblemType(
            "audio-too-long",
            413,
            "The recording is too long",
            "The decoded sound is longer than the service takes in one request; `limit` is in seconds. Cut the "
            "recording, or raise PHONECHAIN_MAX_AUDIO_SECONDS.",
        ),
        ProblemType(
            "audio-channel",
            422,
            "No such channel",
            "`channel` is an index from 0, or `mix` for the mean of all channels.",
        ),
        ProblemType(
            "annotation",
            422,
            "The annotation cannot be used",
            "The annotation file was read, but cannot be used. `detail` says why.",
        ),
        ProblemType(
            "annotation-unrecognised",
            415,
            "Not an annotation file",
            "No annotation format matches. The content decides, the file name only between formats that look alike.",
        ),
        ProblemType(
            "annotation-syntax",
            422,
            "The annotation file is broken",
            "The file breaks the grammar of its format; `line` says where.",
        ),
        ProblemType(
            "annotation-tier",
            422,
            "No such tier",
            "The annotation has no tier of that name; `tiers` lists those it has. Leave `tier` out to let the "
            "service choose.",
        ),
        ProblemType(
            "annotation-tier-words",
            422,
            "A tier of words, not of phones",
            "The labels of the tier look like words, and each of its intervals would be labelled as one phone; `tiers` "
            "lists the tiers that may hold phones. Name one of them with `tier`.",
        ),
        ProblemType(
            "segments",
            422,
            "The segments do not fit",
            "Segments are reversed, empty, overlapping, out of order or outside the sound. `errors` lists each with "
            "its index, its value and its limit, in seconds. `fix=true` sorts them and removes overlaps up to 10 ms.",
        ),
        ProblemType(
            "segments-empty", 422, "No segments", "There is nothing to label: the segmentation has no segments."
        ),
        ProblemType(
            "segments-too-many",
            413,
            "Too many segments",
            "There are more segments than the service takes in one request. Split the recording, or raise "
            "PHONECHAIN_MAX_SEGMENTS.",
        ),
        ProblemType(
            "phone-set",
            422,
            "A label outside its phone set",
            "A label is not in the phone set that it should be from, "
            "or `map` names a label that the model does not have; `labels` lists those there are.",
        ),
        ProblemType(
            "transcript",
            422,
            "The transcript cannot be aligned",
            "It has no words, words without a known pronunciation (`missing` lists them all), or more phones than can be "
            "said in that time. Check that text and sound belong together, or send a dictionary with the missing words.",
        ),
        ProblemType(
            "corpus", 422, "The corpus cannot be used", "The corpus as a whole cannot be used. `detail` says why."
        ),
        ProblemType(
            "model-file",
            422,
            "Not a usable model file",
            "The file is not a Phonechain model, or it is one of another version. Models are `.safetensors` "
            "files; pickles are never read.",
        ),
        ProblemType(
            "model-unknown",
            404,
            "No such model",
            "The service has no model of this name. GET /models lists them.",
        ),
        ProblemType(
            "settings",
            422,
            "A setting is out of range",
            "An option has a value that it cannot have; `detail` says what it may be.",
        ),
        ProblemType(
            "training", 422, "The training cannot continue", "The training stopped for the reason in `detail`."
        ),
        ProblemType(
            "request-invalid",
            422,
            "The request does not follow the interface",
            "A field or an option is missing, unknown or has a value that it cannot have. `errors` lists every one. "
            "The interface is described under /docs.",
        ),
        ProblemType(
            "body-malformed",
            400,
            "The body cannot be parsed",
            "The body is not what its Content-Type says: broken JSON or broken multipart.",
        ),
        ProblemType(
            "body-too-large",
            413,
            "The body is too large",
            "The request body is longer than the service reads; `limit` is in bytes. Send a compressed format such as "
            "FLAC, or raise PHONECHAIN_MAX_BODY_BYTES.",
        ),
        ProblemType(
            "media-type",
            415,
            "The body has the wrong media type",
            "Send multipart/form-data, or application/json. The fields of both are described under /docs.",
        ),
        ProblemType(
            "overloaded",
            503,
            "The service is busy",
            "The limit of requests in progress is reached. Nothing was done; repeat the request after the seconds in "
            "Retry-After.",
        ),
        ProblemType(
            "rate-limit",
            429,
            "Too many requests",
            "This key (without keys, this address) has sent more requests per minute than PHONECHAIN_RATE_LIMIT allows. "
            "Nothing was done; repeat the request after the seconds in Retry-After.",
        ),
        ProblemType(
            "not-ready",
            503,
            "The service is not ready",
            "The service is starting or stopping, or something that it needs does not answer: `parts` of /health/ready "
            "says what. Try again after Retry-After.",
        ),
        ProblemType(
            "corpus-unknown",
            404,
            "No such corpus",
            "The service has no corpus of this id. GET /corpora lists those it has.",
        ),
        ProblemType(
            "corpus-in-use",
            409,
            "The corpus is in use",
            "A job that has not ended reads this corpus. Cancel the job, or delete the corpus when it has ended.",
        ),
        ProblemType(
            "corpus-place",
            403,
            "The location is not allowed",
            "Folders and URLs can be registered only below those in PHONECHAIN_CORPUS_ROOTS.",
        ),
        ProblemType(
            "archive",
            422,
            "The archive cannot be used",
            "The archive is no zip or tar file, is damaged, or holds what is never unpacked: absolute paths, `..`, "
            "links, devices, encrypted members. `value` names the member.",
        ),
        ProblemType(
            "archive-too-large",
            413,
            "The archive is too large once unpacked",
            "The archive has more members, or unpacks to more bytes, than the service takes; `limit` says how many. "
            "Counted while it is read, whatever its headers say.",
        ),
        ProblemType(
            "model-exists",
            409,
            "The version already exists",
            "Versions of a model never change: another file is another version. This one already exists.",
        ),
        ProblemType(
            "model-in-use",
            409,
            "The model is in use",
            "An alias or a job that has not ended needs this version. Point the alias elsewhere, or end the job, "
            "first.",
        ),
        ProblemType(
            "job-unknown", 404, "No such job", "The service has no job of this id. GET /jobs lists those it has."
        ),
        ProblemType(
            "job-result",
            409,
            "The job has no result",
            "The job has not ended, or it ended without anything that could be fetched. `state` says which.",
        ),
        ProblemType(
            "job-stalled",
            422,
            "The job made no progress",
            "Its workers or the scheduler were lost several times in a row without progress.",
        ),
        ProblemType(
            "review-unknown",
            404,
            "No such review",
            "The service has no review, or no file in it, of this id. GET /reviews lists those it has.",
        ),
        ProblemType(
            "review-conflict",
            409,
            "The review has changed",
            "Another window or person has changed the review since the revision that the request names; `value` is the "
            "revision that came, `limit` the present one. Nothing was done. Read the operations after your revision, "
            "then send yours again.",
        ),
        ProblemType(
            "review-operation",
            422,
            "The operation cannot be carried out",
            "The segments of the review do not allow the operation; `detail` says why. None of the request was done.",
        ),
        ProblemType(
            "idempotency-key",
            422,
            "The Idempotency-Key was used before",
            "The same key came with another body. A key stands for one request: take a new one for a new request.",
        ),
        ProblemType(
            "job-gone",
            410,
            "The job of the Idempotency-Key was deleted",
            "The key started a job, `value`, that is not there any more: it was deleted, or its time was over. Send the request "
            "with a new key to start another.",
        ),
        ProblemType(
            "database-away",
            503,
            "The database does not answer",
            "Nothing was done; repeat the request after the seconds in Retry-After. Jobs continue by themselves when the "
            "database is back.",
        ),
        ProblemType(
            "database-unusable",
            503,
            "The database cannot be used",
            "It is damaged, or was migrated by a newer version; `detail` says which. Restore a backup, or run the newer version. "
            "`POST /classify` works without a database.",
        ),
        ProblemType(
            "scheduler-away",
            503,
            "The scheduler does not answer",
            "Jobs cannot be started now. Accepted jobs continue by themselves when the scheduler is back.",
        ),
        ProblemType(
            "storage-full",
            507,
            "Disk full",
            "The service's disk is full. What was finished is kept. Free some space, then repeat the request.",
        ),
        ProblemType(
            "storage-quota",
            507,
            "Too much is stored",
            "With this, the key or the service would store more than `limit` bytes. Delete jobs, corpora, models or reviews, or "
            "raise PHONECHAIN_MAX_KEY_BYTES or PHONECHAIN_MAX_STORED_BYTES.",
        ),
        ProblemType(
            "key-missing",
            401,
            "A key is needed",
            "Send an API key of this service: `Authorization: Bearer KEY`.",
        ),
        ProblemType(
            "key-scope",
            403,
            "The key does not allow this",
            "The key lacks the scope in `needed`.",
        ),
        ProblemType("key-unknown", 404, "No such key", "The service has no API key of this id."),
        ProblemType(
            "webhook",
            422,
            "The address cannot be called",
            "A webhook needs an http or https address that does not lead into the service's own network. "
            "PHONECHAIN_WEBHOOK_PRIVATE allows those as well.",
        ),
        ProblemType("not-found", 404, "Nothing at this address", "The service has nothing at this address."),
        ProblemType(
            "method-not-allowed",
            405,
            "The address does not take this method",
            "The header Allow lists the methods that it takes.",
        ),
        ProblemType(
            "internal",
            500,
            "The service failed",
            "A bug in the service, not in the request. The log has it under the request id.",
        ),
        ProblemType("http", 400, "The request was refused", "`status` and `detail` say why."),
    )
}
