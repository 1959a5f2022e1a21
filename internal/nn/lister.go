package nn

import "github.com/powerinfer-go/powerinfer/internal/gguf"

// NewLister returns a binder that loads no tensors, but lists those that the program would take from a file with f's
// keys, with their shapes. held answers for the file: it returns a tensor of that name if the model should have it,
// else nil. Tensors that the program requires are listed in any case. If no key determines a tensor's shape, such as
// the rows of the token table, it is the shape of held's tensor, or empty.
func NewLister(f *gguf.File, plan Plan, held func(name string) *gguf.Tensor) *Binder {
	b := NewOutline(f, plan)
	b.held = held
	return b
}

// Listed returns the tensors that a lister has listed, in the order in which the program binds them.
func (b *Binder) Listed() []*gguf.Tensor { return b.listed }

// tensor returns the file's tensor of that name, or nil. A lister's may have no shape.
func (b *binding) tensor(name string) *gguf.Tensor {
	if b.held == nil {
		return b.File.Tensor(name)
	}
	if t := b.held(name); t != nil {
		return &gguf.Tensor{Name: name, Shape: t.Shape}
	}
	return nil
}

// list gives t the shape of n matrices with that many rows of cols elements together, and lists it. n is 0 if it is no
// stack.
func (b *binding) list(t *gguf.Tensor, n, cols, rows int) *gguf.Tensor {
	switch t.Shape = []int{cols, rows}; {
	case n > 0:
		t.Shape = []int{cols, rows / n, n}
	case rows == 1:
		t.Shape = []int{cols}
	}
	b.listed = append(b.listed, t)
	return t
}

// shaped gives a lister's last tensor the shape that files have, row length first, with as many elements.
func (b *binding) shaped(dims ...int) {
	if n := len(b.listed); n > 0 && b.held != nil {
		b.listed[n-1].Shape = dims
	}
}

// sized reports whether a tensor is there, and its shape is known.
func sized(t *gguf.Tensor) bool { return t != nil && len(t.Shape) > 0 }
