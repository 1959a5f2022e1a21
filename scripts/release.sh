#!/usr/bin/env bash
# Archives, packages and checksums for every platform, in dist/: release.sh makes them of what is checked out, without publishing;
# release.sh publish makes a release of the tag that is checked out, and needs GITHUB_TOKEN.
set -euo pipefail
cd "$(dirname "$0")/.."
goreleaser=${GORELEASER:-go run github.com/goreleaser/goreleaser/v2@v2.15.0}
export GOFLAGS=
case ${1:-} in
publish) $goreleaser release --clean ;;
'') $goreleaser release --snapshot --clean ;;
*) echo "release.sh [publish]" >&2; exit 2 ;;
esac
