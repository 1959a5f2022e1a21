#!/usr/bin/env bash
# Builds the binary for every platform it is meant for, without cgo.
set -euo pipefail
cd "$(dirname "$0")/.."
for os in linux windows darwin; do
	for arch in amd64 arm64; do
		echo "build $os/$arch"
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -o /dev/null ./cmd/powerinfer
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go vet ./...
	done
done
