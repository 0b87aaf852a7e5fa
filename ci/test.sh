#!/usr/bin/env bash
# Passes the tests: environment, lint, types, layers, dependencies, then pytest.
#
#   bash ci/test.sh [PYTEST ARGUMENT]...     such as -k tolerance, tests/documents, -m slow
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin="$(bash ci/environment.sh dev)"
export PATH="$bin:$PATH"

ruff check .
mypy
lint-imports
deptry .
python -m pytest -m "not slow" "$@"
