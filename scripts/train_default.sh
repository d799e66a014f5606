#!/usr/bin/env bash
# Train the model that comes with the package, and the systems it is compared with, on the train split of speechocean762;
# then print the error of each on the 125 unseen speakers of its test split. Under two hours of two cores; it needs flite and festival
# (Debian's flite, festival, festvox-kdlpc16k) for the synthetic voices.
#   scripts/train_default.sh CORPUS OUT_FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
corpus=$(realpath "${1:?expected the folder of speechocean762}")
out=${2:?expected a folder for the models}
phonechain=${PHONECHAIN:-.venv/bin/phonechain}
python=$(dirname "$phonechain")/python
mkdir -p "$out"
export OMP_NUM_THREADS=1  # a core for each of the two trainings that run side by side

train() {  # NAME PRESET [OPTION...], on $corpus or, with ON=FOLDER, on another
    local name=$1 preset=$2
    shift 2
    if [ ! -e "$out/$name.safetensors" ]; then
        rm -f "$out/run/$name/checkpoint.safetensors"
        "$phonechain" train "${ON:-$corpus}" --preset "$preset" --split train --drop +NSN+ \
            --run-dir "$out/run/$name" --out "$out/$name.safetensors" --name "$name" "$@"
    fi
}

# `english` is one network that learns from two, `wide` and `small`, in one chain; scripts/card.py writes the cards of what is
# shipped. Four speakers are held out for calibration alone: the settings were chosen with a tenth held out.
train small blstm-ho-lc-crf --set training.held_out=0.03 --set training.epochs=28 --set model.encoder.channels=48 \
    --set model.encoder.frame_units=48 --set model.encoder.width=96 --set model.encoder.segment_units=96 \
    --set model.encoder.dropout=0.2 --set model.encoder.frame_dropout=0.1 --set model.factors.0.dropout=0.2 \
    --set model.factors.1.units=32 --set model.factors.1.dropout=0.3 &
small=$!
train wide blstm-ho-lc-crf --set training.held_out=0.03 --set training.epochs=52 --set model.encoder.frame_units=128 \
    --set model.encoder.frame_layers=2 --set model.encoder.width=224 --set model.encoder.segment_units=224 \
    --set model.encoder.frame_dropout=0.2 --set model.encoder.dropout=0.4 --set model.factors.0.dropout=0.4 \
    --set training.augmentation.clipping=0.12 --set training.augmentation.noise=0.3 --set training.augmentation.cutoff=0.08
wait $small
"$python" scripts/combine.py "$out/product.safetensors" "$corpus" "$out/wide.safetensors" "$out/small.safetensors"

compare() {
    train segments blstm-seg-lc-crf --set training.held_out=0.03
    train paper spn-ho-lc-crf
    train lc-crf lc-crf
    train spn-lc-crf-1seg spn-lc-crf --set model.factors.0.segments=1 --set model.factors.0.dropout=0.1 \
        --set training.l2=0 --set training.epochs=12 --set training.patience=5
    train spn-lc-crf-3seg spn-lc-crf
}
compare &
others=$!

if [ ! -e "$out/mix/utterances.tsv" ]; then
    for voice in rms:5 awb:6 ked:8; do
        "$python" -m experiments.synthetic "$corpus/utterances.tsv" "$out/voices/${voice%:*}" --split train \
            --voices "${voice%:*}" --count 225 --vary --words 4 --shift -0.01 --seed "${voice#*:}"
    done
    "$python" scripts/mix_corpus.py "$corpus" "$out/mix" "$out/voices"
fi
ON=$out/mix train english blstm-ho-lc-crf --dev dev --teacher "$out/product.safetensors" --set training.teacher_weight=0.7 \
    --set training.precision=bfloat16 --set training.epochs=30 --set model.encoder.width=224 --set model.encoder.segment_units=224 \
    --set model.encoder.frame_dropout=0.1 --set model.encoder.dropout=0.25 --set model.factors.0.dropout=0.25 \
    --set model.factors.1.dropout=0.4 --set training.augmentation.clipping=0.12 --set training.augmentation.noise=0.3 \
    --set training.augmentation.cutoff=0.08
wait $others

for name in lc-crf spn-lc-crf-1seg spn-lc-crf-3seg paper segments small wide product english; do
    echo "== $name"
    "$phonechain" evaluate "$out/$name.safetensors" "$corpus" --split test --normalise "$([[ $name =~ ^(english|product|wide|small|segments)$ ]] && echo recording || echo model)"
done
