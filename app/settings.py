"""The settings of the service: one class, every variable with its default, unit and meaning.

Each field is read from the environment variable `PHONECHAIN_<FIELD>`; an empty one counts as unset, as compose files
and process managers leave it. What may hold a password can also lie in a file that `PHONECHAIN_<FIELD>_FILE` names.
`docs/operations.md` holds the same table, and a test keeps the two equal. A value that cannot be used stops the start
with one line that names the variable.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import ByteSize, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from phonechain.app.setting_types import (
    AdminKey,
    Device,
    Hosts,
    Memory,
    Networks,
    OriginList,
    Roots,
    Scheduler,
    WebAddress,
    split_list,
)

PREFIX = "PHONECHAIN_"

NOT_SETTINGS = frozenset(
    f"{PREFIX}{name}" for name in ("SHARED", "URL", "KEY", "WORKER_DATABASE", "WORKER_STORE", "WORKER_DATA")
)
"""Variables with the prefix that others read: the tests, the client of the job API, tasks in workers."""

SECRETS = ("database", "admin_key", "webhook_secret", "label_studio_token")
"""Settings that may hold a password, and so may lie in a file."""


def _setting(default: Any, unit: str, description: str, **bounds: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"unit": unit}, **bounds)


class Settings(BaseSettings):
    """What the service can be told from outside. Immutable once read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    host: str = _setting(
        "127.0.0.1", "address", "Address to listen on; 0.0.0.0 listens on every interface.", min_length=1
    )
    port: int = _setting(8000, "port", "TCP port to listen on; 0 takes any free port.", ge=0, le=65535)
    model: Path | None = _setting(None, "path", "Model file served as `default`; unset serves the shipped default.")
    models: Path | None = _setting(
        None,
        "path",
        "Folder of model files to serve beside the shipped `paper`, `small` and `english-alignment`, each under its file name "
        "without `.safetensors`; a file with the name of a shipped model replaces it.",
    )
    max_body_bytes: ByteSize = _setting(
        ByteSize(64 * 2**20),
        "bytes",
        "Largest request body, such as `64MiB`; longer ones are refused before they are parsed.",
        ge=1024,
        le=2**40,
    )
    body_timeout: float = _setting(
        30.0,
        "seconds",
        "How long the service waits for more of a request body; every 16 KiB received adds a second, up to the same "
        "limit. Then it answers 408.",
        gt=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    max_bytes_in_flight: ByteSize = _setting(
        ByteSize(256 * 2**20),
        "bytes",
        "Memory for the bodies of all requests in progress; bodies above 1 MiB share three quarters of it. Beyond "
        "that, requests are answered 503 with Retry-After. Uploads go to the data folder and do not count.",
        ge=1024,
        le=2**50,
    )
    header_timeout: float = _setting(
        15.0,
        "seconds",
        "How long a request's head may take from its first byte; then the service answers 408.",
        gt=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    max_connections: int = _setting(
        2000,
        "connections",
        "Open connections. Above this number, the connection that has kept the service waiting longest for a request "
        "is closed.",
        ge=1,
        le=10**6,
    )
    max_audio_seconds: float = _setting(
        600.0, "seconds", "Longest recording in one request, in decoded sound.", gt=0.0, le=86400.0, allow_inf_nan=False
    )
    max_segments: int = _setting(20_000, "segments", "Maximum number of segments in one request.", ge=1, le=10_000_000)
    max_n_best: int = _setting(50, "labels", "Maximum number of alternatives (`n_best`) in one request.", ge=1, le=1000)
    queue_size: int = _setting(
        64,
        "requests",
        "Requests in progress (being decoded, waiting or being labelled); further ones are answered 503 with "
        "Retry-After.",
        ge=1,
        le=100_000,
    )
    batch_segments: int = _setting(
        4096,
        "segments",
        "Maximum number of segments in one batch; a longer utterance is a batch of its own.",
        ge=1,
        le=10_000_000,
    )
    retry_after: int = _setting(1, "seconds", "Retry-After of a 503 answer when the service is busy.", ge=1, le=3600)
    processes: int = _setting(
        1,
        "processes",
        "Processes that answer requests on the port; 0 starts one per core, at most 4. They share all limits; each loads the "
        "models.",
        ge=0,
        le=64,
    )
    decode_threads: int = _setting(2, "threads", "Threads that decode sound and compute features.", ge=1, le=256)
    torch_threads: int = _setting(
        1, "threads", "Threads used by torch; 0 uses every core available to the process.", ge=0, le=1024
    )
    device: Device = _setting(
        "auto",
        "device",
        "Device that models use in the service and its workers: `cpu`, `cuda`, `cuda:N`, or `auto` (a GPU if torch can use one, "
        "otherwise the CPU). Of an alignment, only the network runs there.",
    )
    precision: Literal["float32", "bfloat16"] = _setting(
        "float32",
        "format",
        "Precision in which labelling models multiply, in requests and, unless a job says otherwise, in jobs. With `bfloat16`, "
        "posteriors change by up to 0.01, and every answer says so; whether it is faster depends on the machine "
        "(docs/measurements.md).",
    )
    data: Path | None = _setting(
        None,
        "path",
        "Data folder for the database, corpora, models and results; unset uses `phonechain` in the user's data folder.",
    )
    database: str | None = _setting(
        None, "URL", "Database, `postgresql://USER:PASSWORD@HOST/NAME`; unset uses an SQLite file in the data folder."
    )
    store: str | None = _setting(
        None,
        "URL",
        "Where corpora, models and results are stored, such as `s3://BUCKET/PREFIX`; unset uses the data folder.",
    )
    migrate: bool = _setting(True, "", "Migrate the database at start-up; otherwise run `phonechain db upgrade`.")
    scheduler: Scheduler | None = _setting(
        None, "address", "Dask scheduler, `tcp://HOST:8786`; unset runs jobs in the service's own worker processes."
    )
    tls_ca: Path | None = _setting(
        None, "path", "Certificate authority (PEM) of the Dask cluster; if set, all connections in the cluster use TLS."
    )
    tls_cert: Path | None = _setting(None, "path", "This process's certificate (PEM), signed by that authority.")
    tls_key: Path | None = _setting(None, "path", "Key (PEM) of that certificate.")
    workers: int = _setting(
        0, "processes", "The service's own worker processes; 0 starts one per available core.", ge=0, le=1024
    )
    worker_memory: Memory = _setting(
        "auto", "bytes", "Memory at which a worker process is restarted, such as `2GiB`; `0` sets no limit."
    )
    shard_files: int = _setting(64, "utterances", "Utterances per part of a labelling job.", ge=1, le=10_000)
    job_stalls: int = _setting(
        8,
        "times",
        "Consecutive losses of a worker or scheduler without progress before a job fails.",
        ge=1,
        le=10**6,
    )
    max_jobs: int = _setting(
        1000, "jobs", "Maximum number of unfinished jobs; further ones are answered 503.", ge=1, le=10**6
    )
    max_key_jobs: int = _setting(
        0,
        "jobs",
        "Maximum number of unfinished jobs per API key; further ones are answered 503. 0 sets no limit.",
        ge=0,
        le=10**6,
    )
    max_stored_bytes: ByteSize = _setting(
        ByteSize(0),
        "bytes",
        "Maximum total size of corpora, jobs, models and reviews; beyond it, requests are answered 507. 0 sets no "
        "limit.",
        ge=0,
        le=2**60,
    )
    max_key_bytes: ByteSize = _setting(
        ByteSize(0),
        "bytes",
        "The same for everything that one API key has uploaded or created. 0 sets no limit.",
        ge=0,
        le=2**60,
    )
    keep_jobs: float = _setting(
        0.0,
        "days",
        "Days after which a finished job is deleted with its uploaded files; models stay. 0 keeps all.",
        ge=0.0,
        le=36_500.0,
        allow_inf_nan=False,
    )
    keep_events: float = _setting(
        30.0,
        "days",
        "Days after which the events of a finished job are deleted, except the last one. 0 keeps all.",
        ge=0.0,
        le=36_500.0,
        allow_inf_nan=False,
    )
    keep_replays: float = _setting(
        7.0,
        "days",
        "Days for which an Idempotency-Key is remembered. 0 keeps all.",
        ge=0.0,
        le=36_500.0,
        allow_inf_nan=False,
    )
    max_upload_bytes: ByteSize = _setting(
        ByteSize(4 * 2**30), "bytes", "Largest uploaded corpus or model file.", ge=1024, le=2**50
    )
    max_archive_bytes: ByteSize = _setting(
        ByteSize(16 * 2**30), "bytes", "Maximum unpacked size of an uploaded archive.", ge=1024, le=2**50
    )
    max_archive_files: int = _setting(
        500_000, "files", "Maximum number of members in an uploaded archive.", ge=1, le=10**8
    )
    corpus_roots: Roots = _setting(
        "", "paths", "Folders and URLs, separated by commas, under which corpora can be registered; unset allows none."
    )
    admin_key: AdminKey | None = _setting(
        None, "key", "API key with all rights, at least 16 characters. Once it is set, every request needs a key."
    )
    webhook_secret: SecretStr | None = _setting(
        None, "key", "Secret for signing webhooks (`whsec_` and base64, or any text); unset sends them unsigned."
    )
    label_studio: WebAddress | None = _setting(
        None,
        "address",
        "Address of the Label Studio that uses this service as a backend, such as http://localhost:8080. Sound for "
        "its tasks is fetched from nowhere else.",
    )
    label_studio_token: SecretStr | None = _setting(
        None, "key", "Label Studio access token, legacy or personal, for fetching sound and tasks."
    )
    webhook_private: bool = _setting(False, "", "Allow webhooks to call private and loopback addresses.")
    rate_limit: int = _setting(
        0,
        "requests per minute",
        "Requests per minute from one API key (without keys, from one client address); further ones are answered 429. "
        "0 sets no limit.",
        ge=0,
        le=10**6,
    )
    proxies: Networks = _setting(
        "127.0.0.1",
        "addresses",
        "Proxies whose X-Forwarded-For is trusted: addresses or networks, separated by commas; `*` trusts all.",
    )
    allowed_hosts: Hosts = _setting(
        "",
        "names",
        "Host names of the service (the Host header), separated by commas; `*.example.org` for all names below one, "
        "`*` for all. Unset allows IP addresses, names without a dot, and private names (localhost, .localhost, "
        ".local, .internal, .home.arpa).",
    )
    cors: OriginList = _setting(
        "",
        "origins",
        "Sites whose pages may use the service from a browser, such as `https://example.org`, separated by commas; "
        "`*` for every site. Unset allows only the service's own page.",
    )
    metrics: Literal["open", "key", "off"] = _setting(
        "open",
        "open, key, off",
        "Who may read /metrics: everybody, keys with the scope read (once there are keys), or nobody.",
    )
    log_format: Literal["text", "json"] = _setting("text", "text, json", "Log as text, or as one JSON object per line.")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "level", "Lowest level to log: debug, info, warning or error; requests are logged at info."
    )
    ready_timeout: float = _setting(
        2.0,
        "seconds",
        "How long /health/ready waits for the database and the scheduler.",
        gt=0.0,
        le=60.0,
        allow_inf_nan=False,
    )
    stop_delay: float = _setting(
        0.0,
        "seconds",
        "Time between SIGTERM, when the service stops being ready, and refusing new connections, for load balancers "
        "to notice.",
        ge=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    stop_grace: int = _setting(
        30, "seconds", "Time for accepted requests to finish after that; then they are aborted.", ge=0, le=3600
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Settings:
        given = [value is not None for value in (self.tls_ca, self.tls_cert, self.tls_key)]
        if any(given) and not all(given):
            raise PydanticCustomError(
                "tls", "PHONECHAIN_TLS_CA, PHONECHAIN_TLS_CERT, PHONECHAIN_TLS_KEY: expected all three"
            )
        if all(given) and self.scheduler is not None and not self.scheduler.startswith("tls://"):
            raise PydanticCustomError("tls", "PHONECHAIN_SCHEDULER: expected tls://HOST:PORT beside PHONECHAIN_TLS_CA")
        return self

    @property
    def folder(self) -> Path:
        """Where the service keeps everything."""
        if self.data is not None:
            return self.data.absolute()
        return platformdirs.user_data_path("phonechain", appauthor=False)

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.folder / 'phonechain.db'}"

    @property
    def store_url(self) -> str:
        return self.store or str(self.folder / "blobs")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which the service may be asked."""
        return tuple(name.lower().rstrip(".") for name in split_list(self.allowed_hosts))

    @property
    def cors_origins(self) -> tuple[str, ...]:
        """Sites whose pages may use the service."""
        return tuple(split_list(self.cors))

    @property
    def roots(self) -> tuple[str, ...]:
        """Where corpora may be registered."""
        return tuple(split_list(self.corpus_roots))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def variable(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def table() -> str:
    """The settings as a Markdown table, as `docs/operations.md` holds it."""
    rows = ["| variable | default | unit | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        unit = extra.get("unit", "") if isinstance(extra, dict) else ""
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{variable(name)}` | {default} | {unit} | {field.description} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
