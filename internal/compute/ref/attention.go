package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// cache holds keys and values as halves. [layers, pages, PagePositions, kv_heads, head_dim] each
type cache struct{ k, v []uint16 }

// Cache allocates a KV cache.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	n := spec.Bytes() / 4
	return &compute.Cache{CacheSpec: spec, Mem: &cache{k: make([]uint16, n), v: make([]uint16, n)}}, nil
}

// position is one position's keys and values of all heads in one layer. [kv_heads·head_dim] each
func position(c *compute.Cache, layer int, page int32, slot int) (k, v []uint16) {
	n := c.KVHeads * c.HeadDim
	at := ((layer*c.Pages+int(page))*compute.PagePositions + slot) * n
	m := c.Mem.(*cache)
	return m.k[at:][:n], m.v[at:][:n]
}

// slot is where position pos of sequence seq lies.
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

// StoreKV rounds keys and values to halves.
func (d *Device) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	for t := range k.Rows {
		page, slot := d.slot(d.p.Seq[t], int(d.p.Pos[t]))
		toK, toV := position(c, layer, page, slot)
		for i := range toK {
			toK[i], toV[i] = quant.F16FromF32(row(k, t)[i]), quant.F16FromF32(row(v, t)[i])
		}
	}
}

// Attention attends with every query head to its sequence's positions up to the token's own.
func (d *Device) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	n := c.HeadDim
	heads := q.Cols / n
	for t := range q.Rows {
		for h := range heads {
			d.attend(row(out, t)[h*n:][:n], row(q, t)[h*n:][:n], t, c, layer, h*c.KVHeads/heads, scale)
		}
	}
}

// attend is one query head of token t over KV head kv. out, q [head_dim]
func (d *Device) attend(out, q []float32, t int, c *compute.Cache, layer, kv int, scale float32) {
	scores := make([]float64, d.p.Pos[t]+1)
	top := math.Inf(-1)
	for i := range scores {
		page, slot := d.slot(d.p.Seq[t], i)
		k, _ := position(c, layer, page, slot)
		for j, h := range k[kv*c.HeadDim:][:c.HeadDim] {
			scores[i] += float64(q[j]) * float64(quant.F32FromF16(h))
		}
		scores[i] *= float64(scale)
		top = max(top, scores[i])
	}
	sum := 0.0
	acc := make([]float64, c.HeadDim)
	for i := range scores {
		weight := math.Exp(scores[i] - top)
		sum += weight
		page, slot := d.slot(d.p.Seq[t], i)
		_, v := position(c, layer, page, slot)
		for j, h := range v[kv*c.HeadDim:][:c.HeadDim] {
			acc[j] += weight * float64(quant.F32FromF16(h))
		}
	}
	for j := range out {
		out[j] = float32(acc[j] / sum)
	}
}
