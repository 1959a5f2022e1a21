package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// cache holds keys and values in their types. [layers][pages, PagePositions, kv_heads, key or value]; v is empty if
// values are within keys.
type cache struct {
	k, v   [][]byte
	states [][]float32 // [layers][slots, numbers] of recurrent layers
}

// Cache allocates a KV cache.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	m := &cache{}
	for i, l := range spec.Layers {
		n := spec.PagesOf(i) * l.Rows()
		m.k, m.v = append(m.k, make([]byte, n*l.KeyBytes())), append(m.v, make([]byte, n*l.ValueBytes()))
		m.states = append(m.states, make([]float32, spec.States*l.State))
	}
	return &compute.Cache{CacheSpec: spec, Mem: m}, nil
}

// position returns the stored keys and values of one position, of all heads in one layer. [kv_heads·key],
// [kv_heads·value]
func position(c *compute.Cache, layer int, page int32, slot int) (k, v []byte) {
	m, l := c.Mem.(*cache), c.Layers[layer]
	at, nk, nv := int(page)*l.Rows()+slot, l.KeyBytes(), l.ValueBytes()
	return m.k[layer][at*nk:][:nk], m.v[layer][at*nv:][:nv]
}

// value returns the value of KV head h at a position, decoded.
func value(c *compute.Cache, layer int, page int32, slot, h int) []float32 {
	l := c.Layers[layer]
	k, v := position(c, layer, page, slot)
	if l.Within {
		return head(k, l.KeyType, h, l.Key)[:l.Value]
	}
	return head(v, l.ValueType, h, l.Value)
}

// head returns KV head number h of n of a position's keys or values, decoded.
func head(row []byte, t compute.KVType, h, elements int) []float32 {
	out, n := make([]float32, elements), t.RowBytes(elements)
	quant.Decode(t.Type(), out, row[h*n:][:n])
	return out
}

// slot returns the page and the row of position pos of sequence seq in a layer.
func (d *Device) slot(c *compute.Cache, layer int, seq int32, pos int) (page int32, slot int) {
	slot, _ = c.Layers[layer].Row(pos)
	return c.Tables(layer, d.p)[seq][pos/compute.PagePositions], slot
}

// CopyPage copies one page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from compute.Page) {
	for layer := range c.Layers {
		from, to := c.In(layer, from), c.In(layer, to)
		if min(from, to) < 0 {
			continue
		}
		if c.Layers[layer].State > 0 {
			copy(state(c, layer, to), state(c, layer, from))
			continue
		}
		for slot := range c.Layers[layer].Rows() {
			k, v := position(c, layer, from, slot)
			toK, toV := position(c, layer, to, slot)
			copy(toK, k)
			copy(toV, v)
		}
	}
}

// ReadPage reads a page's first positions in every layer.
func (d *Device) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	for i, l := range c.Layers {
		if l.State > 0 && len(layers[i]) > 0 {
			quant.Encode(quant.F32, layers[i], state(c, i, page.State))
			continue
		}
		n := l.Positions(layers[i])
		nk, nv := l.KeyBytes(), l.ValueBytes()
		for slot := range n {
			k, v := position(c, i, c.In(i, page), slot)
			copy(layers[i][slot*nk:][:nk], k)
			copy(layers[i][n*nk+slot*nv:][:nv], v)
		}
	}
	return nil
}

// WritePage writes them.
func (d *Device) WritePage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	for i, l := range c.Layers {
		if l.State > 0 && len(layers[i]) > 0 {
			quant.Decode(quant.F32, state(c, i, page.State), layers[i])
			continue
		}
		n := l.Positions(layers[i])
		nk, nv := l.KeyBytes(), l.ValueBytes()
		for slot := range n {
			k, v := position(c, i, c.In(i, page), slot)
			copy(k, layers[i][slot*nk:])
			copy(v, layers[i][n*nk+slot*nv:])
		}
	}
	return nil
}

// StoreKV rounds keys and values to the cache's types.
func (d *Device) StoreKV(o *compute.StoreKV) {
	l := o.Cache.Layers[o.Layer]
	for t := range o.K.Rows {
		if _, kept := l.Row(int(d.p.Pos[t])); !kept {
			continue
		}
		page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], int(d.p.Pos[t]))
		toK, toV := position(o.Cache, o.Layer, page, slot)
		quant.Encode(l.KeyType.Type(), toK, row(o.K, t))
		if o.V.Mem != nil {
			quant.Encode(l.ValueType.Type(), toV, row(o.V, t))
		}
	}
}

// LoadKeys reads keys as attend does.
func (d *Device) LoadKeys(o *compute.LoadKeys) {
	for t := range o.K.Rows {
		page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], int(d.p.Pos[t]))
		key, _ := position(o.Cache, o.Layer, page, slot)
		quant.Decode(o.Cache.Layers[o.Layer].KeyType.Type(), row(o.K, t), key)
	}
}

// Attend attends with every query head to the positions of its sequence that the token sees.
func (d *Device) Attend(o *compute.Attend) {
	l := o.Cache.Layers[o.Layer]
	heads := o.Q.Cols / l.Key
	for t := range o.Q.Rows {
		for h := range heads {
			d.attendHead(row(o.Out, t)[h*l.Value:][:l.Value], row(o.Q, t)[h*l.Key:][:l.Key], t, o.Cache, o.Layer, h, h*l.Heads/heads, o.How)
		}
	}
}

// attendHead computes query head number number of token t over KV head kv. out [value], q [key]
func (d *Device) attendHead(out, q []float32, t int, c *compute.Cache, layer, number, kv int, a compute.Attention) {
	pos, l := int(d.p.Pos[t]), c.Layers[layer]
	first, end := d.p.Span(t, &a, d.p.Last(d.p.Seq[t]))
	var places []int // positions
	for at := first; at < end; at++ {
		if d.sees(t, at, kv*a.Seen.Groups/l.Heads, a) {
			places = append(places, at)
		}
	}
	scores := make([]float64, len(places))
	top, sum := math.Inf(-1), 0.0
	for i, at := range places {
		page, slot := d.slot(c, layer, d.p.Seq[t], at)
		k, _ := position(c, layer, page, slot)
		for j, e := range head(k, l.KeyType, kv, len(q)) {
			scores[i] += float64(q[j]) * float64(e)
		}
		scores[i] *= float64(a.Scale)
		if a.SoftCap > 0 {
			scores[i] = float64(a.SoftCap) * math.Tanh(scores[i]/float64(a.SoftCap))
		}
		if a.Slopes != nil {
			scores[i] -= float64(elements(a.Slopes)[number]) * math.Abs(float64(pos-at))
		}
		top = max(top, scores[i])
	}
	if a.Sinks != nil {
		sink := float64(elements(a.Sinks)[number])
		top = max(top, sink)
		sum = math.Exp(sink - top)
	}
	acc := make([]float64, len(out))
	for i := range scores {
		weight := math.Exp(scores[i] - top)
		sum += weight
		page, slot := d.slot(c, layer, d.p.Seq[t], places[i])
		for j, e := range value(c, layer, page, slot, kv) {
			acc[j] += weight * float64(e)
		}
	}
	for j := range out {
		out[j] = float32(acc[j] / sum)
	}
}
