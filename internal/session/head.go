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

// OnProcessor reports whether d keeps a draft head in RAM.
func (d *Draft) OnProcessor() bool {
	return d.Layers != nil && *d.Layers == 0 || d.Devices == noGPU
}

// headFits says why the head in file cannot draft for the model in f, which c describes, or nil.
func (o *Options) headFits(c model.Config, f, file *gguf.File) error {
	if d := &o.Draft; !d.OnProcessor() && (d.Devices != "" || d.Layers != nil) {
		return setting.Errorf("%s: a draft head is computed where the model's last layer is; to keep it on the processor give %s 0", file.Path, setting.DraftLayers)
	}
	if err := o.Draft.wants(file); err != nil {
		return err
	}
	if err := c.TakeHead(f, file); err != nil {
		return fmt.Errorf("%s cannot draft for %s: %w", file.Path, f.Path, err)
	}
	return nil
}

// takeHead sets o to draft with the head in file.
func (o *Options) takeHead(file *gguf.File) {
	o.Engine.Head, o.Planner.HeadInRAM = file, o.Draft.OnProcessor()
}

// openHead sets o to draft with the head in file, which o names. It refuses a head that does not fit the model.
func (s *Session) openHead(file *gguf.File, o *Options) error {
	s.head = file
	c, err := model.ReadConfig(s.File, o.Engine.Activation)
	if err == nil {
		err = o.headFits(c, s.File, file)
	}
	o.takeHead(file)
	return err
}

// wants says why the file is not of a kind that is asked for, or nil.
func (d *Draft) wants(f *gguf.File) error {
	arch, _, err := f.String("general.architecture")
	if err == nil && d.Kinds != nil && !slices.Contains(d.Kinds, arch) {
		return fmt.Errorf("%s: the file is of architecture %s, and a draft head of %s is asked for", f.Path, arch, strings.Join(d.Kinds, " or "))
	}
	return err
}

// noGPU is Draft.Devices for the CPU alone.
const noGPU = "none"

// closeHead closes the head's file, if there is one.
func (s *Session) closeHead() error {
	if s.head == nil {
		return nil
	}
	return s.head.Close()
}
