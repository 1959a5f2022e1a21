#!/usr/bin/env bash
# Builds the binary for other systems and processors, without cgo. With the argument all, it does so for every platform
# that the binary is meant for, and vets all packages there. Otherwise it builds for each system and each processor once,
# because what depends on a system is the same on all its processors, and what depends on a processor is the same on all
# systems. It vets for Windows alone, which differs most from Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(windows/amd64 darwin/arm64)
[ "${1:-}" != all ] || targets+=(linux/amd64 linux/arm64 windows/arm64 darwin/amd64)
lean=(-gcflags=all=-dwarf=false -ldflags='-s -w') # leaves out what debuggers read, a sixth of the work
for target in "${targets[@]}"; do
	flags=()
	[ "${target#*/}" != arm64 ] || flags=("${lean[@]}") # tests share what is compiled for amd64
	echo "build $target"
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build "${flags[@]}" -o /dev/null ./cmd/powerinfer
	if [ "${1:-}" = all ] || [ "$target" = windows/amd64 ]; then
		CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go vet "${flags[@]}" ./... # make lint vets linux/amd64
	fi
done
# Where a C compiler is, go build uses it, and the sandbox makes its system calls through other code. What calls Vulkan
# is linked with cgo by the race detector.
if command -v "$(go env CC)" >/dev/null; then
	echo "test the sandbox with cgo"
	CGO_ENABLED=1 go test -vet=off ./internal/eval/sandbox
	[ "${1:-}" != all ] || CGO_ENABLED=1 go build -o /dev/null ./cmd/powerinfer
else
	echo "nothing is built with cgo: install a C compiler" >&2
	[ -z "${CI:-}" ]
fi
echo "build linux/amd64 without the GPU, static"
static=$(mktemp) arm=$(mktemp)
trap 'rm -f "$static" "$arm"' EXIT
CGO_ENABLED=0 go vet -tags nogpu ./internal/compute/vulkan/vk # no other package has the tag
CGO_ENABLED=0 go test -vet=off -tags nogpu -run '^TestWithoutSupport$' ./internal/compute/vulkan
CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -tags nogpu -o "$static" ./cmd/powerinfer
if readelf -lW "$static" | grep -q INTERP; then
	echo "with -tags nogpu the binary still asks for a dynamic linker" >&2
	exit 1
fi

# What the embedded model says does not depend on the processor. The emulated ones have no dot products, have them, and have products of matrices too.
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || {
	echo "linux/arm64 is not run: install qemu-user" >&2
	[ -z "${CI:-}" ]
	exit
}
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build "${lean[@]}" -tags nogpu -o "$arm" ./cmd/powerinfer
text() { "$@" run -p 'Once upon a time' -n 8 --temp 0 2>/dev/null; }
want=$(text "$static")
for processor in cortex-a53 cortex-a76 max; do
	echo "run linux/arm64 on an emulated $processor"
	if [ "$(text "$emulator" -cpu "$processor" "$arm")" != "$want" ] || [ -z "$want" ]; then
		echo "on an emulated $processor the embedded model does not say what it says here" >&2
		exit 1
	fi
done
