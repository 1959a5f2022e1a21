#!/usr/bin/env bash
# Tests every package, and says in one line which tests were left out: test.sh [FLAGS OF GO TEST]. make lint vets.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .cache
export POWERINFER_LEFT_OUT=$PWD/.cache/left-out
rm -f "$POWERINFER_LEFT_OUT"
status=0
go test -vet=off -timeout 50m "$@" ./... || status=$?
if [ -e "$POWERINFER_LEFT_OUT" ]; then
	echo "left out: $(sort -u "$POWERINFER_LEFT_OUT" | cut -f1 | uniq -c | sed 's/^ *\([0-9]*\) /\1 tests /' | paste -sd ';' | sed 's/;/; /g')"
fi
exit "$status"
