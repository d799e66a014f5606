"""Answers of the routes that label: JSON, or a file, whose model and warnings go to headers, where programs see them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from phonechain.app.labelling import conversion
from phonechain.features.annotation import FORMATS
from phonechain.features.errors import Notice


def json_response(body: dict[str, Any]) -> Response:
    """A JSON document that no cache keeps."""
    data = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/json")


def file_response(
    data: bytes, format: str, *, stem: str, model: str, version: str, notices: Iterable[Notice]
) -> Response:
    """An annotation file in `format`, called `stem` with the format's suffix.

    Args:
        notices: told in the header X-Phonechain-Warnings by code and count.
    """
    counts = Counter(notice.code for notice in notices)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{stem}{conversion.suffix(format)}"',
        "X-Phonechain-Model": f"{model}; version={version}",
        "X-Phonechain-Warnings": ", ".join(f"{code}; count={count}" for code, count in counts.items()),
    }
    return Response(data, headers=headers, media_type=FORMATS[format].media_type)
