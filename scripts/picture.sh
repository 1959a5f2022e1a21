#!/usr/bin/env bash
# Writes docs/run.svg: what a real run prints, as it is printed. Run it where the output has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(mktemp -d)/powerinfer
trap 'rm -rf "$(dirname "$binary")"' EXIT
CGO_ENABLED=0 go build -o "$binary" ./cmd/powerinfer
arguments='run -p "Once upon a time there was a king" -n 90 -s 7 --temp 0.7'
columns=100

# One line a row: a letter for the colour, and the text.
rows() {
	printf 'c$ powerinfer %s\n' "$arguments"
	eval "$binary $arguments" 2>"$binary.err" | fold -s -w "$columns" | sed 's/^/t/; s/ *$//'
	fold -s -w "$columns" "$binary.err" | sed 's/^/f/; s/ *$//'
}

rows | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' | awk '
	BEGIN { colour["c"] = "#7ee787"; colour["t"] = "#e6edf3"; colour["f"] = "#8b949e" }
	{ body = body sprintf("<text x=\"18\" y=\"%d\" fill=\"%s\">%s</text>\n", 12 + 20 * NR, colour[substr($0, 1, 1)], substr($0, 2)) }
	END {
		height = 28 + 20 * NR
		printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"%d\" role=\"img\">\n", height
		printf "<rect width=\"860\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", height
		printf "<g font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13.5\" xml:space=\"preserve\">\n%s</g>\n</svg>\n", body
	}' >docs/run.svg
