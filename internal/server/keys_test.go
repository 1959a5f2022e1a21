package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestKeyFile: a key added to the file is accepted, a removed one is refused, and an empty file accepts none.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	k := newKeys(&Options{Keys: []string{"fixed"}, KeyFile: file, Log: slog.New(slog.DiscardHandler)})
	at := time.Now().Add(-time.Hour)
	for _, step := range []struct {
		text  string // of the file; -: it is gone
		taken []string
		not   []string
	}{
		{"# ours\nfirst\n\n second \n", []string{"fixed", "first", "second"}, []string{"", "# ours", "third"}},
		{"third\n", []string{"fixed", "third"}, []string{"first", "second"}},
		{"-", []string{"fixed", "third"}, []string{"first"}},
		{"", []string{"fixed"}, []string{"third", ""}},
	} {
		if step.text == "-" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else {
			if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Second)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		k.checked = time.Time{}
		for _, given := range step.taken {
			if !k.has(given) {
				t.Errorf("with the file %q the key %q is refused", step.text, given)
			}
		}
		for _, given := range step.not {
			if k.has(given) {
				t.Errorf("with the file %q the key %q is taken", step.text, given)
			}
		}
	}
	if alone := newKeys(&Options{KeyFile: file}); !alone.wanted() {
		t.Error("an empty file lets everybody in")
	}
}
