// Package testenv finds shared data and tools that tests need. What POWERINFER_REQUIRE names (space-separated) must
// exist, so that CI fails where a user's clone skips.
package testenv

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Root returns the project's root directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = up
	}
}

// Shared returns the path of a file, or of a folder, of the data that tests of several packages share: see
// testdata/README.md. It unpacks compressed files.
func Shared(t testing.TB, name string) string {
	t.Helper()
	kept := filepath.Join(Root(t), "internal", "testenv", "testdata", filepath.FromSlash(name))
	info, err := os.Stat(kept)
	if err != nil {
		unpacked := filepath.Join(t.TempDir(), filepath.Base(kept))
		unpack(t, kept+packed, unpacked)
		return unpacked
	}
	if !info.IsDir() {
		return kept
	}
	compressed, err := filepath.Glob(filepath.Join(kept, "*"+packed))
	if err != nil {
		t.Fatal(err)
	}
	if len(compressed) == 0 {
		return kept
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	for _, path := range compressed {
		unpack(t, path, filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), packed)))
	}
	return dir
}

// packed ends the names of compressed files.
const packed = ".gz"

func unpack(t testing.TB, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Missing skips the test with reason, or fails it where POWERINFER_REQUIRE names what.
func Missing(t testing.TB, what, reason string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("POWERINFER_REQUIRE")), what) {
		t.Fatalf("%s (required by POWERINFER_REQUIRE=%q)", reason, os.Getenv("POWERINFER_REQUIRE"))
	}
	leftOut(t, "without "+what)
	t.Skip(reason)
}

// Quick reports whether the test belongs to a quick run, which takes one case where others take one of each kind: make
// test and a plain go test are quick. POWERINFER_THOROUGH, which make test-all sets, and POWERINFER_EXHAUSTIVE end that.
func Quick(t testing.TB) bool {
	t.Helper()
	if os.Getenv("POWERINFER_THOROUGH") != "" || exhaustive() {
		return false
	}
	leftOut(t, "that make test-all runs")
	return true
}

// Thorough skips the test in a Quick run.
func Thorough(t testing.TB) {
	t.Helper()
	if Quick(t) {
		t.Skip("takes long: make test-all runs it")
	}
}

// Few returns n of a test's cases, evenly spread from the first on, in a Quick run, and otherwise all.
func Few[T any](t testing.TB, n int, cases []T) []T {
	t.Helper()
	if len(cases) <= n || !Quick(t) {
		return cases
	}
	few := make([]T, n)
	for i := range few {
		few[i] = cases[i*len(cases)/n]
	}
	return few
}

// Exhaustive reports whether the test runs its whole matrix: .ci/night sets POWERINFER_EXHAUSTIVE for that. Otherwise the
// test runs one case of each kind.
func Exhaustive(t testing.TB) bool {
	t.Helper()
	if exhaustive() {
		return true
	}
	leftOut(t, "with one case of each kind, where .ci/night has all")
	return false
}

func exhaustive() bool { return os.Getenv("POWERINFER_EXHAUSTIVE") != "" && !testing.Short() }

// Some returns the first n of a test's cases, or all of them if the test is Exhaustive. The first n should differ in
// kind.
func Some[T any](t testing.TB, n int, cases []T) []T {
	t.Helper()
	if len(cases) <= n || Exhaustive(t) {
		return cases
	}
	return cases[:n]
}

// Turns returns a function from a subject's number to its cases: one case, so that subjects take turns with the cases,
// as families do with modes, or all cases if the test is Exhaustive.
func Turns[T any](t testing.TB, cases ...T) func(subject int) []T {
	t.Helper()
	whole := Exhaustive(t)
	return func(subject int) []T {
		if whole {
			return cases
		}
		at := subject % len(cases)
		return cases[at : at+1]
	}
}

// leftOut adds a line to the file that POWERINFER_LEFT_OUT names: how, the test's program and the test. scripts/test.sh
// reads it and says what was left out, of a test once.
func leftOut(t testing.TB, how string) {
	t.Helper()
	path := os.Getenv("POWERINFER_LEFT_OUT")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(how + "\t" + filepath.Base(os.Args[0]) + " " + t.Name() + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
