package main

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestReadme: the examples of README.md and docs/commands.md use existing commands and flags, and docs/commands.md
// shows every command.
func TestReadme(t *testing.T) {
	root, shown := command(), map[string]bool{}
	for _, page := range []string{"../../README.md", "../../docs/commands.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown = map[string]bool{}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimPrefix(line, "go run ./cmd/")
			line, _, _ = strings.Cut(line, " # ")
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "powerinfer" {
				continue
			}
			i := slices.IndexFunc(root.Commands, func(c *cli.Command) bool { return c.Name == words[1] })
			if i < 0 {
				t.Errorf("%s: there is no command %q: %s", page, words[1], line)
				continue
			}
			shown[words[1]] = true
			for _, w := range words[2:] {
				name := strings.TrimLeft(w, "-")
				known := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
				if name != w && !slices.ContainsFunc(root.Commands[i].Flags, known) {
					t.Errorf("%s: %s has no flag %s", page, words[1], w)
				}
			}
		}
	}
	for _, c := range root.Commands {
		if !c.Hidden && !shown[c.Name] {
			t.Errorf("docs/commands.md shows no %q", c.Name)
		}
	}
}

var updatePublished = flag.Bool("update-published", false, "write the rows of docs/benchmarks/2026-11-planned.md anew")

// publishedKey returns what a row is of: the first four cells, which no plan changes.
func publishedKey(row string) string {
	return strings.Join(strings.SplitN(row, " | ", 5)[:4], " | ")
}

// TestPublishedTable: the tables of docs/benchmarks/2026-11-planned.md are what plan --published prints.
func TestPublishedTable(t *testing.T) {
	testenv.Thorough(t)
	path, err := exec.LookPath("powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := exec.Command(path, "plan", "--published").Output()
	if err != nil {
		t.Fatal(err)
	}
	const columns = 7 // machine, model, type, and four figures
	const larger = 10 // of the table of models larger than memory
	rows, keyed := map[string]bool{}, map[string]string{}
	keep := func(row string) { rows[row], keyed[publishedKey(row)] = true, row }
	for line := range strings.Lines(string(printed)) {
		f := strings.Fields(strings.ReplaceAll(line, " %", "%"))
		switch {
		case len(f) > columns && strings.HasPrefix(f[0], "pc-"):
			keep(strings.ReplaceAll(strings.Join(f[:columns], " | "), " - |", " – |"))
		case len(f) == larger && f[0] != "machine": // of that table
			keep(strings.ReplaceAll(strings.Join(f, " | "), "%", " %"))
		}
	}
	const page = "../../docs/benchmarks/2026-11-planned.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found, renewed := 0, string(text)
	for line := range strings.Lines(string(text)) {
		row := strings.Trim(strings.TrimSpace(line), "| ")
		if cells := strings.Split(row, " | "); !strings.HasPrefix(row, "pc-") && (len(cells) != larger || cells[0] == "model") {
			continue
		}
		found++
		if now := keyed[publishedKey(row)]; *updatePublished && now != "" {
			renewed = strings.Replace(renewed, "| "+row+" |", "| "+now+" |", 1)
		} else if !rows[row] {
			t.Errorf("plan --published prints no row %s; -update-published renews the page", row)
		}
	}
	if *updatePublished {
		if err := os.WriteFile(page, []byte(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 || found != len(rows) {
		t.Errorf("the page has %d rows, plan --published %d", found, len(rows))
	}
}
