#!/usr/bin/env bash
# Runs every suite, those left out of the default run for their length included. Needs 8 GB of memory.
#
#   bash ci/run-full-suites.sh [ARGUMENT OF xla-equiv run]...
set -euo pipefail
exec bash "$(dirname "${BASH_SOURCE[0]}")/run-default-suites.sh" --full "$@"
