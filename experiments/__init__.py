"""The paper's tables as commands: settings in, RESULTS.md out.

    python -m experiments ocr-summary --data letter.data.gz --jobs 2

A table is a TOML file in `tables/`. Its systems are trained cell by cell (a system with one set of sizes, on one fold);
each finished cell is a line of JSON under `runs/`, and no cell that is there is computed again.
"""
