package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// cache holds keys and values as halves. [layers][pages, PagePositions, kv_heads, key or value]
type cache struct{ k, v [][]uint16 }

// Cache allocates a KV cache.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	m := &cache{}
	for _, l := range spec.Layers {
		n := spec.Pages * compute.PagePositions * l.Heads
		m.k, m.v = append(m.k, make([]uint16, n*l.Key)), append(m.v, make([]uint16, n*l.Value))
	}
	return &compute.Cache{CacheSpec: spec, Mem: m}, nil
}

// position returns one position's keys and values of all heads in one layer. [kv_heads·key], [kv_heads·value]
func position(c *compute.Cache, layer int, page int32, slot int) (k, v []uint16) {
	m, l := c.Mem.(*cache), c.Layers[layer]
	at, nk, nv := int(page)*compute.PagePositions+slot, l.Heads*l.Key, l.Heads*l.Value
	return m.k[layer][at*nk:][:nk], m.v[layer][at*nv:][:nv]
}

// slot returns where position pos of sequence seq lies.
func (d *Device) slot(seq int32, pos int) (page int32, slot int) {
	return d.p.Pages[seq][pos/compute.PagePositions], pos % compute.PagePositions
}

// CopyPage copies one page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from int32) {
	for layer := range c.Layers {
		for slot := range compute.PagePositions {
			k, v := position(c, layer, from, slot)
			toK, toV := position(c, layer, to, slot)
			copy(toK, k)
			copy(toV, v)
		}
	}
}

// ReadPage reads a page's first positions in every layer.
func (d *Device) ReadPage(c *compute.Cache, page int32, layers [][]uint16) error {
	for i, l := range c.Layers {
		n := l.Positions(layers[i])
		nk, nv := l.Heads*l.Key, l.Heads*l.Value
		for slot := range n {
			k, v := position(c, i, page, slot)
			copy(layers[i][slot*nk:][:nk], k)
			copy(layers[i][n*nk+slot*nv:][:nv], v)
		}
	}
	return nil
}

// WritePage writes them.
func (d *Device) WritePage(c *compute.Cache, page int32, layers [][]uint16) error {
	for i, l := range c.Layers {
		n := l.Positions(layers[i])
		nk, nv := l.Heads*l.Key, l.Heads*l.Value
		for slot := range n {
			k, v := position(c, i, page, slot)
			copy(k, layers[i][slot*nk:])
			copy(v, layers[i][n*nk+slot*nv:])
		}
	}
	return nil
}

// storeKV rounds keys and values to halves.
func (d *Device) storeKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	for t := range k.Rows {
		page, slot := d.slot(d.p.Seq[t], int(d.p.Pos[t]))
		toK, toV := position(c, layer, page, slot)
		for i := range toK {
			toK[i] = quant.F16FromF32(row(k, t)[i])
		}
		for i := range toV {
			toV[i] = quant.F16FromF32(row(v, t)[i])
		}
	}
}

// attend attends with every query head to the positions of its sequence that the token sees.
func (d *Device) attend(out, q compute.Tensor, c *compute.Cache, layer int, a compute.Attention) {
	l := c.Layers[layer]
	heads := q.Cols / l.Key
	for t := range q.Rows {
		for h := range heads {
			d.attendHead(row(out, t)[h*l.Value:][:l.Value], row(q, t)[h*l.Key:][:l.Key], t, c, layer, h, h*l.Heads/heads, a)
		}
	}
}

// attendHead computes query head number head of token t over KV head kv. out [value], q [key]
func (d *Device) attendHead(out, q []float32, t int, c *compute.Cache, layer, head, kv int, a compute.Attention) {
	pos := int(d.p.Pos[t])
	first := a.First(pos)
	scores := make([]float64, pos+1-first)
	top, sum := math.Inf(-1), 0.0
	for i := range scores {
		page, slot := d.slot(d.p.Seq[t], first+i)
		k, _ := position(c, layer, page, slot)
		for j, h := range k[kv*len(q):][:len(q)] {
			scores[i] += float64(q[j]) * float64(quant.F32FromF16(h))
		}
		scores[i] *= float64(a.Scale)
		if a.SoftCap > 0 {
			scores[i] = float64(a.SoftCap) * math.Tanh(scores[i]/float64(a.SoftCap))
		}
		top = max(top, scores[i])
	}
	if a.Sinks != nil {
		sink := float64(elements(a.Sinks)[head])
		top = max(top, sink)
		sum = math.Exp(sink - top)
	}
	acc := make([]float64, len(out))
	for i := range scores {
		weight := math.Exp(scores[i] - top)
		sum += weight
		page, slot := d.slot(d.p.Seq[t], first+i)
		_, v := position(c, layer, page, slot)
		for j, h := range v[kv*len(out):][:len(out)] {
			acc[j] += weight * float64(quant.F32FromF16(h))
		}
	}
	for j := range out {
		out[j] = float32(acc[j] / sum)
	}
}
