# Sourced by run, test and ui: `set_up run` or `set_up test` makes the environment in $venv, or does nothing
# where it is complete already.

root="$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")"
venv="${SCIUQ_VENV:-$root/.venv}"
case "$venv" in /*) ;; *) venv="$PWD/$venv" ;; esac

say() {
  printf '%s\n' "$1" >&2
}

fail() {
  say "${0##*/}: $1"
  exit "${2:-2}"
}

# An environment holds absolute paths, so one that was moved or copied is of no use.
place() {
  printf '%s\n%s\n' "$root" "$venv"
}

stamp() {
  place
  if [ "$1" = test ]; then
    cat -- "$root/requirements.lock" "$root/pyproject.toml" "$root/requirements-test.lock" | cksum
  else
    cat -- "$root/requirements.lock" "$root/pyproject.toml" | cksum
  fi
}

complete() {
  [ -x "$venv/bin/python" ] && [ -f "$venv/.sciuq-$1" ] && [ "$(cat -- "$venv/.sciuq-$1")" = "$(stamp "$1")" ]
}

# Candidates are started, not only looked up: the shims of version managers exist for versions that are not there.
# -I here and below keeps files of the caller's folder, and PYTHONPATH, from being imported in place of the
# standard library.
find_python() {
  local candidate without_venv=""
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [ -z "$candidate" ] || ! command -v "$candidate" >/dev/null 2>&1; then continue; fi
    if ! "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then continue; fi
    # Debian's python3 has venv but not ensurepip, without which an environment has no pip.
    if "$candidate" -I -c 'import ensurepip, venv' >/dev/null 2>&1; then
      python="$candidate"
      return
    fi
    without_venv="${without_venv:-$candidate}"
  done
  if [ -n "$without_venv" ]; then
    fail "$without_venv lacks the module venv or ensurepip: install it (python3-venv on Debian and Ubuntu), or name another Python with PYTHON=/path/to/python3."
  fi
  fail "Python 3.11 or newer is needed and was not found: install it, or name it with PYTHON=/path/to/python3."
}

# Every package that a configured extra location lacks makes pip warn; with a hundred packages that hides errors.
# Python compiles what it imports later on; compiling all that there is would take longer than all the rest.
pip_install() {
  "$venv/bin/python" -I -m pip install -q --no-compile --disable-pip-version-check "$@" 2>&1 |
    { grep -v "^ *WARNING: Location .* is ignored" || true; } >&2
}

imports_torch() {
  "$venv/bin/python" -I -c 'import torch' >/dev/null
}

make_run() {
  # Without a stamp an earlier set-up was interrupted, maybe in the middle of a package: start afresh.
  if [ ! -x "$venv/bin/python" ] || [ "$(head -n 2 -- "$venv/.sciuq-run" 2>/dev/null)" != "$(place)" ]; then
    find "$venv" -mindepth 1 -maxdepth 1 ! -name .sciuq-lock -exec rm -rf {} +
    "$python" -I -m venv "$venv"
  fi
  rm -f -- "$venv/.sciuq-run" "$venv/.sciuq-test"
  pip_install --no-deps -r "$root/requirements.lock"
  pip_install --no-deps --no-build-isolation -e "$root"
  if ! imports_torch 2>/dev/null; then
    say "This build of torch does not start without further libraries (CUDA's, on Linux): installing them too ..."
    pip_install -c "$root/requirements.lock" "$(grep '^torch==' -- "$root/requirements.lock")"
    imports_torch
  fi
  stamp run >"$venv/.sciuq-run"
}

make_test() {
  pip_install --no-deps -r "$root/requirements-test.lock"
  stamp test >"$venv/.sciuq-test"
}

set_up() {
  if complete run && { [ "$1" = run ] || complete test; }; then return; fi
  find_python
  # In this order: whoever else makes it now writes the lock first, so that what is not empty has one.
  if [ -d "$venv" ] && [ -n "$(ls -A -- "$venv")" ] && [ ! -e "$venv/.sciuq-lock" ]; then
    fail "$venv was not made by this script: remove it, or name another folder with SCIUQ_VENV."
  fi
  say "Setting up (once, some minutes) ..."
  mkdir -p -- "$venv"
  set +e
  (
    set -e
    # The environment of the caller is for the runs, not for pip's own helpers.
    unset PYTHONPATH PYTHONHOME
    # The lock belongs to the open file, not to the process that asked for it: it ends with this subshell,
    # however that ends. (The command flock does the same, but macOS has none.)
    "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    if ! complete run; then make_run; fi
    if [ "$1" = test ] && ! complete test; then make_test; fi
  ) 9>"$venv/.sciuq-lock"
  local status=$?
  set -e
  if [ "$status" -ge 128 ]; then exit "$status"; fi
  if [ "$status" -ne 0 ]; then fail "the set-up did not finish for the reason above; the next use begins it again." 1; fi
}
