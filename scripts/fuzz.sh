#!/usr/bin/env bash
# Fuzzes every target for the time given (default 15s), one after the other, over the corpus kept beside the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-15s}
ran=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
found=$(go env GOCACHE)/fuzz # where go test keeps the inputs that reach further

# fuzz TARGET FOLDER: once more where Go's fuzzer trips over the end of its own time, which finds nothing and says only so much.
fuzz() {
	local try
	for try in 1 2 3; do
		if (cd "$2" && "$scratch/fuzz.test" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "$time" -test.fuzzminimizetime 1x \
			-test.fuzzcachedir "$found/$(go list .)") 2>&1 | tee "$scratch/log"; then
			return
		fi
		if grep -q 'Failing input' "$scratch/log" || ! grep -q '^ *context deadline exceeded$' "$scratch/log"; then
			break
		fi
	done
	return 1
}
while read -r folder; do
	go test -c -vet=off -fuzz=. -o "$scratch/fuzz.test" "./$folder" # built once for all its targets
	for name in $(grep -rhEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' "$folder"/*_test.go | sed 's/func //' | sort); do
		echo "fuzz $name ($time)"
		fuzz "$name" "$folder"
		ran=$((ran + 1))
	done
done < <(grep -rlE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal | xargs -n1 dirname | sort -u)
[ "$ran" -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
