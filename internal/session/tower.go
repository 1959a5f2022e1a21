package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
)

// Tower says by what pictures are shown to a model.
type Tower struct {
	Path        string // of the tower's file; empty: the one next to the model's, if there is one
	Off         bool   // pictures are not shown
	OnProcessor bool   // the processor computes them, although a GPU could
	Least, Most int    // tokens of a picture, where the tower has a choice; 0: as files and families say
}

// file opens the tower's file for the model in f; nil: there is none.
func (t *Tower) file(f *gguf.File) (*gguf.File, error) {
	if t.Off && t.Path != "" {
		return nil, setting.Errorf("%s names a tower for pictures, and %s has none loaded: give one of them", setting.Tower, setting.NoTower)
	}
	if t.Off {
		return nil, nil
	}
	path := t.Path
	if path == "" {
		path = hub.TowerBeside(f.Path)
	}
	if path == "" {
		return nil, nil
	}
	return gguf.Open(path)
}

// openTower opens the tower of the model in s.File, if there is one. It ignores a tower found next to the model that
// does not fit.
func (s *Session) openTower(ctx context.Context, o *Options) error {
	c, err := model.ReadConfig(s.File, o.Engine.Activation)
	if err != nil {
		return err
	}
	limits := o.Tower.limits(o.Engine.PictureStep())
	if limits.Most > 0 && limits.Least > limits.Most {
		return fmt.Errorf("a picture cannot have at least %d tokens and at most %d", limits.Least, limits.Most)
	}
	err = s.openTowerFile(ctx, o, vision.Options{Limits: limits, Width: c.Given, Axes: c.Axes})
	if err == nil || o.Tower.Path != "" || ctx.Err() != nil {
		return err
	}
	if o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("pictures cannot be shown to the model: %v", err))
	}
	return nil
}

func (s *Session) openTowerFile(ctx context.Context, o *Options, options vision.Options) error {
	f, err := o.Tower.file(s.File)
	if f == nil || err != nil {
		return err
	}
	defer f.Close()
	need, err := vision.NeedOf(f, options)
	if err != nil {
		return err
	}
	bytes := need.Weights + need.Activations
	if err = s.openOnGPU(ctx, f, o, options, bytes); err != nil || s.tower != nil {
		s.beside.GPU += bytes
		return err
	}
	options.AtOnce = true
	if s.tower, err = openOn(ctx, f, o.Planner.CPUBeside, options); err != nil {
		return err
	}
	s.beside.add(Need{RAM: bytes, Least: bytes})
	o.spend(bytes)
	return nil
}

// openOnGPU opens the tower in f on a GPU, unless no GPU has room for its bytes or the options keep it on the processor.
func (s *Session) openOnGPU(ctx context.Context, f *gguf.File, o *Options, options vision.Options, bytes int64) (err error) {
	if o.Tower.OnProcessor {
		return nil
	}
	options.Again = func(failed error) (compute.Device, error) {
		if o.Planner.Notice != nil {
			o.Planner.Notice(fmt.Sprintf("%v; pictures are computed on the processor from now on", failed))
		}
		return o.Planner.CPUBeside()
	}
	s.tower, err = openOn(ctx, f, func() (compute.Device, error) { return o.Planner.Beside(bytes) }, options)
	if err != nil && ctx.Err() == nil {
		if o.Planner.Notice != nil {
			o.Planner.Notice(fmt.Sprintf("%v; pictures are computed on the processor", err))
		}
		return nil
	}
	return err
}

// openOn opens the tower in f on the device that open returns; without a device it opens none.
func openOn(ctx context.Context, f *gguf.File, open func() (compute.Device, error), options vision.Options) (*vision.Tower, error) {
	dev, err := open()
	if dev == nil || err != nil {
		return nil, err
	}
	t, err := vision.Open(ctx, f, dev, options)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return t, nil
}

func (t *Tower) limits(step int) tower.Limits {
	return tower.Limits{Least: t.Least, Most: t.Most, Step: step}
}

// NeedOfTower returns the memory of the tower of the model in f; found is false without a tower. Like openTower, it
// ignores one next to the model that does not fit. step is engine.Options.PictureStep.
func NeedOfTower(f *gguf.File, o *Tower, step int) (need vision.Need, found bool, err error) {
	file, err := o.file(f)
	if file != nil {
		defer file.Close()
		need, err = vision.NeedOf(file, vision.Options{Limits: o.limits(step)})
	}
	if err != nil && o.Path == "" {
		return vision.Need{}, false, nil
	}
	return need, file != nil && err == nil, err
}

// needOfTower returns the bytes that the tower of the model in f takes of a GPU's memory, or of RAM. The planner leaves
// room for it.
func (o *Options) needOfTower(f *gguf.File) (onGPU, inRAM int64, err error) {
	need, found, err := NeedOfTower(f, &o.Tower, o.Engine.PictureStep())
	if !found || err != nil {
		return 0, 0, err
	}
	bytes := need.Weights + need.Activations
	if o.Tower.OnProcessor {
		return 0, bytes, nil
	}
	if _, found, err = o.Planner.ReserveBeside(bytes); found {
		return bytes, 0, err
	}
	return 0, bytes, err
}

func (s *Session) closeTower() error {
	if s.tower == nil {
		return nil
	}
	return s.tower.Close()
}

// ShownBy returns the path of the tower's file; empty: there is none.
func (s *Session) ShownBy() string {
	if s.tower == nil {
		return ""
	}
	return s.tower.Path()
}

// Tower returns what shows pictures to the model; nil: nothing does.
func (s *Session) Tower() *vision.Tower { return s.tower }
