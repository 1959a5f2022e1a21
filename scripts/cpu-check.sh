#!/usr/bin/env bash
# Bundles what checks a processor, for machines without Go, network or models, in dist/cpu-check-SYSTEM-PROCESSOR and an
# archive of that name; then runs it with the arguments given, if it is for this machine. GOOS and GOARCH choose the platform.
set -euo pipefail
cd "$(dirname "$0")/.."
most=$((80 << 20)) # bytes of the bundle
system=$(go env GOOS) processor=$(go env GOARCH) name=cpu-check-$(go env GOOS)-$(go env GOARCH)
bundle=dist/$name
suffix=$(go env GOEXE)
rm -rf "$bundle" "$bundle.tar.gz"
mkdir -p "$bundle"
export CGO_ENABLED=0
go build -trimpath -ldflags='-s -w' -o "$bundle/cpucheck$suffix" ./bench/cpucheck
go build -trimpath -ldflags='-s -w' -o "$bundle/powerinfer$suffix" ./cmd/powerinfer
go test -c -trimpath -ldflags='-s -w' -o "$bundle/kernel.test$suffix" ./internal/compute/cpu/kernel
cp docs/cpu-check.md "$bundle/README.md"
bytes=$(cat "$bundle"/* | wc -c) # macOS has no du -b
if [ "$bytes" -gt "$most" ]; then
	echo "$bundle has $bytes bytes, and at most $most are allowed" >&2
	exit 1
fi
tar -C dist -czf "$bundle.tar.gz" "$name"
echo "wrote $bundle.tar.gz: $((bytes >> 20)) MiB unpacked" >&2
[ "$system/$processor" = "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ] || exit 0
exec "$bundle/cpucheck$suffix" --out dist/cpu-check-results "$@"
