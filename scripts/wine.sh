#!/usr/bin/env bash
# Runs a Windows program under wine: wine.sh PROGRAM ARGS...
# It works in $WINEPREFIX, or a folder in the user's cache, which the first call sets up; wine.sh --end stops what wine left running in it.
# GOOS=windows go test -exec scripts/wine.sh runs a package's tests as a Windows program.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export WINEPREFIX=${WINEPREFIX:-${XDG_CACHE_HOME:-$HOME/.cache}/powerinfer-wine}
export WINEDEBUG=${WINEDEBUG:--all}
export LC_ALL=C.UTF-8 # arguments are taken from this encoding
export WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe=' # no offer to download Mono or Gecko

# first NAME...: the path of the first program that is there.
first() {
	local name
	for name in "$@"; do
		command -v "$name" && return
	done
	echo "wine is not installed; on Debian: apt-get install wine64" >&2
	return 1
}

# prepare sets up the prefix, once however many call it.
prepare() {
	mkdir -p "$WINEPREFIX"
	exec 9>"$WINEPREFIX/lock"
	flock 9
	[ -e "$WINEPREFIX/ready" ] && return
	"$wine" wineboot --init >/dev/null 2>&1 9>&-
	local dll="$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
	[ -e "$dll" ] || (cd "$root" && GOOS='' GOARCH='' CGO_ENABLED=0 go run ./scripts/bcryptprimitives "$dll")
	touch "$WINEPREFIX/ready"
	flock -u 9
}

if [ "$1" = --end ]; then
	server=$(first wineserver wineserver64 /usr/lib/wine/wineserver64)
	"$server" -k || true # nothing runs
	exec "$server" -w
fi
wine=$(first wine64 /usr/lib/wine/wine64 wine)
[ -e "$WINEPREFIX/ready" ] || prepare
exec "$wine" "$@" 9>&-
