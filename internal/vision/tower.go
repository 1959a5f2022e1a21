// Package vision shows pictures to text models: it opens files of towers (mmproj), and runs their programs.
package vision

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
)

// Rows are what a text model is given in place of tokens' embeddings. They are shared and must not be changed.
type Rows struct {
	Sum          [32]byte    // equal sums mean equal rows
	Vectors      [][]float32 // [n][width]
	Across, Down int         // see tower.View
	Mutual       bool        // see tower.View
}

// Positions returns how many positions of a text model with positions along several axes the rows take.
func (r *Rows) Positions() int {
	if r.Across == 0 {
		return len(r.Vectors)
	}
	return max(r.Across, r.Down)
}

// Part is a text, which is split into tokens, special ones included, or rows.
type Part struct {
	Text string
	Rows *Rows
}

// Options are the choices made when a tower is opened.
type Options struct {
	Limits tower.Limits
	Width  int  // of the rows that the text model takes; 0: any model
	Axes   bool // the text model distinguishes the axes of positions

	AtOnce bool // the device does operations when they are called, and records none

	// Again opens another device, on which the tower continues if the first one fails while it computes a picture; nil:
	// the picture fails.
	Again func(failed error) (compute.Device, error)
}

// mostKept is the memory for rows of earlier pictures, in bytes: some hundred pictures of 256 rows.
const mostKept = 256 << 20

// Tower is an open tower on its own device. Its methods are safe for concurrent use; one picture is computed at a time.
type Tower struct {
	path    string // of the file
	options Options
	dev     compute.Device
	program tower.Program
	sizes   tower.Sizes
	sum     [32]byte // of the part of the file that rows depend on
	cache   *compute.Cache
	pages   []int32
	layers  int

	shows   tower.Program // the program that shows pictures; it is not replaced with the device
	showing sync.Mutex    // held while a picture is cut into patches, which takes much memory

	turn    chan struct{} // holds a value while somebody uses what follows, or dev
	pool    *nn.Pool
	pass    nn.Pass
	kept    kept
	results map[compute.Segment]compute.Tensor // what Forward gave: a device may repeat a segment without calling it again
}

// IsTower reports whether f holds a tower rather than a text model.
func IsTower(f *gguf.File) bool {
	arch, _, _ := f.String("general.architecture")
	return arch == "clip"
}

// kind returns the name of f's projector.
func kind(f *gguf.File) (string, error) {
	for _, key := range []string{"clip.vision.projector_type", "clip.projector_type"} {
		if name, ok, err := f.String(key); err != nil {
			return "", err
		} else if ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: key %q is missing: the file is no mmproj file, or an old one; convert it again", f.Path, "clip.projector_type")
}

// plan makes all layers share one part of the cache, because a layer's keys and values are not needed after it.
func plan() nn.Plan {
	return nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{Stored: []int{0}} }}
}

func bind(f *gguf.File, b *nn.Binder, o Options) (tower.Program, error) {
	if !IsTower(f) {
		return nil, setting.Errorf("%s: the file holds a text model, not a tower for pictures; %s takes an mmproj file", f.Path, setting.Tower)
	}
	name, err := kind(f)
	switch {
	case err != nil:
		return nil, err
	case !tower.Has(name):
		return nil, fmt.Errorf("%s: projector %q is not supported; these are: %s", f.Path, name, strings.Join(tower.Names(), ", "))
	}
	k := &nn.Keys{File: f, Arch: "clip.vision"}
	program := tower.Open(name, k, b, o.Limits)
	if k.Err != nil {
		return nil, k.Err
	}
	for _, t := range f.Tensors {
		if hears(t.Name) {
			b.Ignore(t.Name)
		}
	}
	if err := b.Finish(); err != nil {
		return nil, err
	}
	if s := program.Sizes(); o.Width > 0 && s.Width != o.Width {
		return nil, fmt.Errorf("%s: its rows have %d numbers, and the text model takes %d: the two files are of different models", f.Path, s.Width, o.Width)
	}
	if o.Width > 0 && program.Sizes().Axes && !o.Axes {
		return nil, fmt.Errorf("%s: the text model's file says nothing of a picture's columns and lines, key %q: it is not the tower's, or an old one; convert it again", f.Path, "rope.dimension_sections")
	}
	if s := program.Sizes(); s.Mutual && o.Limits.Step > 0 && s.Rows > o.Limits.Step {
		return nil, setting.Errorf("%s: a picture may have %d tokens, and the model reads one in a step of at most %d: raise %s by %d", f.Path, s.Rows, o.Limits.Step, setting.Step, s.Rows-o.Limits.Step)
	}
	return program, nil
}

