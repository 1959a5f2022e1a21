//go:build unix

package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestHeadUnreadable: a fitting draft head next to the model that cannot be read is left out with a line. A named one
// is an error.
func TestHeadUnreadable(t *testing.T) {
	f := made(t, synthtest.File(t, synth.Spec{Arch: "llama", Layers: 4, Embd: 64, FF: 96, Heads: 4, Type: quant.F16, Activation: "silu", Seed: 9}))
	whole := synthtest.Eagle3(t, f, synthtest.Head{Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Seed: 1})
	for _, named := range []bool{false, true} {
		dir := t.TempDir()
		path, head := filepath.Join(dir, "tiny.gguf"), filepath.Join(dir, "eagle3-tiny.gguf")
		for to, from := range map[string]string{path: f.Path, head: whole.Path} {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var o session.Options
		var lines []string
		o.Engine.Drafts.Most, o.Engine.Context, o.Planner.Devices = 4, 128, "none"
		o.Planner.Notice = func(line string) { lines = append(lines, line) }
		o.Expect = func(engine.Memory, float64) { // the head fits
			if err := os.Truncate(head, 0); err != nil {
				t.Error(err)
			}
		}
		if named {
			o.Draft.Path = head
		}
		file, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Open(t.Context(), file, o)
		switch {
		case named:
			if err == nil || !strings.Contains(err.Error(), "eagle3-tiny.gguf: a mapped file could not be read") {
				t.Errorf("error %v", err)
			}
		case err != nil:
			t.Error(err)
		case s.DraftsBy() != "" || len(lines) != 1 || !strings.Contains(lines[0], "the draft model eagle3-tiny.gguf is left out"):
			t.Errorf("%q drafts, with the lines %q", s.DraftsBy(), lines)
		}
		if err != nil {
			file.Close()
			continue
		}
		s.Close()
	}
}
