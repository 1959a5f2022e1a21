package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesPackages: the house of docs/architecture.md shows every package below internal.
func TestArchitectureNamesPackages(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, _ := strings.Cut(string(text), "```\n")
	house, _, _ = strings.Cut(house, "```\n")
	for _, f := range floors {
		name, ok := strings.CutPrefix(f.pkg, "internal/")
		if ok && !strings.Contains(name, "/") && !regexp.MustCompile(`(?m)^ [ 0-9]+ `+name+`/ `).MatchString(house) {
			t.Errorf("docs/architecture.md lacks package %s", f.pkg)
		}
	}
}

// TestDocumentsLead: what documents link to exists, and so do the files of this repository that they name.
func TestDocumentsLead(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 50 {
		t.Fatalf("only %d documents were found", len(files))
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	named := regexp.MustCompile("`((?:internal|cmd|bench|gen|scripts|deploy|demo)/[\\w./-]+)`")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
			}
		}
		if strings.Contains(file, "benchmarks") { // tells of earlier commits' files, too
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", file, m[1])
			}
		}
	}
}

// TestBenchmarksListed: docs/benchmarks/README.md lists every page beside it.
func TestBenchmarksListed(t *testing.T) {
	const folder = "../docs/benchmarks/"
	text, err := os.ReadFile(folder + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(folder + "20*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if !strings.Contains(string(text), "]("+filepath.Base(page)+") |") {
			t.Errorf("docs/benchmarks/README.md lacks %s", filepath.Base(page))
		}
	}
}
