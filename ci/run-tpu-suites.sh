#!/usr/bin/env bash
# Runs the variants on xla:tpu. On a machine without a TPU they are UNVERIFIED, and the run is not green.
#
#   bash ci/run-tpu-suites.sh [ARGUMENT OF xla-equiv run]...
set -euo pipefail
XLA_EQUIV_EXTRAS="${XLA_EQUIV_EXTRAS:-dev tpu}" \
    exec bash "$(dirname "${BASH_SOURCE[0]}")/run-default-suites.sh" --backend xla:tpu "$@"
