#!/usr/bin/env bash
# The same command gives the same bits, also on a machine whose every core has other work: five times with --deterministic,
# five times with a warm cache of kernel times, and with a break after which the cache says something else.
# same_run.sh PROGRAM MODELS
set -euo pipefail
tandem=$1 models=$2
folder=$(mktemp -d)
busy=()
for ((core = 0; core < $(nproc); core++)); do
  while :; do :; done &
  busy+=($!)
done
trap 'kill "${busy[@]}"; rm -rf "$folder"' EXIT
failed() { echo "FAILED: $*" >&2; exit 1; }

train() {  # NAME OPTION...
  "$tandem" train "$models/lenet.onnx" --data synthetic:digits,train=160,test=16 --init he-normal --batch-size 64 --devices cpu:0 \
    --run-dir none --output "$folder/$1.onnx" "${@:2}" 2> "$folder/$1.log" > /dev/null || { cat "$folder/$1.log" >&2; failed "$1"; }
}
same() { cmp "$folder/$1.onnx" "$folder/$2.onnx" || failed "$1 and $2 differ"; }

for i in 1 2 3 4 5; do
  train "deterministic$i" --deterministic --tuning-cache "$folder/cold$i"
  same deterministic1 "deterministic$i"
  [ ! -s "$folder/cold$i" ] || failed "--deterministic has timed kernels"
done
echo "five times with --deterministic: the same"

cache=$folder/warm
train warm0 --tuning-cache "$cache"
times=$(cksum < "$cache")
for i in 1 2 3 4 5; do
  train "warm$i" --tuning-cache "$cache"
  same warm0 "warm$i"
done
[ "$times" = "$(cksum < "$cache")" ] || failed "a run with a warm cache has timed kernels"
echo "five times with a warm cache: the same; $(grep -c '^~' "$cache") of $(wc -l < "$cache") times were disturbed"

# What was slow is fast now, so that a plan made anew would be another.
awk -F'\t' -v OFS='\t' 'NR > 1 { sub(/^~/, "", $1); $1 = sprintf("%.17g", 1e-9 / $1) } { print }' "$cache" > "$folder/other"
train whole --epochs 2 --run-dir "$folder/whole" --tuning-cache "$cache"
train broken --epochs 1 --run-dir "$folder/broken" --tuning-cache "$cache"
train broken --epochs 2 --run-dir "$folder/broken" --resume --tuning-cache "$folder/other"
same whole broken
train other --epochs 2 --run-dir "$folder/other-run" --tuning-cache "$folder/other"
for plan in "$folder"/whole/plans/training-64-*.plan; do
  "$tandem" plan --check "$plan" > /dev/null || failed "$plan"
  cmp -s "$plan" "$folder/other-run/plans/$(basename "$plan")" && failed "other times chose the same kernels: the test says nothing"
done
echo "resumed with other times: the same"
grep -q "keeps no plan" "$folder/broken.log" && failed "a resumed run says that it was planned anew"
train broken --epochs 3 --run-dir "$folder/broken" --resume --devices cpu:0-1 --tuning-cache "$cache"
grep -q "plans keeps no plan for this model with these devices and options: it is planned anew" "$folder/broken.log" || failed "another number of devices, and no word"
echo "resumed on other devices: it says so"

# How OpenMP's threads wait: briefly, or as the user says.
settings() { env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=VERBOSE "$@" "$tandem" --version 2>&1 > /dev/null | sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'.*/\1/p" | tail -1; }
if [ -n "$(settings)" ]; then
  [ "$(settings)" = 2000 ] || failed "threads spin for $(settings) turns"
  [ "$(settings GOMP_SPINCOUNT=77)" = 77 ] || failed "GOMP_SPINCOUNT is not the user's"
  [ "$(settings OMP_WAIT_POLICY=passive)" = 0 ] || failed "OMP_WAIT_POLICY is not the user's"
fi
