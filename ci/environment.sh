#!/usr/bin/env bash
# Makes the Python environment of this checkout, and prints the folder of its commands.
#
#   bash ci/environment.sh [EXTRA]...        default extra: dev
#
#   PYTHON           the Python to use; default python3
#   XLA_EQUIV_VENV   where the environment lies; default .venv in the checkout
#
# Does nothing when pyproject.toml, the Python and the extras are those of the last time.
# Several may start at once: one installs, the others wait.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${PYTHON:-python3}"
venv="${XLA_EQUIV_VENV:-$PWD/.venv}"
stamp="$venv/xla-equiv-stamp"
extras="$(IFS=,; echo "${*:-dev}")"

say() { printf 'ci/environment.sh: %s\n' "$1" >&2; }
fail() {
    say "$1"
    printf '  next      %s\n' "$2" >&2
    exit 3
}

command -v "$python" > /dev/null \
    || fail "there is no command '$python'" "install Python 3.10 to 3.13, or name one: PYTHON=python3.12"
version="$("$python" -c 'import platform; print(platform.python_version())')" \
    || fail "'$python' does not run" "name another: PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
    || fail "'$python' is Python $version; torch_xla 2.9 is built for 3.10 to 3.13" "name another: PYTHON=python3.12"
"$python" -c 'import ensurepip, venv' 2> /dev/null \
    || fail "'$python' (Python $version) lacks the module venv or ensurepip" \
        "install it; on Debian and Ubuntu: apt-get install python${version%.*}-venv"
if [[ -d "$venv" && -n "$(ls -A "$venv")" && ! -f "$venv/pyvenv.cfg" ]]; then
    fail "$venv holds something else than an environment" "name another folder: XLA_EQUIV_VENV=DIR"
fi

mkdir -p "$venv"
exec 9< "$venv"
if command -v flock > /dev/null && ! flock --nonblock 9; then
    say "another one is installing into $venv, waiting"
    flock 9
fi

wanted="$("$python" -c '
import hashlib, sys
content = open("pyproject.toml", "rb").read() + "\0".join(sys.argv[1:]).encode()
print(hashlib.sha256(content).hexdigest())
' "$version" "$extras" "$PWD")"

if [[ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ]]; then
    clear=()
    if [[ -f "$venv/pyvenv.cfg" ]] && ! grep -q "^version = $version" "$venv/pyvenv.cfg"; then
        [[ -f "$stamp" ]] || fail "$venv is of another Python than $version" "remove it, or name another folder: XLA_EQUIV_VENV=DIR"
        clear=(--clear)
    fi
    say "installing into $venv; the first time takes some minutes and 7 GB"
    "$python" -m venv ${clear[@]+"${clear[@]}"} "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]" >&2 < /dev/null
    echo "$wanted" > "$stamp"
fi
echo "$venv/bin"
