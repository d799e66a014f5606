"""`make storm`: KILLS processes killed (200), a third of them in a service with its own workers, a third in a cluster, and a
third in two services on one database, each with workers of its own. Uploads of one archive meet, half of them refused, and the
disk is compared with the rows.

The speech is speechocean762 where it can be found (PHONECHAIN_SHARED, or `shared` beside the checkout), else copies of
the sample.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.app.jobs import speech
from tests.storm import storm
from tests.storm.stage import ROOT


def corpus(folder: Path, count: int) -> tuple[Path, str]:
    """(a folder of `count` utterances, what they are)."""
    shared = Path(os.environ.get("PHONECHAIN_SHARED") or ROOT.parent / "shared") / "data" / "speechocean762"
    files = sorted((shared / "train").rglob("*.lab"))[:: max(1, 2400 // count)][:count]
    if not files:
        return speech.folder(folder, count), "copies of the sample"
    for lab in files:
        place = folder / lab.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for path in (lab, lab.with_suffix(".ogg")):
            (place / path.name).write_bytes(path.read_bytes())
    return folder, "utterances of speechocean762"


def main() -> int:
    """Blow, say how it went."""
    kills = int(os.environ.get("KILLS", "200"))
    seed = int(os.environ.get("SEED", str(int(time.time()))))
    forms = os.environ.get("FORMS", "embedded,clustered,twins").split(",")
    with tempfile.TemporaryDirectory(prefix="storm-") as name:
        root = Path(name)
        speech_folder, what = corpus(root / "corpus", int(os.environ.get("UTTERANCES", "96")))
        model = speech.model(root / "tiny.safetensors", speech_folder, epochs=2)
        archive = speech.zip_folder(speech_folder)
        print(f"storm: {kills} kills, seed {seed}, {what}", flush=True)
        for n, form in enumerate(forms):
            share = kills // len(forms) + (n < kills % len(forms))
            began = time.monotonic()
            found = storm.blow(
                root / form,
                model,
                archive,
                clustered=form == "clustered",
                kills=share,
                seed=seed + n,
                services=1 + (form == "twins"),
            )
            spent = time.monotonic() - began
            print(
                f"{form}: {sum(found.kills.values())} kills {found.kills}, {len(found.jobs)} jobs, every one ended once with "
                f"the result of the calm; nothing is left running; disk = rows in {len(found.accounts)} accounts; {spent:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
