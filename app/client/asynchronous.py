"""The client that is awaited. `calls.py` has what it asks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from phonechain.app.client import calls
from phonechain.app.client.calls import Answers, Call, EventParser, RemoteError, Subscription, Unreachable
from phonechain.features.files import write_whole

T = TypeVar("T")


class AsyncClient:
    """Requests to one service, awaited: the methods of `Client`, and `async for` where that one has `for`. Raises
    RemoteError for what it refuses, Unreachable where nobody answers.

    Args:
        url: the service's address, such as `http://127.0.0.1:8000`.
        key: an API key, if the service requires one.
        timeout: seconds to wait for an answer.
        http: a client of httpx to use instead, with its own base URL.
    """

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 60.0, http: httpx.AsyncClient | None = None
    ) -> None:
        self.http = http if http is not None else httpx.AsyncClient(base_url=url, timeout=timeout)
        if key:
            self.http.headers["Authorization"] = f"Bearer {key}"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    # ---------------------------------------------------------------------------------------------------- one recording

    async def classify(
        self, audio: str | Path | bytes, segments: str | Path | bytes | Sequence[Mapping[str, Any]], **options: Any
    ) -> dict[str, Any]:
        """The label of every segment with its posterior. `segments` is an annotation file, or a list of objects with `start`,
        `end` (seconds) and optionally `label`; `options` are those of `POST /classify`: model, n_best, tier and others."""
        answer = await self._run(calls.send_form("/classify", {"audio": audio, "segments": segments}, options))
        return dict(answer.json())

    async def annotate(
        self, audio: str | Path | bytes, segments: str | Path | bytes | Sequence[Mapping[str, Any]], format: str = "textgrid",
        **options: Any,
    ) -> bytes:  # fmt: skip
        """The same as an annotation file of a format, such as `textgrid` or `eaf`."""
        options = {**options, "format": format}
        answer = await self._run(calls.send_form("/classify", {"audio": audio, "segments": segments}, options))
        return answer.content

    async def align(self, audio: str | Path | bytes, transcript: str | Path | bytes, **options: Any) -> dict[str, Any]:
        """The words and phones of a transcript with their boundaries. `transcript` is a file, or its bytes; `options` are
        those of `POST /align`."""
        answer = await self._run(calls.send_form("/align", {"audio": audio, "transcript": transcript}, options))
        return dict(answer.json())

    # ---------------------------------------------------------------------------------------------------------- corpora

    async def upload_corpus(self, archive: str | Path, **options: Any) -> dict[str, Any]:
        """Upload a zip or tar file; `options` are those of the service: name, tier, table and others."""
        return await self._run(calls.send_file("/corpora", archive, options))

    async def register_corpus(self, **place: Any) -> dict[str, Any]:
        """Register a `folder` or `url` that the service allows."""
        return await self._run(calls.ask_json("POST", "/corpora", again=False, json=place))

    def list_corpora(self) -> AsyncIterator[dict[str, Any]]:
        """Every corpus, newest first."""
        return self._pages("/corpora", "corpora", {})

    async def delete_corpus(self, id: str) -> None:
        """Delete a corpus."""
        await self._run(calls.ask(Call("DELETE", f"/corpora/{id}"), again=True), check=True)

    # ------------------------------------------------------------------------------------------------------------- jobs

    async def start(self, *, idempotency_key: str | None = None, **asked: Any) -> dict[str, Any]:
        """Start a job: `kind`, `corpus` and the options of its kind. Requests with the same key start it once."""
        return await self._run(calls.start_job(asked, idempotency_key))

    async def job(self, id: str) -> dict[str, Any]:
        """The current state of a job."""
        return await self._run(calls.ask_json("GET", f"/jobs/{id}"))

    def list_jobs(self, **filters: Any) -> AsyncIterator[dict[str, Any]]:
        """Jobs, newest first, filtered by `state` and `kind`."""
        return self._pages("/jobs", "jobs", filters)

    def errors(self, id: str) -> AsyncIterator[dict[str, Any]]:
        """The files of a job that could not be used."""
        return self._pages(f"/jobs/{id}/errors", "errors", {})

    async def cancel(self, id: str) -> dict[str, Any]:
        """Request the cancellation of a job."""
        return await self._run(calls.ask_json("POST", f"/jobs/{id}/cancel"))

    async def delete_job(self, id: str) -> None:
        """Delete a finished job and its uploaded files."""
        await self._run(calls.ask(Call("DELETE", f"/jobs/{id}"), again=True), check=True)

    async def events(self, id: str, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """The events of a job until it has ended; a broken stream is resumed."""
        subscription = Subscription(id, after)
        while not subscription.over:
            pause = 0.5
            try:
                async with self.http.stream("GET", subscription.path, headers=subscription.headers) as answer:
                    if answer.status_code >= 400:
                        await answer.aread()
                        calls.check_response(answer)
                    parser = EventParser()
                    async for line in answer.aiter_lines():
                        if (event := parser.parse_line(line)) is not None:
                            subscription.record_event(event)
                            yield event
            except (httpx.TransportError, RemoteError) as error:
                pause = subscription.record_failure(self._translate(error))
            else:
                if not subscription.over and (await self.job(id))["state"] in calls.TERMINAL and subscription.is_idle():
                    return
            if not subscription.over:
                await asyncio.sleep(pause)

    async def wait(self, id: str, every: float = 0.5) -> dict[str, Any]:
        """Wait until a job has ended, and return it."""
        while (job := await self.job(id))["state"] not in calls.TERMINAL:
            await asyncio.sleep(every)
        return job

    async def result(self, id: str, out: str | Path, **options: Any) -> Path:
        """Write the result to a file, whole or not at all; `format` and `sort` are those of the service."""
        with tempfile.NamedTemporaryFile(dir=Path(out).absolute().parent) as spare:
            try:
                async with self.http.stream("GET", f"/jobs/{id}/result", params=options) as answer:
                    if answer.status_code >= 400:
                        await answer.aread()
                        calls.check_response(answer)
                    async for chunk in answer.aiter_bytes():
                        await asyncio.to_thread(spare.write, chunk)
            except httpx.TransportError as error:
                raise self._translate(error) from None
            spare.flush()
            await asyncio.to_thread(write_whole, out, lambda path: shutil.copyfile(spare.name, path))
        return Path(out)

    # ----------------------------------------------------------------------------------------------------------- models

    async def list_models(self) -> dict[str, Any]:
        """The models and aliases."""
        return await self._run(calls.ask_json("GET", "/models"))

    async def upload_model(self, file: str | Path, name: str | None = None) -> dict[str, Any]:
        """Upload a model file as a new version."""
        return await self._run(calls.send_file("/models", file, {"name": name}))

    # ----------------------------------------------------------------------------------------------------------- inside

    async def _run(self, steps: Answers[T], *, check: bool = False) -> T:
        """Send what a generator asks for until it returns."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = next(steps)
                    continue
                more = step.more if step.file is None else {**step.more, "content": _pieces(step.file)}
                try:
                    answer = await self.http.request(step.method, step.path, **more)
                except httpx.TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            if check:
                calls.check_response(end.value)
            return end.value
        except httpx.TransportError as error:
            raise self._translate(error) from None

    async def _pages(self, path: str, member: str, filters: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        cursor = None
        while True:
            params = {**filters, **({"cursor": cursor} if cursor else {})}
            entries, cursor = calls.split_page(member, await self._run(calls.ask_json("GET", path, params=params)))
            for entry in entries:
                yield entry
            if cursor is None:
                return

    def _translate(self, error: Exception) -> Exception:
        if not isinstance(error, httpx.TransportError):
            return error
        return Unreachable(f"no service responds at {self.http.base_url}: {str(error) or type(error).__name__}")


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    reading = calls.read_chunks(file)
    while (data := await asyncio.to_thread(next, reading, None)) is not None:
        yield data