// hears reports whether a tensor is of what shows sounds to a model, in files that have both.
func hears(tensor string) bool {
	return strings.HasPrefix(tensor, "a.") || strings.HasPrefix(tensor, "mm.a.")
}

// Path returns the path of the tower's file.
func (t *Tower) Path() string { return t.path }

// Open opens the tower in f on dev, which Close closes. f may be closed afterwards.
func Open(ctx context.Context, f *gguf.File, dev compute.Device, o Options) (t *Tower, err error) {
	err = fault.Guard(func() error {
		t, err = open(ctx, f, dev, o)
		return err
	})
	if errors.Is(err, fault.Err) {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return t, err
}

func open(ctx context.Context, f *gguf.File, dev compute.Device, o Options) (*Tower, error) {
	b := nn.NewBinder(ctx, f, dev, plan(), false, nil, nil)
	program, err := bind(f, b, o)
	if err != nil {
		return nil, err
	}
	t := &Tower{path: f.Path, options: o, dev: dev, program: program, shows: program, sizes: program.Sizes(), results: map[compute.Segment]compute.Tensor{}, turn: make(chan struct{}, 1), kept: newKept()}
	t.sum = sha256.Sum256(fmt.Appendf(nil, "%x %+v", f.Digest(), o.Limits))
	if stored := storedBy(b.Parts()); stored.Heads > 0 {
		n := pages(t.sizes)
		if t.cache, err = dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{stored}, Pages: n}); err != nil {
			return nil, err
		}
		for page := range int32(n) {
			t.pages = append(t.pages, page)
		}
	}
	t.layers = max(1, len(b.Parts()))
	t.pass.Cache, t.pass.LastLayer = t.cache, -1
	t.pass.Pictures = true
	t.pool = nn.NewPool(dev, t.sizes.Patches, 1)
	rehearse(program, &t.pass, t.pool, nn.Nothing{})
	return t, t.pool.Allocate()
}

// rehearse shows pool which activations the largest view needs; operations go to to.
func rehearse(program tower.Program, pass *nn.Pass, pool *nn.Pool, to compute.Executor) {
	sizes := program.Sizes()
	pass.Params = &compute.Params{}
	for {
		pass.Begin(compute.NewVerbs(to), pool, sizes.Patches, 0)
		program.Forward(pass, &tower.View{Rows: sizes.Rows})
		if !pool.Grown() {
			return
		}
	}
}

// pages returns how many pages of keys and values the largest view takes.
func pages(s tower.Sizes) int {
	return (s.Patches + compute.PagePositions - 1) / compute.PagePositions
}

// storedBy returns the widest shape of keys and values that a layer stores.
func storedBy(parts []nn.Parts) (widest compute.KVShape) {
	for _, p := range parts {
		for _, s := range p.Stored {
			if s.Heads*(s.Key+s.Value) > widest.Heads*(widest.Key+widest.Value) {
				widest = s
			}
		}
	}
	widest.Exact = true
	return widest.Typed(compute.CacheTypes{})
}

// Show returns the pieces of a prompt that show a picture. It computes nothing for a picture with cached rows.
func (t *Tower) Show(ctx context.Context, m *picture.Image) ([]Part, error) {
	parts, err := t.cut(m)
	if err != nil {
		return nil, err
	}
	sum := m.Sum()
	var shown []Part
	for i, p := range parts {
		if p.View == nil {
			shown = append(shown, Part{Text: p.Text})
			continue
		}
		rows, err := t.rows(ctx, t.sumOf(sum, i), func() (*tower.View, error) { return p.View, nil }, nil)
		if err != nil {
			return nil, err
		}
		shown = append(shown, Part{Rows: rows})
	}
	return shown, nil
}

// sumOf returns what names the rows of part i of a picture of the given sum.
func (t *Tower) sumOf(picture [32]byte, i int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%x %x %d", t.sum, picture, i))
}

// cut returns the pieces of a prompt that show a picture. One picture is cut at a time.
func (t *Tower) cut(m *picture.Image) ([]tower.Part, error) {
	t.showing.Lock()
	defer t.showing.Unlock()
	parts, err := t.shows.Show(m)
	if err != nil {
		return nil, &PictureError{err}
	}
	return parts, nil
}

