"""Every type of problem that the service answers with: a stable slug, its status, a title, and a text for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Paragraphs: a line of slug, status and title, then the text of the problem's page, which says what it means and what to do.
_TABLE = """
audio 422 The sound cannot be used
The file was decoded, but the sound cannot be labelled. `detail` says why.

audio-unrecognised 415 Not a sound file
No decoder recognises the content. The content decides, not the name or the declared type: a text file or an archive
named .wav is refused. Send WAV, FLAC, Ogg, MP3 or NIST SPHERE.

audio-empty 422 The file contains no sound
The file is empty, or has a header but no samples. Check that the recording was finished and that the upload sent the
whole file.

audio-truncated 422 The sound file ends too early
The file ends before any sound. Copy or export it again.

audio-non-finite 422 The sound contains invalid samples
Floating-point samples are NaN or infinite; `value` is the index of the first. Export the file again.

upstream-failed 502 Label Studio did not answer as expected
The service asked the Label Studio in its settings for the sound of a task or for finished tasks. `detail` says what
went wrong. Check PHONECHAIN_LABEL_STUDIO and PHONECHAIN_LABEL_STUDIO_TOKEN.

body-slow 408 The request body arrived too slowly
The service waits for a body (longer, the more of it has arrived) and then closes the connection. Send the request
again over a faster connection.

host 421 The service is not known under this host name
The Host header names a host that PHONECHAIN_ALLOWED_HOSTS does not list. If that setting is unset, the service
accepts IP addresses, names without a dot, and private names such as localhost and .internal. Without this check, a
web page could read answers through a host name of its own that resolves to this service.

cross-site 403 The request came from a page of another site
According to its Sec-Fetch-Site or Origin header, this request, which would change something, was sent by a page of
another site. PHONECHAIN_CORS lists the sites that may do so.

head-slow 408 The request head arrived too slowly
The request line and header fields must arrive within PHONECHAIN_HEADER_TIMEOUT; `limit` is in seconds. The service
closes the connection.

head-malformed 400 Not an HTTP request
The data is not an HTTP/1.1 request (RFC 9112), or its head is longer than 64 KiB. The service closes the connection.

audio-too-long 413 The recording is too long
The decoded sound is longer than the service accepts in one request; `limit` is in seconds. Split the recording, or
raise PHONECHAIN_MAX_AUDIO_SECONDS.

audio-channel 422 No such channel
`channel` must be an index from 0, or `mix` for the mean of all channels.

annotation 422 The annotation cannot be used
The annotation file was read, but cannot be used. `detail` says why.

annotation-unrecognised 415 Not an annotation file
The file matches no annotation format. The content decides; the file name matters only between formats that look
alike.

annotation-syntax 422 The annotation file is malformed
The file violates the grammar of its format; `line` says where.

annotation-tier 422 No such tier
The annotation has no tier with that name; `tiers` lists the names it has. Leave out `tier` to let the service choose.

annotation-tier-words 422 The tier contains words, not phones
The labels of the tier look like words, and each interval would be labelled as one phone. `tiers` lists the tiers that
may contain phones; name one of them in `tier`.

segments 422 The segments are invalid
Segments are reversed, empty, overlapping, out of order or outside the sound. `errors` lists each with its index, its
value and its limit in seconds. `fix=true` sorts them and removes overlaps up to 10 ms.

segments-empty 422 No segments
The segmentation contains no segments, so there is nothing to label.

segments-too-many 413 Too many segments
There are more segments than the service accepts in one request. Split the recording, or raise
PHONECHAIN_MAX_SEGMENTS.

phone-set 422 The label is not in the phone set
A label is not in the expected phone set, or `map` names a label that the model does not have. `labels` lists the
valid labels.

transcript 422 The transcript cannot be aligned
The transcript is empty, contains words without a known pronunciation (`missing` lists them all), or has more phones
than fit into the recording. Check that text and sound belong together, or send a dictionary with the missing words.

corpus 422 The corpus cannot be used
`detail` says why the corpus as a whole cannot be used.

model-file 422 Not a usable model file
The file is not a Phonechain model, or has an unsupported version. Models are `.safetensors` files; pickles are never
loaded.

model-unknown 404 No such model
The service has no model with this name. GET /models lists them.

settings 422 Invalid value for a setting
An option has an invalid value; `detail` says which values are allowed.

training 422 The training cannot continue
`detail` says why the training stopped.

request-invalid 422 The request is invalid
A field or an option is missing, unknown or has an invalid value. `errors` lists every one. /docs describes the
interface.

body-malformed 400 The request body cannot be parsed
The body does not match its Content-Type: the JSON or multipart data is malformed.

