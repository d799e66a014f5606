#!/bin/sh
# Checks and measures a GPU: answers and alignments against the CPU's, an epoch at TIMIT's size in float32, in bfloat16 and by the
# Triton kernels, labelling, one OCR system, and a summary (benchmarks/gpu.py).
#   scripts/gpu_check.sh              at most eight minutes; exits 0 if answers are the CPU's, 1 if not, 124 out of time
#   PYTHON=python3 scripts/gpu_check.sh
# Exits with 3 on a machine without a GPU that torch can use.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python; } || python=python3
if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "gpu_check: no GPU that torch can use on this machine; nothing was checked" >&2
    exit 3
fi
exec timeout 480 "$python" benchmarks/gpu.py "$@"
