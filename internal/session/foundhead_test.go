package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestHeadFound: the draft model beside a model drafts for it, unless options say otherwise, and is counted; one that
// does not fit, or for which the context would have to be cut, is left out with a line.
func TestHeadFound(t *testing.T) {
	dir := t.TempDir()
	spec := synth.Spec{Arch: "gemma4", Layers: 6, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, HeadDim: 32, Seed: 5, Activation: "gelu", Context: 8192}
	written := func(name string, f *gguf.File) string {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := made(t, synthtest.File(t, spec))
	path := written("gemma-4-tiny-it-F32.gguf", f)
	head := written("mtp-gemma-4-tiny-it.gguf", synthtest.Assistant(t, f, 3))
	spec.Embd = 96
	other := made(t, synthtest.File(t, spec))

	var lines []string
	open := func(path string, o session.Options) *session.Session {
		t.Helper()
		lines = nil
		o.Planner.Devices, o.Planner.Notice = "none", func(line string) { lines = append(lines, line) }
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Open(t.Context(), f, o)
		if err != nil {
			f.Close()
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	var o session.Options
	o.Engine.Drafts.Most, o.Engine.Context = 4, 128
	with := open(path, o)
	if got := with.DraftsBy(); got != head || len(lines) > 0 {
		t.Errorf("%q drafts, with the lines %q", got, lines)
	}
	o.Draft.Off = true
	without := open(path, o)
	if got := without.DraftsBy(); got != "" {
		t.Errorf("%q drafts, and none is to", got)
	}
	if a, b := with.Takes().RAM, without.Takes().RAM; a <= b {
		t.Errorf("%d bytes with a draft model, %d without", a, b)
	}
	o.Draft.Off, o.Draft.Devices = false, "none"
	if got := open(path, o).DraftsBy(); got != head || len(lines) > 0 {
		t.Errorf("%q drafts in RAM, with the lines %q", got, lines)
	}
	o.Draft.Devices = "Vulkan0"
	if got := open(path, o).DraftsBy(); got != "" || len(lines) != 1 || !strings.Contains(lines[0], "is computed where the model's last layer is") {
		t.Errorf("%q drafts on a GPU of its own, with the lines %q", got, lines)
	}
	o.Draft.Devices = ""
	if got := open(written("gemma-4-tiny-it-large-F32.gguf", other), o).DraftsBy(); got != "" || len(lines) != 1 || !strings.Contains(lines[0], "mtp-gemma-4-tiny-it.gguf is left out") {
		t.Errorf("%q drafts for a model of another width, with the lines %q", got, lines)
	}

	file, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := session.HeadBeside(file); got != head {
		t.Errorf("%q is beside the model", got)
	}
	if need, err := session.NeedOf(t.Context(), file, o); err != nil || need.RAM != with.Takes().RAM {
		t.Errorf("%d bytes are needed, %v, and %d are taken", need.RAM, err, with.Takes().RAM)
	}
	eagle := o
	eagle.Draft.Kinds = []string{"eagle3"}
	if got := eagle.OpenHeadBeside(file); got != nil {
		t.Errorf("%s is taken where an EAGLE-3 head is asked for", got.Path)
		got.Close()
	}

	o.Engine.Context = 8192 // the model's own
	need, err := o.Engine.Memory(file, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	need += 1 << 16 // less than the draft model
	o.Engine.Context, o.Engine.RAM = 0, &need
	tight := open(path, o)
	if got := tight.DraftsBy(); got != "" || tight.Context() != 8192 || len(lines) != 1 || !strings.Contains(lines[0], "is left out: with it, memory has room for a context of 4096 tokens") {
		t.Errorf("%q drafts for a context of %d, where it has no room, with the lines %q", got, tight.Context(), lines)
	}
}

// made returns f as a file on disk.
func made(t *testing.T, f *gguf.File) *gguf.File {
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		tensors = append(tensors, synthtest.Copied(w, w.Name))
	}
	return synthtest.Made(t, f.Keys, tensors)
}