body-too-large 413 The request body is too large
The body is longer than the service accepts; `limit` is in bytes. Send a compressed format such as FLAC, or raise
PHONECHAIN_MAX_BODY_BYTES.

media-type 415 Unsupported media type
Send multipart/form-data or application/json. /docs describes the fields of both.

overloaded 503 The service is busy
The limit on requests in progress has been reached. Nothing was done; repeat the request after the number of seconds
in Retry-After.

rate-limit 429 Too many requests
This key (or, without keys, this address) has sent more requests per minute than PHONECHAIN_RATE_LIMIT allows. Nothing
was done; repeat the request after the number of seconds in Retry-After.

not-ready 503 The service is not ready
The service is starting or stopping, or something it depends on does not respond; `parts` in /health/ready says what.
Try again after the number of seconds in Retry-After.

corpus-unknown 404 No such corpus
The service has no corpus with this id. GET /corpora lists them.

corpus-in-use 409 The corpus is in use
An unfinished job uses this corpus. Cancel the job, or delete the corpus when the job has ended.

corpus-place 403 The location is not allowed
Only folders and URLs under those in PHONECHAIN_CORPUS_ROOTS can be registered.

archive 422 The archive cannot be used
The file is not a zip or tar archive, is damaged, or contains something that is never unpacked: absolute paths, `..`,
links, devices or encrypted members. `value` names the member.

archive-too-large 413 The unpacked archive is too large
The archive has more members, or unpacks to more bytes, than the service accepts; `limit` says how many. The service
counts what it reads, not what the headers claim.

model-exists 409 The model version already exists
A model version never changes. This one already exists; a different file would have a different version.

model-in-use 409 The model is in use
An alias or an unfinished job needs this version. Point the alias at another version, or cancel the job, first.

job-unknown 404 No such job
The service has no job with this id. GET /jobs lists them.

job-result 409 The job has no result
The job has not ended, or ended without a result; `state` says which.

job-stalled 422 The job made no progress
Workers or the scheduler were lost several times in a row, without any progress in between.

review-unknown 404 No such review
The service has no review with this id, or the review has no such file. GET /reviews lists the reviews.

review-conflict 409 The review has changed
Another window or person has changed the review since the revision named in the request; `value` is the requested
revision, `limit` the current one. Nothing was done. Read the operations after your revision, then send yours again.

review-operation 422 The operation cannot be carried out
The segments of the review do not allow the operation; `detail` says why. None of the operations in the request was
carried out.

idempotency-key 422 The Idempotency-Key was already used
The same key was sent with a different body. A key stands for one request; use a new key for a new request.

job-gone 410 The job for this Idempotency-Key was deleted
The key started a job (`value`) that has since been deleted or has expired. To start another, send the request with a
new key.

database-away 503 The database does not respond
Nothing was done; repeat the request after the number of seconds in Retry-After. Jobs continue when the database is
back.

database-unusable 503 The database cannot be used
The database is damaged, or was migrated by a newer version; `detail` says which. Restore a backup, or run the newer
version. `POST /classify` works without a database.

scheduler-away 503 The scheduler does not respond
Jobs cannot be started now. Accepted jobs continue when the scheduler is back.

storage-full 507 Disk full
The service's disk is full. Finished work is kept. Free some space, then repeat the request.

storage-quota 507 Storage quota exceeded
With this request, the key or the service would store more than `limit` bytes. Delete jobs, corpora, models or
reviews, or raise PHONECHAIN_MAX_KEY_BYTES or PHONECHAIN_MAX_STORED_BYTES.

key-missing 401 An API key is required
Send an API key for this service: `Authorization: Bearer KEY`.

key-scope 403 The key does not allow this
The key lacks the scope named in `needed`.

key-unknown 404 No such key
The service has no API key with this id.

webhook 422 The webhook address is not allowed
A webhook needs an http or https address outside the service's own network. PHONECHAIN_WEBHOOK_PRIVATE allows
addresses inside it.

not-found 404 Nothing at this address
The service has nothing at this address.

method-not-allowed 405 The address does not support this method
The Allow header lists the methods that it supports.

internal 500 Internal error
This is a bug in the service, not in the request. The log has details under the request id.

http 400 The request was refused
`status` and `detail` say why.
"""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem. `text` is for the reader of its page: what it means and what to do."""

    slug: str
    status: int
    title: str
    text: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.slug}"


def _parse_table(table: str) -> Iterator[ProblemType]:
    for paragraph in table.strip().split("\n\n"):
        head, *text = paragraph.splitlines()
        slug, status, title = head.split(maxsplit=2)
        yield ProblemType(slug, int(status), title, " ".join(text))


TYPES: dict[str, ProblemType] = {kind.slug: kind for kind in _parse_table(_TABLE)}
