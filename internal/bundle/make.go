package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// Making holds callbacks of Make. Each may be nil.
type Making struct {
	Progress func(done, total int64) // bytes of the file, without those that an earlier call has written
	Notice   func(string)            // a line for the user

	piece int64 // about how many bytes are written at once; 0: usualPiece
}

// Disks reach their full bandwidth with reads and writes of these sizes.
const (
	usualPiece = 4 << 20
	readBytes  = 256 << 10
	readDepth  = 8
)

// For opens the bundle file of a model, and makes it if it is missing.
func For(ctx context.Context, model *gguf.File, m Making) (*File, error) {
	y, err := guarded(model)
	if err != nil {
		return nil, err
	}
	places := Places(model.Path)
	for _, path := range places {
		f, err := y.open(path)
		if err == nil {
			return f, nil
		}
		var other *errOther
		if !errors.As(err, &other) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	var last error
	for i, path := range places {
		if i > 0 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, errors.Join(last, err)
			}
		}
		f, err := y.make(ctx, model, path, m)
		if err == nil || !notWritable(err) && !errors.Is(err, atomicfile.ErrForeign) {
			return f, err
		}
		last = errors.Join(last, err)
	}
	return nil, last
}

// Make makes the bundle file of a model at path and opens it. If an earlier call was killed or cancelled, Make
// continues after the last layer that it finished. While another process makes the file, Make waits for it.
func Make(ctx context.Context, model *gguf.File, path string, m Making) (*File, error) {
	y, err := guarded(model)
	if err != nil {
		return nil, err
	}
	return y.make(ctx, model, path, m)
}

// guarded is layoutOf of a file that may have become shorter since it was mapped.
func guarded(model *gguf.File) (y *layout, err error) {
	err = fault.Guard(func() error {
		y, err = layoutOf(model)
		return err
	})
	return y, err
}

func (y *layout) make(ctx context.Context, model *gguf.File, path string, m Making) (*File, error) {
	if _, err := model.Direct(y.layers[0].rows[Down]); err != nil {
		return nil, err
	}
	if err := atomicfile.Check(path, gguf.NeuronsKind()); err != nil {
		return nil, err
	}
	p, err := take(ctx, y, path, &m)
	if err != nil {
		return nil, err
	}
	if f, err := y.open(path); err == nil { // another process has made it
		p.remove()
		return f, nil
	}
	w := &writer{ctx: ctx, y: y, model: model, part: p, Making: m}
	if w.piece == 0 {
		w.piece = usualPiece
	}
	if err := w.all(); err != nil {
		if p.layers == 0 || hw.DiskFull(err) || errors.Is(err, errRoom) || errors.Is(err, disk.ErrChanged) {
			p.remove() // nothing is lost, or nobody can continue
		}
		p.close()
		return nil, failed(path, err)
	}
	if err := p.publish(path); err != nil {
		p.close()
		return nil, failed(path, err)
	}
	return y.open(path)
}

// failed returns the error of a file that was not made.
func failed(path string, err error) error {
	var named *fs.PathError
	if errors.As(err, &named) && named.Path == path+partSuffix {
		err = named.Err
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case hw.DiskFull(err):
		return fmt.Errorf("writing the model's neurons to %s: %w: make room, or move the model to another disk", path, err)
	}
	return fmt.Errorf("writing the model's neurons to %s: %w", path, err)
}

// errRoom begins the error of a disk without room for the file.
var errRoom = errors.New("its disk has too little room")

// writer writes the layers that a part lacks.
type writer struct {
	Making
	ctx    context.Context
	y      *layout
	model  *gguf.File
	reader *disk.Reader
	part   *part
	first  int64 // bytes of the file that an earlier call has written
	done   int64 // bytes of them written by now
}

// all writes the layers that are missing, and checks that the model was not changed meanwhile.
func (w *writer) all() error {
	if err := w.part.begin(); err != nil {
		return err
	}
	w.first = w.part.end()
	w.done = w.first
	if err := w.room(); err != nil {
		return err
	}
	var err error
	if w.reader, err = disk.NewReader(readDepth); err != nil {
		return err
	}
	defer w.reader.Close()
	for w.part.layers < len(w.y.layers) {
		if err := w.layer(&w.y.layers[w.part.layers]); err != nil {
			return err
		}
		if err := w.part.finished(); err != nil {
			return err
		}
	}
	return w.unchanged()
}

// unchanged returns an error if the model that was read is not that of the layout.
func (w *writer) unchanged() error {
	for i := range w.y.layers {
		files, err := w.files(&w.y.layers[i])
		if err != nil {
			return err
		}
		for _, f := range files {
			if f == nil {
				continue
			}
			if err := f.Changed(); err != nil {
				return err
			}
		}
	}
	f, err := gguf.Open(w.model.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if y, err := guarded(f); err != nil || y.identity() != w.y.identity() {
		return fmt.Errorf("%s was replaced by another file, start again to use that one: %w", w.model.Path, disk.ErrChanged)
	}
	return nil
}

// files returns the files of the model that have a layer's parts. [parts]
func (w *writer) files(l *layer) (files [parts]*disk.File, err error) {
	for p, t := range l.rows {
		if t != nil && err == nil {
			files[p], err = w.model.Direct(t)
		}
	}
	return files, err
}

// room returns an error if the disk has less room than the rest of the file needs.
func (w *writer) room() error {
	free, err := hw.FreeDisk(filepath.Dir(w.part.path))
	need := w.y.size - w.done
	if unknown := err != nil; unknown || free >= need {
		return nil
	}
	const gib = 1 << 30
	return fmt.Errorf("%w: %.2f GiB are needed and %.2f are free: make %.2f GiB free", errRoom, float64(need)/gib, float64(free)/gib, float64(need-free)/gib)
}

// run is a run of a layer's neurons as the file has them.
type run struct {
	first int // neuron
	data  []byte
	err   error
}

// layer writes a layer and its checksums. One goroutine reads while the other writes.
func (w *writer) layer(l *layer) error {
	const whole = block / least // this many neurons are whole blocks
	files, err := w.files(l)
	if err != nil {
		return err
	}
	s := &source{
		layer: l, files: files, reader: w.reader, sums: blocks(l.end() - l.sums),
		step: int(max(w.piece/l.stride, 1)+whole-1) / whole * whole,
	}
	ctx, cancel := context.WithCancel(w.ctx)
	read, free := make(chan run), make(chan []byte, 2)
	for range cap(free) {
		free <- blocks(int64(s.step) * l.stride)
	}
	go s.read(ctx, free, read)
	defer func() {
		cancel()
		for range read { // until the source has ended
		}
	}()
	for r := range read {
		if r.err != nil {
			return r.err
		}
		if err := w.write(r.data, l.offset+int64(r.first)*l.stride); err != nil {
			return err
		}
		free <- r.data[:cap(r.data)]
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.write(s.sums, l.sums)
}

// write writes to the part and keeps the page cache small.
func (w *writer) write(data []byte, at int64) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.part.write(data, at); err != nil {
		return err
	}
	w.done += int64(len(data))
	if w.Progress != nil {
		w.Progress(w.done-w.first, w.y.size-w.first)
	}
	return nil
}
