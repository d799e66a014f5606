"""Webhooks after the Standard Webhooks specification: a signed POST when a job has ended, and repeated with growing intervals.

Headers `webhook-id`, `webhook-timestamp`, `webhook-signature`; what is signed is `id.timestamp.body`, by HMAC-SHA256,
in base64 behind `v1,`. The id is the same at every try, so a receiver can tell a repetition.

An address that leads into the service's own network is refused, when it is given and again when it is called: the call
goes to the very address that was checked, and follows no redirect.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import select, update

from phonechain.app.jobs import repository
from phonechain.app.problems.errors import WebhookRefused
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import Job
from phonechain.features.errors import PhonechainError

TRIES = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000)
"""Seconds between tries, with growing intervals: about two days in all."""
GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""The only IPv6 addresses of the internet at large (IANA's registry); other ranges are local, or carry IPv4 addresses."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses as IPv6 networks see them through a translator (RFC 6052)."""
ISATAP = (0x00005EFE, 0x02005EFE)
"""What stands before the IPv4 address at the end of an ISATAP address (RFC 5214)."""
TIMEOUT = 15.0
CALLS = 16
"""Hosts that are called at a time."""
TICK = 1.0
"""Seconds between two looks at which webhooks are due."""

log = logging.getLogger(__name__)


class WebhookSender:
    """A thread of its own: those who are called may take their time."""

    def __init__(self, db: Database, secret: str | None, private: bool) -> None:
        self.db, self.secret, self.private = db, secret, private
        self._stopping = threading.Event()
        self._calls = ThreadPoolExecutor(CALLS, "webhook")
        self._called: set[str] = set()
        """Hosts that are being called: one call at a time for each, so that a slow one delays nobody else."""
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def stop(self) -> None:
        """Call nobody any more; a call under way is not waited for, since the next service tries it again."""
        self._stopping.set()
        self._calls.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._stopping.wait(TICK):
            try:
                for job in list_due(self.db) if self.db.migrated else ():
                    host = urlsplit(job.webhook or "").netloc
                    if host not in self._called:
                        self._called.add(host)
                        self._calls.submit(self._deliver, host, job)
            except PhonechainError as error:
                log.warning("webhooks are waiting: %s", error)
            except Exception:
                log.exception("error in a webhook; others continue")

    def _deliver(self, host: str, job: Job) -> None:
        try:
            deliver(self.db, job, repository.job_to_json(job), self.secret, self.private)
        except PhonechainError as error:
            log.warning("webhooks are waiting: %s", error)
        except Exception:
            log.exception("error in a webhook; others continue")
        finally:
            self._called.discard(host)


def check(url: str, private: bool) -> list[str]:
    """The IP addresses behind a URL that may be called.

    Raises:
        WebhookRefused: no http address, or one in a private, loopback or otherwise reserved network.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise _refusal("an http or https address without a user name", url)
    try:
        found = socket.getaddrinfo(host, port or (443 if parts.scheme == "https" else 80), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _refusal("an address that can be found", url) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not private and not _is_public(address):
            raise _refusal("an address outside of private networks", url)
    return addresses


def _is_public(address: str) -> bool:
    """Whether an address is of the internet at large, and so is the IPv4 address that it may carry."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    carried: list[Any] = []
    if isinstance(ip, ipaddress.IPv6Address):
        end = ipaddress.IPv4Address(ip.packed[-4:])
        if ip.ipv4_mapped is not None or ip in NAT64:
            return _is_public(str(end))
        if ip not in GLOBAL_UNICAST:
            return False
        carried = [ip.sixtofour, *(ip.teredo or ())]
        if int.from_bytes(ip.packed[8:12]) in ISATAP:
            carried.append(end)
    return all(one.is_global and not one.is_multicast for one in (ip, *carried) if one is not None)


def _refusal(wanted: str, url: str) -> WebhookRefused:
    return WebhookRefused(f"expected {wanted}, got {url[:120]!r}", pointer="webhook", value=url[:120])


def sign(secret: str | None, id: str, moment: int, body: bytes) -> dict[str, str]:
    """The headers of one call."""
    headers = {"webhook-id": id, "webhook-timestamp": str(moment), "content-type": "application/json"}
    if secret is not None:
        from standardwebhooks import Webhook

        from phonechain.app.client.webhooks import secret_bytes  # its package has the clients, which load httpx

        signature = Webhook(secret_bytes(secret)).sign(id, datetime.fromtimestamp(moment, UTC), body.decode())
        headers["webhook-signature"] = signature
    return headers


def body_of(job: Job, shown: dict[str, Any]) -> bytes:
    """What is sent: the type of the event, its time and the job."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job.ended or job.created))
    return json.dumps({"type": f"job.{job.state}", "timestamp": moment, "data": shown}, ensure_ascii=False).encode()


def call(url: str, body: bytes, headers: dict[str, str], private: bool) -> int:
    """POST to the address that was checked; the status of the answer.

    Raises:
        WebhookRefused, httpx.HTTPError.
    """
    import httpx  # a sixteenth of a second that no start waits for

    address = check(url, private)[0]
    parts = urlsplit(url)
    assert parts.hostname is not None
    pinned = httpx.URL(url).copy_with(host=address)
    port = f":{parts.port}" if parts.port else ""
    headers = {**headers, "host": parts.hostname + port, "user-agent": "phonechain"}
    extensions = {"sni_hostname": parts.hostname}
    with httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client:
        request = client.build_request("POST", pinned, content=body, headers=headers, extensions=extensions)
        answer = client.send(request, stream=True)  # the body of the answer is not read
        answer.close()
        return answer.status_code


def list_due(db: Database) -> list[Job]:
    """Jobs that have ended and whose address is to be called now."""
    with db.read() as session:
        query = select(Job).where(Job.webhook_next <= time.time(), Job.webhook.is_not(None))
        query = query.order_by(Job.webhook_next).limit(1000)
        return [job for job in session.scalars(query) if job.state in repository.TERMINAL]


def deliver(db: Database, job: Job, shown: dict[str, Any], secret: str | None, private: bool) -> None:
    """One try, by one process: the next time is written before the call, so a death in between means one more try."""
    with db.write() as session:
        tries = job.webhook_tries + 1
        later = time.time() + TRIES[tries - 1] if tries <= len(TRIES) else None
        mine = session.execute(
            update(Job)
            .where(Job.id == job.id, Job.webhook_tries == job.webhook_tries)
            .values(webhook_tries=tries, webhook_next=later)
        )
        if not mine.rowcount:  # type: ignore[attr-defined]
            return
    import httpx

    assert job.webhook is not None
    body = body_of(job, shown)
    try:
        status = call(job.webhook, body, sign(secret, f"msg_{job.id}", int(time.time()), body), private)
    except (WebhookRefused, httpx.HTTPError) as error:
        log.warning("webhook of job %s, try %d: %s", job.id, tries, error)
        return
    if 200 <= status < 300 or status == 410:  # 410: the receiver wants no more
        with db.write() as session:
            session.execute(update(Job).where(Job.id == job.id).values(webhook_next=None))
    else:
        log.warning("webhook of job %s, try %d: status %d", job.id, tries, status)
