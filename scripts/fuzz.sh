#!/usr/bin/env bash
# Fuzzes every target for the time given (default 15s), one after the other, over the corpus kept beside the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-15s}
ran=0
while IFS=: read -r file name; do
	echo "fuzz $name ($time)"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 1x "./$(dirname "$file")"
	ran=$((ran + 1))
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal | sed 's/func //' | sort)
[ "$ran" -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
