#!/usr/bin/env bash
# Bundles what tries a GPU, for machines without Go, network or models, in dist/gpu-check and dist/gpu-check.tar.gz; then runs it
# here, with the arguments given.
set -euo pipefail
cd "$(dirname "$0")/.."
most=$((60 << 20)) # bytes of the bundle
bundle=dist/gpu-check
rm -rf "$bundle" "$bundle.tar.gz"
mkdir -p "$bundle"
export CGO_ENABLED=0
go build -trimpath -ldflags='-s -w' -o "$bundle/gpucheck" ./bench/gpucheck
go build -trimpath -ldflags='-s -w' -o "$bundle/powerinfer" ./cmd/powerinfer
go test -c -trimpath -ldflags='-s -w' -o "$bundle/device.test" ./internal/compute/vulkan
cp bench/gpucheck/gpu-check.sh "$bundle/gpu-check"
cp docs/gpu-check.md "$bundle/README.md"
for loader in /usr/lib/*-linux-gnu/libvulkan.so.1 /usr/lib64/libvulkan.so.1; do
	[ -e "$loader" ] || continue
	mkdir -p "$bundle/lib"
	cp -L "$loader" "$bundle/lib/libvulkan.so.1"
	break
done
bytes=$(du -sb "$bundle" | cut -f1)
if [ "$bytes" -gt "$most" ]; then
	echo "$bundle has $bytes bytes, and at most $most are allowed" >&2
	exit 1
fi
tar -C dist -czf "$bundle.tar.gz" gpu-check
echo "wrote $bundle.tar.gz: $((bytes >> 20)) MiB unpacked" >&2
exec "$bundle/gpu-check" --out dist/gpu-check-results "$@"
