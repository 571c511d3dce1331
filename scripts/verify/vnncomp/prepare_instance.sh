#!/bin/sh
# prepare_instance.sh v1 CATEGORY NETWORK PROPERTY: nothing is prepared but a machine without an earlier instance.
set -eu
[ "${1:-}" = v1 ] && [ $# -eq 4 ] || { echo "usage: $0 v1 CATEGORY NETWORK PROPERTY" >&2; exit 1; }
for file in "$3" "$4"; do
  [ -r "$file" ] || [ -r "$file.gz" ] || { echo "$file: cannot be read" >&2; exit 1; }
done
pkill -x selfheal 2>/dev/null || true
