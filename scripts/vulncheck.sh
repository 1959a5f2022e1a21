#!/usr/bin/env bash
# Asks the databases of Go and of npm whether something that the program calls or embeds has a known vulnerability, on each system.
# Where a database or the checker cannot be reached, it says so in one line and does not fail: GOVULNDB names another database of Go's.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# unchecked WHAT WHY-FILE: one line that nothing was checked, with the last line of what went wrong.
unchecked() { echo "vulncheck: $1 were NOT checked: $(grep -v '^ *$' "$2" | tail -1)" >&2; }

go_modules() {
	local system status
	if ! GOFLAGS= GOBIN=$scratch go install golang.org/x/vuln/cmd/govulncheck@v1.9.0 >"$scratch/log" 2>&1; then
		unchecked "Go's modules" "$scratch/log"
		return
	fi
	for system in linux windows darwin; do
		status=0
		GOOS=$system GOARCH=amd64 "$scratch/govulncheck" -db "${GOVULNDB:-https://vuln.go.dev}" ./cmd/powerinfer >"$scratch/log" 2>&1 || status=$?
		case $status in
		0) echo "vulncheck: Go's modules on $system: none known" ;;
		3) cat "$scratch/log" >&2; return 1 ;;
		*)
			# It fetches the index first, and says so where that fails; any other failure is one of the code or the call.
			if grep -q 'fetching vulnerabilities' "$scratch/log"; then
				unchecked "Go's modules" "$scratch/log"
				return
			fi
			cat "$scratch/log" >&2
			return 1 ;;
		esac
	done
}

npm_packages() {
	command -v npm >/dev/null || { echo 'npm is not installed' >"$scratch/log"; unchecked "the page's npm packages" "$scratch/log"; return; }
	# npm exits with 1 for a vulnerability and for a registry that does not answer; only a report counts vulnerabilities.
	(cd web && npm audit --json --omit=dev --package-lock-only >"$scratch/audit.json" 2>"$scratch/log") || true
	node -e '
		const report = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
		if (!report.metadata?.vulnerabilities) { console.log(report.message ?? report.error?.summary ?? "no report"); process.exit(2); }
		const { total } = report.metadata.vulnerabilities;
		if (total > 0) { console.log(JSON.stringify(report.vulnerabilities, null, 2)); process.exit(1); }
	' "$scratch/audit.json" >"$scratch/log" 2>&1 && status=0 || status=$?
	case $status in
	0) echo "vulncheck: the page's npm packages: none known" ;;
	1) cat "$scratch/log" >&2; return 1 ;;
	*) unchecked "the page's npm packages" "$scratch/log" ;;
	esac
}

go_modules
npm_packages
