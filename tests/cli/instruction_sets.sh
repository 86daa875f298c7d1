#!/usr/bin/env bash
# Three steps on each instruction set that oneDNN and the vector kernels can be limited to give nearly the losses that the best one
# gives, in float32 and, where that is taken, in bf16.
# instruction_sets.sh PROGRAM MODEL.onnx...
set -euo pipefail
tandem=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() { echo "FAILED: $*" >&2; exit 1; }
refused=5  # exit code where a device does not take a number format

# Sets losses=: of the steps, and of the data after them, which the gradients have changed.
train() {  # MODEL PRECISION [VARIABLE=VALUE...]
  rm -rf "$folder/run"
  local code=0
  env "${@:3}" "$tandem" train "$1" --data random,samples=24 --init he-normal --batch-size 8 --lr 0.01 --devices cpu:0 --no-autotune \
    --precision "$2" --output "$folder/out.onnx" --run-dir "$folder/run" > /dev/null 2> "$folder/log" || code=$?
  if [ "$code" = "$refused" ] && grep -q "$2 needs" "$folder/log"; then losses= && return; fi
  [ "$code" = 0 ] || { cat "$folder/log" >&2; failed "$*"; }
  losses=$(awk -F, 'NR == 2 { print $3, $5 }' "$folder/run/metrics.csv")
}
near() {  # TOLERANCE "A B" "C D"
  awk -v limit="$1" -v a="$2" -v b="$3" 'BEGIN { split(a, x, " "); split(b, y, " ")
    for (i = 1; i <= 2; i++) { d = (x[i] - y[i]) / y[i]; if (!(d < limit && d > -limit)) exit 1 } }'
}

for model in "$@"; do
  train "$model" fp32
  best=$losses
  [ -n "$best" ] || failed "$model: no losses"
  for isa in TANDEM_CPU_WITHOUT=FMA TANDEM_ISA=baseline TANDEM_ISA=avx2 DNNL_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX512_CORE DNNL_MAX_CPU_ISA=AVX512_CORE_BF16; do
    for precision in fp32 bf16; do
      train "$model" $precision $isa
      [ -n "$losses" ] || { echo "$(basename "$model") $isa $precision: not taken" && continue; }
      [ $precision = fp32 ] && limit=0.001 || limit=0.02
      near $limit "$losses" "$best" || failed "$model $isa $precision: losses $losses, not $best"
      echo "$(basename "$model") $isa $precision: $losses"
    done
    case $isa in DNNL_MAX_CPU_ISA=AVX2 | TANDEM_CPU_WITHOUT=FMA) ;; *) continue ;; esac
    [ -z "$losses" ] || failed "$model: bf16 where oneDNN may not use its instructions"
  done
done

# A processor with AVX2 and without FMA: oneDNN, which does not ask for FMA, is held to less.
grep -qw avx2 /proc/cpuinfo || exit 0
env TANDEM_CPU_WITHOUT=FMA "$tandem" devices > "$folder/devices"
grep -q "uses SSE41" "$folder/devices" && grep -q "baseline" "$folder/devices" || { cat "$folder/devices" >&2; failed "AVX2 is used without FMA"; }
