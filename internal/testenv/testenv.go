// Package testenv finds what tests need beside the code: shared data and tools.
// What POWERINFER_REQUIRE names (space-separated) must be there, so that CI fails where a user's clone skips.
package testenv

import (
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

// Shared returns the path of name in the shared data beside the project's root, or skips the test.
func Shared(t testing.TB, name string) string {
	t.Helper()
	p := filepath.Join(Root(t), "..", "shared", name)
	if _, err := os.Stat(p); err != nil {
		Missing(t, "shared", "shared data is absent: ../shared/"+name)
	}
	return p
}

// Missing skips the test with reason, or fails it where POWERINFER_REQUIRE names what.
func Missing(t testing.TB, what, reason string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("POWERINFER_REQUIRE")), what) {
		t.Fatalf("%s (required by POWERINFER_REQUIRE=%q)", reason, os.Getenv("POWERINFER_REQUIRE"))
	}
	t.Skip(reason)
}
