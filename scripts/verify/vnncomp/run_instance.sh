#!/bin/sh
# run_instance.sh v1 CATEGORY NETWORK PROPERTY RESULT SECONDS: writes the answer, and below sat the counterexample.
set -eu
[ "${1:-}" = v1 ] && [ $# -eq 6 ] || { echo "usage: $0 v1 CATEGORY NETWORK PROPERTY RESULT SECONDS" >&2; exit 1; }
program=${SELFHEAL:-$(dirname "$0")/../../../selfheal}
lying() { if [ -e "$1" ]; then echo "$1"; else echo "$1.gz"; fi; }
"$program" vnnlib "$(lying "$3")" "$(lying "$4")" --timeout "${6}s" --out "$5" --force || echo error >"$5"
