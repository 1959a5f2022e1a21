package engine

import (
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// leastStreamed is the least size of streamed matrices. [bytes]
const leastStreamed = 64 << 10

// streams reports whether steps may read matrices of a model from the disk. For that it must be dense, and none of its
// neurons may stay on the disk.
func (o *Options) streams(f *gguf.File, c *model.Config) bool {
	return !o.Mapped && c.Experts.Count == 0 && !o.canStay(f, *c)
}

// streamed decides how to load a model that does not fit, if steps may read its matrices: they read as few of its last
// layers as memory allows, one layer after the other. The stream is nil if the rest does not fit, either.
func (o *Options) streamed(f *gguf.File, c model.Config, on placement.Layout) (m Memory, stream *gguf.Stream) {
	if !o.streams(f, &c) {
		return m, nil
	}
	if m, stream = o.fewest(f, &c, on); stream == nil || o.UBatch != 0 || on.Places != nil { // GPUs have room for steps of the planned length only
		return m, stream
	}
	long := o.withLongSteps() // every step reads all, so fewer steps are faster
	if n, with := long.fewest(f, &c, on); with != nil && with.Bytes() <= stream.Bytes()+stream.Bytes()/8 {
		o.UBatch = long.UBatch
		return n, with
	}
	return m, stream
}

// fewest returns the stream of the fewest layers with which the model fits; nil: it does not.
func (o *Options) fewest(f *gguf.File, c *model.Config, on placement.Layout) (m Memory, stream *gguf.Stream) {
	for n := 1; n <= c.Layers; n++ {
		if m, stream = o.streamLast(f, c, on, n); m.fits() {
			return m, stream
		}
	}
	return m, nil
}

// smallest returns the least memory of the model, if necessary with steps that read all of its layers.
func (o *Options) smallest(f *gguf.File, c *model.Config, on placement.Layout) int64 {
	least := o.least(f, *c, on).Need
	if o.streams(f, c) {
		m, _ := o.streamLast(f, c, on, c.Layers)
		least = min(least, m.Need)
	}
	return least
}

// streamLast returns the memory of the model if steps read the last n layers, and their stream. Matrices that are on a
// GPU, or partly, are loaded.
func (o *Options) streamLast(f *gguf.File, c *model.Config, on placement.Layout, n int) (Memory, *gguf.Stream) {
	m := o.needs(f, *c, on)
	room, available := o.room()
	m.Available, m.Budget = available, room.OnDisk
	layers := make([][]*gguf.Tensor, c.Layers)
	for _, t := range f.Tensors {
		p, bound := c.Purpose(t.Name)
		_, bytes, copied := c.Loaded(f, t)
		inLayer := bound && p.Role != nn.InTable && p.Role != nn.InHead && p.Layer >= c.Layers-n && p.Layer < c.Layers
		if !inLayer || copied || c.InRAM(t.Name, bytes, on.Places) < bytes || len(t.Shape) != 2 || t.Rows() < 2 || t.Bytes() < leastStreamed {
			continue
		}
		layers[p.Layer] = append(layers[p.Layer], t)
		m.Weights -= o.loadedBytes(f, c, t, on)
	}
	stream := gguf.NewStream(layers)
	m.Reading += stream.Memory()
	m.add()
	return m, stream
}

// whyStreamed says why every step of a model reads from the disk, and what the alternatives are; empty: there are none.
func (o *Options) whyStreamed(c model.Config) string {
	if c.Act.Sparse() && !c.Transposed {
		return "; of a file that powerinfer prepare makes of it a token reads only some neurons"
	}
	return ""
}
