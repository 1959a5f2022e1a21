#!/usr/bin/env bash
# Makes sure that what the tests need is there: installs it when root or in CI, otherwise prints the command.
#   tools.sh test   emulator for the arm64 tests
set -euo pipefail
need=()
command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || need+=(qemu-user)
[ ${#need[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
	echo "tests of the arm64 build are skipped without: ${need[*]}" >&2
	exit 0
fi
if [ "$(id -u)" = 0 ] || [ -n "${CI:-}" ]; then
	sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
else
	echo "some tests are skipped; to run them all: sudo apt-get install ${need[*]}" >&2
fi
