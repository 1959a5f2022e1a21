#!/usr/bin/env bash
# Writes LICENSES.txt: the licences of everything that the program is linked with or embeds, on any platform, which
# archives and packages bring along.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOFLAGS= CGO_ENABLED=0 LC_ALL=C
{
	echo "powerinfer is under the licence in LICENSE. It contains what follows, under these licences."
	echo
	echo "======== The embedded demo model"
	echo
	echo "Trained on books in the public domain of the USA, which demo/README.md lists. Their texts are not part of it."
	for os in linux windows darwin; do
		GOOS=$os GOARCH=amd64 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/powerinfer
	done | sort -u | while read -r path version folder; do
		echo
		echo "======== $path $version"
		found=
		for file in "$folder"/LICEN[CS]E* "$folder"/COPYING* "$folder"/NOTICE* "$folder"/License*; do
			[ -f "$file" ] || continue
			found=yes
			echo
			cat "$file"
		done
		[ -n "$found" ] || { echo "$path has no licence file" >&2; exit 1; }
	done
	echo
	echo "======== Go's runtime and standard library"
	echo
	cat "$(go env GOROOT)/LICENSE"
	echo
	echo "======== The web page"
	echo
	cat internal/server/page/dist/licenses.txt
} >LICENSES.txt