// rows returns the rows of the view that view returns and sum names.
func (t *Tower) rows(ctx context.Context, sum [32]byte, view func() (*tower.View, error), layer func(i int)) (*Rows, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	if r := t.kept.find(sum); r != nil {
		return r, nil
	}
	v, err := view()
	if err != nil {
		return nil, err
	}
	r := &Rows{Sum: sum, Across: v.Across, Down: v.Down, Mutual: v.Mutual}
	t.pass.Begins = func(i int) {
		if layer != nil {
			layer(i)
		}
		if t.options.AtOnce && ctx.Err() != nil { // a large picture takes a CPU a minute
			t.pass.Stop()
		}
	}
	if r.Vectors, err = t.compute(v); err != nil && t.options.Again != nil {
		if err = t.moveOn(ctx, err); err == nil {
			r.Vectors, err = t.compute(v)
		}
	}
	if t.options.AtOnce && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	t.kept.add(r)
	return r, nil
}

// moveOn loads the tower again on another device, because its own failed.
func (t *Tower) moveOn(ctx context.Context, failed error) error {
	dev, err := t.options.Again(failed)
	if err != nil {
		return errors.Join(failed, err)
	}
	f, err := gguf.Open(t.path)
	if err != nil {
		return errors.Join(failed, err, dev.Close())
	}
	defer f.Close()
	o := t.options
	o.Again, o.AtOnce = nil, true
	other, err := Open(ctx, f, dev, o)
	if err != nil {
		return errors.Join(failed, err, dev.Close())
	}
	t.dev.Close() // it has failed
	t.options, t.dev, t.program, t.cache, t.pages = o, dev, other.program, other.cache, other.pages
	t.pool, t.pass, t.results = other.pool, other.pass, other.results
	return nil
}

// compute runs the program over a view. [rows][width]
func (t *Tower) compute(v *tower.View) ([][]float32, error) {
	n := len(v.Patches)
	if n == 0 || n > t.sizes.Patches {
		return nil, fmt.Errorf("a view of %d patches does not fit a tower for %d", n, t.sizes.Patches)
	}
	p := &compute.Params{
		Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n), Pages: [][]int32{t.pages},
		Given: v.Patches, Axes: v.Axes, Bounds: v.Bounds,
	}
	for i := range p.Pos {
		p.Pos[i] = int32(i)
	}
	t.pass.Params = p
	seg := p.Segment("tower")
	record := func(verbs compute.Verbs) {
		t.pass.Begin(verbs, t.pool, n, 0)
		t.results[seg] = t.program.Forward(&t.pass, v)
	}
	if err := t.dev.Run(seg, p, record); err != nil {
		return nil, err
	}
	order := v.Order
	if order == nil {
		order = p.Pos[:v.Rows]
	}
	vectors := make([][]float32, v.Rows)
	for i, n := range order {
		if n < 0 {
			vectors[i] = v.Break
			continue
		}
		row, err := t.dev.Read(t.results[seg], int(n))
		if err != nil {
			return nil, err
		}
		vectors[i] = slices.Clone(row)
	}
	return vectors, nil
}

// Sizes returns the tower's.
func (t *Tower) Sizes() tower.Sizes { return t.sizes }

// Close closes the device.
func (t *Tower) Close() error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	return t.dev.Close()
}

// kept has rows of pictures, those used last first, up to mostKept.
type kept struct {
	room  int64      // bytes left
	order *list.List // of *Rows
	by    map[[32]byte]*list.Element
}

func newKept() kept { return kept{mostKept, list.New(), map[[32]byte]*list.Element{}} }

func (r *Rows) bytes() int64 {
	if len(r.Vectors) == 0 {
		return 0
	}
	return 4 * int64(len(r.Vectors)) * int64(len(r.Vectors[0]))
}

func (k *kept) find(sum [32]byte) *Rows {
	e := k.by[sum]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*Rows)
}

func (k *kept) add(r *Rows) {
	k.by[r.Sum] = k.order.PushFront(r)
	k.room -= r.bytes()
	for k.room < 0 && k.order.Len() > 1 {
		last := k.order.Back()
		k.order.Remove(last)
		old := last.Value.(*Rows)
		delete(k.by, old.Sum)
		k.room += old.bytes()
	}
}
