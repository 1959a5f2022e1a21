#!/usr/bin/env bash
# Formatting, vet, staticcheck and known vulnerabilities, with versions fixed here.
set -euo pipefail
cd "$(dirname "$0")/.."
# Folders that git ignores are left out: tests change them meanwhile.
sources=$(git ls-files --cached --others --exclude-standard '*.go' | cut -d/ -f1 | sort -u)
unformatted=$(go run mvdan.cc/gofumpt@v0.12.0 -l $sources)
if [ -n "$unformatted" ]; then
	printf 'not formatted (gofumpt -w):\n%s\n' "$unformatted" >&2
	exit 1
fi
go vet ./...
go -C gen vet ./...
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
scripts/vulncheck.sh
