package hybrid

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// A prompt's attention over keys and values in RAM is computed on the GPU if the layer's weights are sent there. For
// this the GPU has a cache of one layer, the layer's shadow. The pages of earlier positions are sent to it, the GPU
// stores the prompt's own keys and values there, and the host stores them in its cache while the GPU continues.

// shadowOf says which layers share a shadow, one after the other.
type shadowOf struct {
	compute.KVShape
	windowed bool
}

// shadowed names the layer of the host's cache that a recording's shadow holds.
type shadowed struct {
	cache *compute.Cache // the GPU's cache; nil: there is none
	of    *compute.Cache
	layer int
}

// shadow returns the GPU's cache for one layer of the host's.
func (d *Device) shadow(c *compute.Cache, layer int) (*compute.Cache, error) {
	of := shadowOf{c.Layers[layer], c.IsWindowed(layer)}
	if have := d.shadows[of]; have != nil {
		return have, nil
	}
	made, err := d.gpu.Cache(compute.CacheSpec{Layers: []compute.KVShape{of.KVShape}, Pages: c.Pages, Windowed: []bool{of.windowed}, Near: c.Near})
	if err != nil {
		return nil, d.ofGPU(err)
	}
	d.shadows[of] = made
	return made, nil
}

// storeKV stores keys and values where the cache is. Where the host's weights are sent to the GPU for this step, they go
// to its shadow, too.
func (r *router) storeKV(o *compute.StoreKV) {
	_, ok := r.sender(o.K.Rows, r.d.streaming.Tokens)
	size := o.Cache.Layers[o.Layer].PageBytes() * int64(o.Cache.PagesOf(o.Layer))
	if !ok || size > r.d.streaming.Pages || r.d.caches(o.Cache.LayerOf(o.Layer)) || !o.K.Mem.(*tensor).onGPU || o.V.Mem != nil && !o.V.Mem.(*tensor).onGPU {
		r.held = shadowed{}
		r.whole(o)
		return
	}
	m := o.Cache.Mem.(*cache)
	of, layer := m.host, m.index[o.Layer]
	shadow, err := r.d.shadow(of, layer)
	if err != nil {
		r.fail(err)
		return
	}
	r.gpu.UploadPages(shadow, func(p *compute.Params) []int32 { return earlier(of.Tables(layer, p), p) }, func(page int32, scratch []byte) error {
		layers, number := make([][]byte, len(of.Layers)), compute.EveryLayer(page)
		if layers[layer] = scratch; of.IsWindowed(layer) {
			number = compute.Page{Far: -1, Near: page, State: -1}
		}
		return r.d.host.ReadPage(of, number, layers)
	})
	r.held = shadowed{shadow, of, layer}
	r.gpu.Do(moved(o, inShadow{shadow: shadow}))
	r.storeLater(o)
}

// earlier returns the pages of positions before the step's first of each sequence, each once.
func earlier(tables [][]int32, p *compute.Params) []int32 {
	var pages []int32
	for i, seq := range p.Seq {
		if i > 0 && p.Seq[i-1] == seq || uint(seq) >= uint(len(tables)) {
			continue
		}
		n := (int(p.Pos[i]) + compute.PagePositions - 1) / compute.PagePositions
		pages = append(pages, tables[seq][:min(n, len(tables[seq]))]...)
	}
	slices.Sort(pages)
	return slices.Compact(pages)
}

// storeLater makes the host do o once the GPU has computed its operands, while the GPU continues. This turn comes
// before the next layer's operands are downloaded, so the host memory that they pass through is needed for one layer
// only.
func (r *router) storeLater(o *compute.StoreKV) {
	r.meet(nil)
	r.settle()
	turn := r.newStretch()
	turn.name = "keys and values"
	on := hostOp(o).(*compute.StoreKV)
	for _, t := range []*compute.Tensor{&on.K, &on.V} {
		if t.Mem == nil {
			continue
		}
		of := o.K
		if t == &on.V {
			of = o.V
		}
		from := r.gpu.Download(gpuTensor(of))
		turn.loads = append(turn.loads, func(w *window) { *t = r.d.host.Over(*t, w.floats(of, from())) })
	}
	turn.ops = append(turn.ops, on)
	r.later, r.mark = turn, r.gpu.Mark()
}

// settle makes the host do what storeLater postponed.
func (r *router) settle() {
	if turn := r.later; turn != nil {
		r.later = nil
		r.gpu.After(r.mark, turn.run)
	}
}

// attend does op, which reads a layer's keys, on the device with the keys or with their shadow.
func (r *router) attend(op compute.Op) {
	o := operandsOf(op)
	if m := o.cache.Mem.(*cache); r.held.cache != nil && r.held.of == m.host && r.held.layer == m.index[o.layer] && !r.d.caches(o.cache.LayerOf(o.layer)) {
		r.toGPU(o.reads...)
		r.gpu.Do(moved(op, inShadow{shadow: r.held.cache}))
		for _, t := range o.writes {
			written(t, true)
		}
		return
	}
	r.whole(op)
}

// inShadow replaces operands by their parts on the GPU, and the cache by a shadow.
type inShadow struct {
	toGPU
	shadow *compute.Cache
}

func (v inShadow) Cache(c **compute.Cache, layer *int) { *c, *layer = v.shadow, 0 }
