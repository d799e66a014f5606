#!/usr/bin/env bash
# Train the model that comes with the package, and the systems it is compared with, on the train split of speechocean762;
# then print the error of each on the 125 unseen speakers of its test split. About an hour and three quarters of one core.
#   scripts/train_default.sh CORPUS OUT_FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
corpus=${1:?expected the folder of speechocean762}
out=${2:?expected a folder for the models}
phonechain=${PHONECHAIN:-.venv/bin/phonechain}
mkdir -p "$out/run"

train() {  # NAME PRESET [OPTION...]
    local name=$1 preset=$2
    shift 2
    if [ ! -e "$out/$name.safetensors" ]; then
        rm -f "$out/run/checkpoint.safetensors"
        "$phonechain" train "$corpus" --preset "$preset" --split train --drop +NSN+ \
            --run-dir "$out/run" --out "$out/$name.safetensors" --name "$name" "$@"
    fi
}

# The shipped ones (english is made of wide and small); scripts/card.py writes their cards. Four speakers are held out for calibration alone: the settings were
# chosen with a tenth held out.
train wide blstm-ho-lc-crf --set training.held_out=0.03 --set training.epochs=52 --set model.encoder.frame_units=128 \
    --set model.encoder.frame_layers=2 --set model.encoder.width=224 --set model.encoder.segment_units=224 \
    --set model.encoder.frame_dropout=0.2 --set model.encoder.dropout=0.4 --set model.factors.0.dropout=0.4 \
    --set training.augmentation.clipping=0.12 --set training.augmentation.noise=0.3 --set training.augmentation.cutoff=0.08
train small blstm-ho-lc-crf --set training.held_out=0.03 --set training.epochs=28 --set model.encoder.channels=48 \
    --set model.encoder.frame_units=48 --set model.encoder.width=96 --set model.encoder.segment_units=96 \
    --set model.encoder.dropout=0.2 --set model.encoder.frame_dropout=0.1 --set model.factors.0.dropout=0.2 \
    --set model.factors.1.units=32 --set model.factors.1.dropout=0.3
"$(dirname "$phonechain")/python" scripts/combine.py "$out/english.safetensors" "$corpus" "$out/wide.safetensors" "$out/small.safetensors"
train segments blstm-seg-lc-crf --set training.held_out=0.03
train paper spn-ho-lc-crf
train lc-crf lc-crf
train spn-lc-crf-1seg spn-lc-crf --set model.factors.0.segments=1 --set model.factors.0.dropout=0.1 \
    --set training.l2=0 --set training.epochs=12 --set training.patience=5
train spn-lc-crf-3seg spn-lc-crf

for name in lc-crf spn-lc-crf-1seg spn-lc-crf-3seg paper segments small wide english; do
    echo "== $name"
    "$phonechain" evaluate "$out/$name.safetensors" "$corpus" --split test --normalise "$([[ $name =~ ^(english|wide|small|segments)$ ]] && echo recording || echo model)"
done
