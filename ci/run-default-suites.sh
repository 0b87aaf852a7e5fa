#!/usr/bin/env bash
# Runs the default suites on native PyTorch and on XLA:CPU, and leaves with the exit code of the run.
#
#   bash ci/run-default-suites.sh [ARGUMENT OF xla-equiv run]...
#
# Leaves report.json and report.md in the run folder (.xla_equiv/runs/TIME, or --out DIR); adds the latter
# to the job summary when GITHUB_STEP_SUMMARY is set. XLA_EQUIV_EXTRAS: see ci/run-tpu-suites.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -r -a extras <<< "${XLA_EQUIV_EXTRAS:-dev}"
bin="$(bash ci/environment.sh "${extras[@]}")"
export PATH="$bin:$PATH"

run=".xla_equiv/runs/$(date -u +%Y%m%dT%H%M%SZ)-$$"
previous=""
for argument in "$@"; do
    [[ "$argument" != --out=* ]] || run="${argument#--out=}"
    [[ "$previous" != --out ]] || run="$argument"
    previous="$argument"
done

# In the background, so that a signal to this script reaches the run: it then ends its workers and reports.
xla-equiv run --out "$run" "$@" &
child=$!
interrupted=""
trap 'interrupted=yes; kill -TERM "$child" 2> /dev/null || true' INT TERM
code=0
wait "$child" || code=$?
if [[ -n "$interrupted" ]]; then
    trap '' INT TERM
    code=0
    wait "$child" || code=$?
fi
trap - INT TERM

if [[ -f "$run/report.json" ]]; then
    xla-equiv report "$run" --markdown "$run/report.md" > /dev/null || true
    if [[ -n "${GITHUB_STEP_SUMMARY:-}" && -f "$run/report.md" ]]; then
        cat "$run/report.md" >> "$GITHUB_STEP_SUMMARY"
    fi
fi
exit "$code"
