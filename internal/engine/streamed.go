package engine

import (
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// streamed decides how a dense model is loaded that does not fit and has no neurons that may stay on the disk: it is
// computed on in the mapped file, whose first layers stay in memory while steps read the others one after the other. The
// stream is nil if the model is another one, or if not even what must be in memory fits.
func (o *Options) streamed(f *gguf.File, c model.Config, on placement.Layout) (Memory, *gguf.Stream) {
	if o.Mapped || c.Experts.Count > 0 || o.canStay(f, c) {
		return Memory{}, nil
	}
	mapped := *o
	mapped.Mapped = true
	m := mapped.needs(f, c, on)
	room, available := o.room()
	if m.Available, m.Budget = available, room.OnDisk; !m.fits() {
		return m, nil
	}
	layers, beside := mappedLayers(f, &c, on)
	stream := gguf.NewStream(layers, m.Budget-m.Need-beside)
	if stream.Bytes() == 0 { // so that a mapped file would fit, but its weights in the layout of kernels do not
		return m, nil
	}
	return m, stream
}

// mappedLayers returns the tensors of each layer that the CPU computes with in the mapped file, and the bytes of others
// that it needs of that file.
func mappedLayers(f *gguf.File, c *model.Config, on placement.Layout) (layers [][]*gguf.Tensor, beside int64) {
	layers = make([][]*gguf.Tensor, c.Layers)
	for _, t := range f.Tensors {
		p, loaded := c.Purpose(t.Name)
		_, bytes, copied := c.Loaded(f, t)
		n := c.InRAM(t.Name, bytes, on.Places)
		switch {
		case !loaded || copied:
		case p.Role == nn.InTable || p.Role == nn.InHead || p.Layer >= c.Layers || n < bytes:
			beside += n
		default:
			layers[p.Layer] = append(layers[p.Layer], t)
		}
	}
	return layers, beside
}

// whyStreamed says why every step of a model reads from the disk, and goes on with a colon; empty: all steps must.
func (o *Options) whyStreamed(c model.Config) string {
	if c.Act.Sparse() && !c.Transposed && c.Experts.Count == 0 {
		return "powerinfer prepare makes a file of it of which a step reads some neurons only; of this one "
	}
	return ""
}
