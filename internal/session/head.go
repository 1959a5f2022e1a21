package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// isHead reports whether f holds a draft head, which computes with the model's states, and not a model.
func isHead(f *gguf.File) bool {
	arch, _, err := f.String("general.architecture")
	return err == nil && family.IsDraft(arch)
}

// openHead has the head in f draft for the model. It refuses one that does not fit.
func (s *Session) openHead(f *gguf.File, o *Options) error {
	s.head = f
	onProcessor := o.Draft.Layers != nil && *o.Draft.Layers == 0 || o.Draft.Devices == noGPU
	if !onProcessor && (o.Draft.Devices != "" || o.Draft.Layers != nil) {
		return setting.Errorf("%s: a draft head is computed where the model's last layer is; to keep it on the processor give %s 0", f.Path, setting.DraftLayers)
	}
	if err := o.Draft.wants(f); err != nil {
		return err
	}
	c, err := model.ReadConfig(s.File, o.Engine.Activation)
	if err != nil {
		return err
	}
	if err := c.TakeHead(s.File, f); err != nil {
		return fmt.Errorf("%s cannot draft for %s: %w", f.Path, s.File.Path, err)
	}
	o.Engine.Drafts.Head, o.Planner.HeadInRAM = f, onProcessor
	return nil
}

// wants says why the file is not of a kind that is asked for, or nil.
func (d *Draft) wants(f *gguf.File) error {
	arch, _, err := f.String("general.architecture")
	if err == nil && d.Kinds != nil && !slices.Contains(d.Kinds, arch) {
		return fmt.Errorf("%s: the file is of architecture %s, and a draft head of %s is asked for", f.Path, arch, strings.Join(d.Kinds, " or "))
	}
	return err
}

// noGPU is Draft.Devices for the processor alone.
const noGPU = "none"

// closeHead closes the head's file, if there is one.
func (s *Session) closeHead() error {
	if s.head == nil {
		return nil
	}
	return s.head.Close()
}
