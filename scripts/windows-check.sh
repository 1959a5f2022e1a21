#!/usr/bin/env bash
# Runs tests as Windows programs under wine, and the Windows binary beside this system's: windows-check.sh [PACKAGES]
# Without packages those whose code differs between systems, or that write and map files. Minutes; CI only does the last step.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./internal/{monotime,atomicfile,gguf,hw,measure,bench,eval,prepared,prepare,convert} ./internal/compute/cpu/... ./cmd/powerinfer
scratch=$(mktemp -d)
trap 'scripts/wine.sh --end; rm -rf "$scratch"' EXIT
export WINEPREFIX="$scratch/prefix" CGO_ENABLED=0 LLAMA_ARG_DEVICE=none

# Wine 8 answers "not implemented" (0xC0000002) where Windows versions without deletion as in POSIX say that it is unknown, and so
# os.RemoveAll does not go on to the older way: the tests' temporary folders could not be removed.
at=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
sed 's|case STATUS_INVALID_INFO_CLASS,|case NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,|' "$at" >"$scratch/at.go"
printf '{"Replace": {"%s": "%s"}}' "$at" "$scratch/at.go" >"$scratch/overlay.json"

GOOS=windows GOARCH=amd64 go test -short -p 2 -overlay "$scratch/overlay.json" -exec "$PWD/scripts/wine.sh" "$@"
POWERINFER_REQUIRE="${POWERINFER_REQUIRE:-} wine" go test -count 1 -run '^TestWindows$' ./cmd/powerinfer
