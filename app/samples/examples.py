"""`python -m phonechain.app.samples.examples`: regenerate the worked examples from the default model's real answers.

Run it after the default model or the shape of an answer has changed; a test fails until then.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import Any

import httpx
import soundfile

from phonechain.app.main import create_app
from phonechain.app.samples import AUDIO, EXAMPLES, SEGMENTS
from phonechain.features.audio.reader import decode

LENGTH = 0.18
"""Seconds: the first three phones of the sample, short enough for a page."""


def json_request() -> dict[str, Any]:
    """The first phones of the sample as a JSON body: 16 kHz FLAC in base64."""
    sound = decode(AUDIO, rate=16000)
    data = io.BytesIO()
    soundfile.write(data, sound.samples[: round(LENGTH * sound.rate)], sound.rate, format="FLAC")
    segments = [
        {"start": 0.0, "end": 0.08, "label": "IH"},
        {"start": 0.08, "end": 0.14, "label": "N"},
        {"start": 0.14, "end": 0.18},
    ]
    return {"audio": base64.b64encode(data.getvalue()).decode("ascii"), "segments": segments, "n_best": 2}


def bad_requests(good: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A JSON body for some of the refusals, by status."""
    reversed_ = [good["segments"][0], {"start": 0.14, "end": 0.08}]
    return {
        "404": {**good, "model": "no-such-model"},
        "415": {**good, "audio": base64.b64encode(b"not a sound file").decode("ascii")},
        "422": {**good, "segments": reversed_},
    }


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from one occurrence to the next."""
    return {key: value for key, value in answer.items() if key not in ("timing", "instance", "request_id")}


def shorten(value: Any, name: str = "") -> Any:
    """The same with three digits of each posterior: the last of the six that are answered differ between processors."""
    if isinstance(value, dict):
        return {key: shorten(own, key) for key, own in value.items()}
    if isinstance(value, list):
        return [shorten(own) for own in value]
    return float(f"{value:.3g}") if name.endswith("posterior") and isinstance(value, float) else value


async def make() -> dict[str, Any]:
    """Every example: what is asked, and what the service answers."""
    app = create_app()
    good = json_request()
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://phonechain") as client:
            files = {"audio": AUDIO.read_bytes(), "segments": SEGMENTS.read_bytes()}
            form = await client.post("/classify?n_best=3", files=files)
            answer = await client.post("/classify", json=good)
            refused = {
                status: {"request": body, "answer": (await client.post("/classify", json=body)).json()}
                for status, body in bad_requests(good).items()
            }
    return {
        "form": {"answer": shorten(form.json())},
        "json": {"request": good, "answer": shorten(answer.json())},
        "problems": {status: {**pair, "answer": comparable(pair["answer"])} for status, pair in refused.items()},
    }


def main() -> None:
    """Write the file and say so."""
    examples = asyncio.run(make())
    EXAMPLES.write_text(json.dumps(examples, ensure_ascii=False, indent=1) + "\n", "utf-8")
    print(f"wrote {EXAMPLES.name}: {', '.join(examples)}")


if __name__ == "__main__":
    main()
