package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// operands lists what an operation reads and writes, and which weights it needs. It implements compute.Visitor.
type operands struct {
	reads, writes       []compute.Tensor
	readSets, writeSets []compute.Set
	readChoice          *compute.Choice // or nil, like the next
	writeChoice         *compute.Choice
	matrices            []*compute.Matrix
	vectors             []*compute.Vector
	cache               *compute.Cache
	layer               int // the cache's layer
}

func operandsOf(op compute.Op) *operands {
	o := &operands{}
	op.Visit(o)
	return o
}

func (o *operands) Tensor(t *compute.Tensor, a compute.Access) {
	if t.Mem == nil {
		return
	}
	if a&compute.Read != 0 {
		o.reads = append(o.reads, *t)
	}
	if a&compute.Write != 0 {
		o.writes = append(o.writes, *t)
	}
}

func (o *operands) Set(s *compute.Set, a compute.Access) {
	if s.Mem == nil {
		return
	}
	if a&compute.Read != 0 {
		o.readSets = append(o.readSets, *s)
	}
	if a&compute.Write != 0 {
		o.writeSets = append(o.writeSets, *s)
	}
}

func (o *operands) Choice(c *compute.Choice, a compute.Access) {
	if a == compute.Read {
		o.readChoice = c
	} else {
		o.writeChoice = c
	}
}

func (o *operands) Matrix(m **compute.Matrix) {
	if *m != nil {
		o.matrices = append(o.matrices, *m)
	}
}

func (o *operands) Vector(v **compute.Vector) {
	if *v != nil {
		o.vectors = append(o.vectors, *v)
	}
}

func (o *operands) Cache(c **compute.Cache, layer *int) { o.cache, o.layer = *c, *layer }

// gpuOp returns a copy of op with the GPU's operands.
func gpuOp(op compute.Op) compute.Op { return moved(op, toGPU{}) }

// hostOp returns a copy of op with the host's operands.
func hostOp(op compute.Op) compute.Op { return moved(op, toHost{}) }

// moved returns a copy of op with the operands that v puts in their places.
func moved(op compute.Op, v compute.Visitor) compute.Op {
	op = compute.Clone(op)
	op.Visit(v)
	return op
}

// toGPU replaces operands by their parts on the GPU.
type toGPU struct{}

func (toGPU) Tensor(t *compute.Tensor, _ compute.Access) { *t = gpuTensor(*t) }
func (toGPU) Set(s *compute.Set, _ compute.Access)       { *s = gpuSet(*s) }
func (toGPU) Choice(c *compute.Choice, _ compute.Access) { *c = gpuChoice(*c) }
func (toGPU) Vector(v **compute.Vector)                  { *v = gpuVector(*v) }
func (toGPU) Matrix(m **compute.Matrix) {
	if *m != nil {
		*m = mem(*m).gpu
	}
}

func (toGPU) Cache(c **compute.Cache, layer *int) {
	m := (*c).Mem.(*cache)
	*c, *layer = m.gpu, m.index[*layer]
}

// toHost replaces operands by their parts on the host.
type toHost struct{}

func (toHost) Tensor(t *compute.Tensor, _ compute.Access) { *t = hostTensor(*t) }
func (toHost) Set(s *compute.Set, _ compute.Access)       { *s = hostSet(*s) }
func (toHost) Choice(c *compute.Choice, _ compute.Access) { *c = hostChoice(*c) }
func (toHost) Vector(v **compute.Vector)                  { *v = hostVector(*v) }
func (toHost) Matrix(m **compute.Matrix) {
	if *m != nil {
		*m = mem(*m).host
	}
}

func (toHost) Cache(c **compute.Cache, layer *int) {
	m := (*c).Mem.(*cache)
	*c, *layer = m.host, m.index[*layer]
}
