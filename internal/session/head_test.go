package session_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestHeadNamed: Draft.Path takes a draft head; options may demand a kind. A head that does not fit, of another kind or
// for its own GPU is refused.
func TestHeadNamed(t *testing.T) {
	spec := synth.Spec{Arch: "llama", Layers: 4, Embd: 64, FF: 96, Heads: 4, Type: quant.F16, Activation: "silu", Seed: 9}
	f := made(t, synthtest.File(t, spec))
	h := synthtest.Head{Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Block: 4, Mask: 17, Seed: 1}
	eagle, flash := synthtest.Eagle3(t, f, h).Path, synthtest.DFlash(t, f, h).Path
	small := spec
	small.FF = 32
	spec.Layers = 3
	shallow := made(t, synthtest.File(t, spec))
	ten, none := 10, 0
	for _, c := range []struct {
		model *gguf.File
		draft session.Draft
		err   string
	}{
		{f, session.Draft{Path: eagle}, ""},
		{f, session.Draft{Path: made(t, synthtest.File(t, small)).Path}, ""},
		{f, session.Draft{Path: flash, Kinds: []string{"eagle3", "dflash"}, Layers: &none}, ""},
		{f, session.Draft{Path: flash, Kinds: []string{"eagle3"}}, "a draft head of eagle3 is asked for"},
		{f, session.Draft{Path: f.Path, Kinds: []string{"eagle3"}}, "the file is of architecture llama"},
		{f, session.Draft{Kinds: []string{"dflash"}}, "there is no draft head of architecture dflash"},
		{f, session.Draft{Path: eagle, Layers: &ten}, "is computed where the model's last layer is"},
		{shallow, session.Draft{Path: eagle}, "reads layers [1 2 4], and the model has 3"},
	} {
		var o session.Options
		o.Engine.Drafts.Most, o.Engine.Context, o.Planner.Devices, o.Draft = 4, 128, "none", c.draft
		file, err := gguf.Open(c.model.Path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Open(t.Context(), file, o)
		if err != nil {
			err = errors.Join(err, file.Close())
		} else {
			if got := s.DraftsBy(); got != c.draft.Path {
				t.Errorf("%q drafts, and %q is named", filepath.Base(got), filepath.Base(c.draft.Path))
			}
			need, err := session.NeedOf(t.Context(), file, o)
			o.Draft = session.Draft{Off: true}
			without, err2 := session.NeedOf(t.Context(), file, o)
			if took := s.Takes().RAM; err != nil || err2 != nil || need.RAM != took || took <= without.RAM {
				t.Errorf("%s: %d bytes are needed, %d without, and %d are taken; %v, %v", filepath.Base(c.draft.Path), need.RAM, without.RAM, took, err, err2)
			}
			s.Close()
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("error %v, want one with %q", err, c.err)
		}
	}
}
