"""The settings of the service: one class, every variable with its default, unit and meaning.

Each field is read from the environment variable `PHONECHAIN_<FIELD>`; an empty one counts as unset, as compose files
and process managers leave it. What may hold a password can also lie in a file that `PHONECHAIN_<FIELD>_FILE` names.
`docs/operations.md` holds the same table, and a test keeps the two equal. A value that cannot be used stops the start
with one line that names the variable.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import ByteSize, Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from phonechain.app.problems.wording import describe, short
from phonechain.app.setting_types import (
    AdminKey,
    Hosts,
    Memory,
    Networks,
    OriginList,
    Roots,
    Scheduler,
    WebAddress,
    split_list,
)
from phonechain.features.errors import SettingsError

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
        "127.0.0.1", "address", "Interface to listen on; 0.0.0.0 for every interface of the machine.", min_length=1
    )
    port: int = _setting(8000, "port", "TCP port to listen on; 0 takes a free one.", ge=0, le=65535)
    model: Path | None = _setting(
        None, "path", "Model file served under the name `default`; unset serves the model that ships with the package."
    )
    models: Path | None = _setting(
        None, "path", "Folder of further model files, each served under its file name without `.safetensors`."
    )
    max_body_bytes: ByteSize = _setting(
        ByteSize(64 * 2**20),
        "bytes",
        "Largest request body, such as `64MiB`; a longer one is refused before it is parsed.",
        ge=1024,
        le=2**40,
    )
    body_timeout: float = _setting(
        30.0,
        "seconds",
        "How long a request may be waited for while its body comes; each 16 KiB that came buys a second more, up to this "
        "again. Then 408.",
        gt=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    max_bytes_in_flight: ByteSize = _setting(
        ByteSize(256 * 2**20),
        "bytes",
        "Bytes of bodies that all requests in progress may hold in memory; bodies above 1 MiB share three quarters of them. "
        "More are answered 503 with Retry-After. Uploads go to the data folder and do not count.",
        ge=1024,
        le=2**50,
    )
    header_timeout: float = _setting(
        15.0,
        "seconds",
        "How long the head of a request may take from its first byte; then 408.",
        gt=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    max_connections: int = _setting(
        2000,
        "connections",
        "Open connections; above that the one that has kept the service waiting longest for a request is closed.",
        ge=1,
        le=10**6,
    )
    max_audio_seconds: float = _setting(
        600.0,
        "seconds",
        "Longest recording in one request, counted in decoded sound.",
        gt=0.0,
        le=86400.0,
        allow_inf_nan=False,
    )
    max_segments: int = _setting(20_000, "segments", "Most segments in one request.", ge=1, le=10_000_000)
    max_n_best: int = _setting(50, "labels", "Most alternatives (`n_best`) that a request may ask for.", ge=1, le=1000)
    queue_size: int = _setting(
        64,
        "requests",
        "Requests in progress (decoded, waiting or being labelled); further ones are answered 503 with Retry-After.",
        ge=1,
        le=100_000,
    )
    batch_segments: int = _setting(
        4096,
        "segments",
        "Most segments in one batch; a longer utterance is a batch of its own.",
        ge=1,
        le=10_000_000,
    )
    retry_after: int = _setting(1, "seconds", "Retry-After of an answer 503 from a busy service.", ge=1, le=3600)
    processes: int = _setting(
        1,
        "processes",
        "Processes that answer requests behind the port; 0 starts one per core, at most 4. They share every limit, and each "
        "holds the models in memory.",
        ge=0,
        le=64,
    )
    decode_threads: int = _setting(2, "threads", "Threads that decode sound and compute features.", ge=1, le=256)
    torch_threads: int = _setting(
        1, "threads", "Threads of torch; 0 uses all cores that the process may use.", ge=0, le=1024
    )
    data: Path | None = _setting(
        None,
        "path",
        "Data folder: database, corpora, models and results; unset uses `phonechain` in the user's data folder.",
    )
    database: str | None = _setting(
        None, "URL", "Database, `postgresql://USER:PASSWORD@HOST/NAME`; unset uses an SQLite file in the data folder."
    )
    store: str | None = _setting(
        None,
        "URL",
        "Where corpora, models and results are stored, such as `s3://BUCKET/PREFIX`; unset uses the data folder.",
    )
    migrate: bool = _setting(True, "", "Migrate the database at the start; otherwise run `phonechain db upgrade`.")
    scheduler: Scheduler | None = _setting(
        None, "address", "Dask scheduler, `tcp://HOST:8786`; unset runs jobs in worker processes of the service itself."
    )
    tls_ca: Path | None = _setting(
        None, "path", "Certificate authority (PEM) of the Dask cluster; with it, everything in the cluster speaks TLS."
    )
    tls_cert: Path | None = _setting(None, "path", "This process's certificate (PEM), signed by that authority.")
    tls_key: Path | None = _setting(None, "path", "The key (PEM) of that certificate.")
    workers: int = _setting(
        0, "processes", "Worker processes of the service itself; 0 starts one per core that it may use.", ge=0, le=1024
    )
    worker_memory: Memory = _setting(
        "auto", "bytes", "Memory at which one of them is restarted, such as `2GiB`; `0` sets no limit."
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
        1000, "jobs", "Most jobs that have not ended; further ones are answered 503.", ge=1, le=10**6
    )
    max_key_jobs: int = _setting(
        0,
        "jobs",
        "Most jobs of one API key that have not ended; further ones are answered 503. 0 sets no limit.",
        ge=0,
        le=10**6,
    )
    max_stored_bytes: ByteSize = _setting(
        ByteSize(0),
        "bytes",
        "Most bytes that corpora, jobs, models and reviews may keep together; more is answered 507. 0 sets no limit.",
        ge=0,
        le=2**60,
    )
    max_key_bytes: ByteSize = _setting(
        ByteSize(0), "bytes", "The same for what one API key has brought or made. 0 sets no limit.", ge=0, le=2**60
    )
    keep_jobs: float = _setting(
        0.0,
        "days",
        "Days after its end at which a job is deleted, with the files that came with it; models stay. 0 keeps all.",
        ge=0.0,
        le=36_500.0,
        allow_inf_nan=False,
    )
    keep_events: float = _setting(
        30.0,
        "days",
        "Days after which the events of a job that has ended are deleted, but for its last. 0 keeps all.",
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
        ByteSize(16 * 2**30), "bytes", "Most bytes that an uploaded archive may unpack to.", ge=1024, le=2**50
    )
    max_archive_files: int = _setting(500_000, "files", "Most members of an uploaded archive.", ge=1, le=10**8)
    corpus_roots: Roots = _setting(
        "", "paths", "Folders and URLs, separated by commas, under which corpora may be registered; unset allows none."
    )
    admin_key: AdminKey | None = _setting(
        None, "key", "API key with every right, at least 16 characters. Once it is set, every request needs a key."
    )
    webhook_secret: SecretStr | None = _setting(
        None, "key", "Secret that signs webhooks (`whsec_` and base64, or any text); unset sends them unsigned."
    )
    label_studio: WebAddress | None = _setting(
        None, "address", "Address of the Label Studio whose backend this is, such as http://localhost:8080; nothing else is "
        "asked for the sound of its tasks.",
    )  # fmt: skip
    label_studio_token: SecretStr | None = _setting(
        None, "key", "Label Studio's access token, a legacy or a personal one, with which sound and tasks are fetched."
    )
    webhook_private: bool = _setting(False, "", "Let webhooks call private and loopback addresses.")
    rate_limit: int = _setting(
        0,
        "requests per minute",
        "Requests per minute from one API key (without keys, from one client address); more are answered 429. 0 sets no "
        "limit.",
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
        "Names under which the service may be asked (the header Host), separated by commas; `*.example.org` for every name "
        "below one, `*` for all. Unset takes IP addresses, names without a dot, and names of private use (localhost, "
        ".localhost, .local, .internal, .home.arpa).",
    )
    cors: OriginList = _setting(
        "",
        "origins",
        "Sites whose pages may use the service from a browser, such as `https://example.org`, separated by commas; `*` for "
        "every site. Unset allows none but the service's own.",
    )
    metrics: Literal["open", "key", "off"] = _setting(
        "open",
        "open, key, off",
        "Who may read /metrics: everybody, keys with the scope read (once there are keys), or nobody.",
    )
    log_format: Literal["text", "json"] = _setting(
        "text", "text, json", "Log lines as text, or as one JSON object per line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "level", "Least level that is logged: debug, info, warning or error; requests are logged at info."
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
        "Time between SIGTERM (not ready any more) and the end of new connections, so that balancers notice.",
        ge=0.0,
        le=3600.0,
        allow_inf_nan=False,
    )
    stop_grace: int = _setting(
        30,
        "seconds",
        "Time that accepted requests have to finish after that; then they are aborted.",
        ge=0,
        le=3600,
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


class _Given(Settings):
    """Settings from what is passed alone, whatever the environment of the process says."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from the environment; `overrides` (a command line's options) win where they are not None.

    Args:
        environ: to be read instead of the process's own.

    Raises:
        SettingsError: one line that names the variable, what it may be and what came; never the value of a secret.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    given = _from_files(os.environ if environ is None else environ) | given
    if environ is not None:
        given = {n: environ[variable(n)] for n in Settings.model_fields if variable(n) in environ} | given
    try:
        return Settings(**given) if environ is None else _Given(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # several settings together
            raise SettingsError(str(first["msg"])) from None
        field = str(first["loc"][0])
        shown = {**first, "input": None} if _is_secret(field) else first
        raise SettingsError(
            f"{variable(field)}: {describe(shown)}", pointer=variable(field), value=short(shown["input"])
        ) from None


def check_locations(known: Settings) -> None:
    """What can be seen of files and folders without making any. Raises SettingsError, one line that names the variable."""
    for field, path in (("model", known.model), ("models", known.models)):
        wrong = path is not None and not (path.is_file() if field == "model" else path.is_dir())
        if wrong:
            kind = "file" if field == "model" else "folder"
            raise SettingsError(f"{variable(field)}: expected a {kind}, got {path}", pointer=variable(field))
    if known.data is None:
        return
    there = known.folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "a folder" if not there.is_dir() else "a folder that can be written to"
        raise SettingsError(f"{variable('data')}: expected {what}, got {known.data}", pointer=variable("data"))


def _from_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings whose values lie in files, as orchestrators hand over secrets."""
    found = {}
    for field in SECRETS:
        name = f"{variable(field)}_FILE"
        path = environ.get(name)
        if not path:
            continue
        if environ.get(variable(field)):
            raise SettingsError(f"{name}: expected this or {variable(field)}, got both", pointer=name)
        try:
            found[field] = Path(path).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise SettingsError(
                f"{name}: expected a file that can be read, got {path}: {reason}", pointer=name
            ) from None
        if not found[field]:
            raise SettingsError(f"{name}: expected a file with a value, got an empty one: {path}", pointer=name)
    return found


def _is_secret(field: str) -> bool:
    return field in Settings.model_fields and "SecretStr" in str(Settings.model_fields[field].annotation)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each `PHONECHAIN_` variable that no setting reads, with the nearest name: most are typing slips."""
    known = {variable(name) for name in Settings.model_fields} | {f"{variable(name)}_FILE" for name in SECRETS}
    lines = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known | NOT_SETTINGS:
            near = difflib.get_close_matches(name.upper(), sorted(known), n=1, cutoff=0.8)
            lines.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return lines


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
