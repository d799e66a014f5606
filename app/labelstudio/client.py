"""What is fetched from Label Studio: the sound of a task, the finished tasks of a project.

Nothing but the Label Studio that the settings name is ever asked, whatever address a task or a request has: a task is
anybody's data, and an address in it must not lead into the service's own network.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from phonechain.app.problems.errors import InvalidRequest, UpstreamFailed

if TYPE_CHECKING:
    import httpx

TIMEOUT = 60.0
"""Seconds without a byte after which Label Studio is given up."""
_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)


class LabelStudio:
    """A Label Studio that is asked with a token: a legacy one, or a personal access token, which is exchanged first."""

    def __init__(
        self, url: str | None, token: str | None, limit: int, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = None if url is None else url.rstrip("/") + "/"
        self.token, self.limit, self.transport = token, limit, transport

    def fetch_sound(self, address: Any) -> bytes:
        """The sound of a task: out of a data URI, or from Label Studio by its path.

        Raises:
            InvalidRequest: an address that is not this Label Studio's, or no address.
            UpstreamFailed: Label Studio does not give it.
        """
        if not isinstance(address, str) or not address:
            raise InvalidRequest("expected the address of a sound in the task's data, got none", pointer="tasks")
        if (match := _DATA.match(address)) is not None:
            try:
                return base64.b64decode(address[match.end() :], validate=True)
            except binascii.Error:
                raise InvalidRequest(
                    "expected base64 in the task's data URI, got something else", pointer="tasks"
                ) from None
        return self._get(self._resolve(address))

    def fetch_finished_tasks(self, project: int) -> list[Mapping[str, Any]]:
        """The tasks of a project that somebody has annotated. Raises InvalidRequest, UpstreamFailed."""
        address = self._resolve(f"api/projects/{project}/export?exportType=JSON&download_all_tasks=false")
        tasks = self._get_json(address)
        if not isinstance(tasks, list):
            raise UpstreamFailed("expected a list of tasks from Label Studio, got something else")
        return [task for task in tasks if isinstance(task, dict)]

    def _resolve(self, address: str) -> str:
        if self.url is None:
            raise InvalidRequest(
                "cannot fetch sound from Label Studio: PHONECHAIN_LABEL_STUDIO is not set",
                pointer="tasks",
            )
        inside = address.startswith("/") and not address.startswith("//")
        whole = urljoin(self.url, address[1:] if inside else address)
        mine, asked = urlsplit(self.url), urlsplit(whole)
        if (asked.scheme, asked.netloc) != (mine.scheme, mine.netloc) or not asked.path.startswith(mine.path):
            raise InvalidRequest(
                f"expected sound in {mine.scheme}://{mine.netloc}, got {asked.scheme}://{asked.netloc[:80]}",
                pointer="tasks",
            )
        return whole

    def _headers(self, client: httpx.Client) -> dict[str, str]:
        if self.token is None:
            return {}
        if self.token.count(".") != 2:
            return {"Authorization": f"Token {self.token}"}
        answer = client.post(urljoin(str(self.url), "api/token/refresh"), json={"refresh": self.token})
        answer.raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['access']}"}

    def _get(self, url: str) -> bytes:
        import httpx  # most services never ask a Label Studio

        out = bytearray()
        try:
            with (
                httpx.Client(timeout=TIMEOUT, transport=self.transport) as client,
                client.stream("GET", url, headers=self._headers(client)) as answer,
            ):
                answer.raise_for_status()
                for part in answer.iter_bytes():
                    out += part
                    if len(out) > self.limit:
                        raise UpstreamFailed(f"Label Studio sent more than {self.limit} bytes", limit=self.limit)
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise UpstreamFailed(
                f"cannot fetch {urlsplit(url).path[:80]} from Label Studio: {str(error)[:200]}"
            ) from None
        return bytes(out)

    def _get_json(self, url: str) -> Any:
        try:
            return json.loads(self._get(url))
        except ValueError:
            raise UpstreamFailed("expected JSON from Label Studio, got something else") from None
