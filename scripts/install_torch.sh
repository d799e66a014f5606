#!/usr/bin/env bash
# Where there is no GPU, torch as its CPU build, if the places that pip looks in offer one: the other is several GB larger.
# Called by the Makefile with PIP set to "pip install" and its options.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^torch==//p' constraints.txt)
.venv/bin/python -c 'import torch' 2>/dev/null && exit 0
if command -v nvidia-smi >/dev/null || [ "$(uname -s)" != Linux ]; then
    exit 0 # the ordinary build, as a dependency
fi
if ! $PIP "torch==$version+cpu" 2>/dev/null; then
    echo "phonechain: no CPU-only build of torch $version where pip looks; taking the ordinary one (several GB on Linux)."
    echo "            make install PIP_ARGS='--extra-index-url ADDRESS' with PyTorch's index of CPU builds avoids that."
fi
