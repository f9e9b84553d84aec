#!/bin/sh
# Checks that .clang-format's rules hold in every C++ file; `--fix` applies them. The version is pinned, because
# versions differ in what they make of the same rules.
set -eu
cd "$(dirname "$0")/.."
wanted=$(sed -n 's/^clang-format==//p' tools/requirements.txt)
format=.venv/bin/clang-format
[ -x "$format" ] || format=clang-format
case "$("$format" --version 2>/dev/null)" in
*"$wanted"*) ;;
*)
  echo "format: clang-format $wanted is needed: tools/setup.sh --oracles" >&2
  exit 1
  ;;
esac
files=$(find . \( -name build -o -name .venv -o -name outputs \) -prune -o \( -name '*.h' -o -name '*.cpp' -o -name '*.inc' \) -print)
[ -n "$files" ] || { echo "format: no files" >&2; exit 1; }
if [ "${1:-}" = --fix ]; then mode=-i; else mode="--dry-run -Werror"; fi
# shellcheck disable=SC2086
echo "$files" | xargs "$format" $mode --style=file
