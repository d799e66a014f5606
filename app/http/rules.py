"""Tables of addresses: which need no key, which take uploads, and which scope each needs."""

from __future__ import annotations

import re

PUBLIC = re.compile(r"/(page/.*|guide(/[a-z.-]+)?|health(/.*)?|docs(/.*)?|openapi\.json|problems(/.*)?|metrics)?\Z")
"""Addresses that need no key and have no rate limit; metrics need a key if the settings say so."""

UPLOADS = re.compile(r"/(corpora|models|jobs|reviews/[^/]+/files)/?\Z")
"""Addresses whose bodies may be as large as an upload, unless they are JSON."""

RULES: tuple[tuple[str, str, str], ...] = (
    ("*", r"/keys(/.*)?", "admin"),
    ("PUT|DELETE", r"/aliases/.*", "admin"),
    ("DELETE", r"/reviews/.*", "label"),
    ("DELETE", r"/.*", "admin"),
    ("GET|HEAD|OPTIONS", r"/.*", "read"),
    ("POST", r"/models/?", "train"),
    ("*", r"/.*", "label"),
)
"""(methods, address, scope): the first rule that matches says which scope a request needs. A training job also needs `train`,
which its route checks with `require_scope`."""
