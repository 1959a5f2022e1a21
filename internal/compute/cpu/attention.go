package cpu

import (
	"fmt"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// cache is a KV cache in the arena. [layers][pages, kv_heads, PagePositions, head_dim] halves each
type cache struct{ k, v []uint16 }

// Cache allocates a KV cache.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	n := int(spec.Bytes() / 2)
	b, err := d.mem.bytes(n * 2)
	if err != nil {
		return nil, fmt.Errorf("KV cache of %d MiB: %w; a smaller -c takes less", n>>19, err)
	}
	all := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), n)
	return &compute.Cache{CacheSpec: spec, Mem: &cache{k: all[:n/2], v: all[n/2:]}}, nil
}

// pageLen is the halves of one page of one layer.
func pageLen(c *compute.Cache) int { return c.KVHeads * compute.PagePositions * c.HeadDim }

// layerOf cuts layer's keys and values out of c.
func layerOf(c *compute.Cache, layer int) (k, v []uint16) {
	m, n := c.Mem.(*cache), c.Pages*pageLen(c)
	return m.k[layer*n:][:n], m.v[layer*n:][:n]
}

// CopyPage copies one page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from int32) {
	n := pageLen(c)
	for l := range c.Layers {
		k, v := layerOf(c, l)
		copy(k[int(to)*n:][:n], k[int(from)*n:][:n])
		copy(v[int(to)*n:][:n], v[int(from)*n:][:n])
	}
}

// cacheSlot says where StoreKV writes.
type cacheSlot struct {
	c    *compute.Cache
	k, v []uint16
}

// StoreKV writes keys and values to their tokens' positions.
func (d *Device) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	s := cacheSlot{c: c}
	s.k, s.v = layerOf(c, layer)
	d.rows.run(rowwiseArgs{verb: storeRows, x: floats(k), up: floats(v), cols: k.Cols, store: s}, k.Rows)
}

// store writes token i's k and v [kv_heads·head_dim].
func (d *Device) store(s *cacheSlot, i int, k, v []float32) {
	pos := int(d.p.Pos[i])
	page := int(d.p.Pages[d.p.Seq[i]][pos/compute.PagePositions])
	hd := s.c.HeadDim
	for h := range s.c.KVHeads {
		at := ((page*s.c.KVHeads+h)*compute.PagePositions + pos%compute.PagePositions) * hd
		d.k.ToF16(s.k[at:][:hd], k[h*hd:][:hd])
		d.k.ToF16(s.v[at:][:hd], v[h*hd:][:hd])
	}
}

// fewTokens is up to how many tokens chunks of a sequence are spread over workers; beyond, tokens are.
const fewTokens = 8

// tileQueries is how many query rows a worker takes through a chunk together.
const tileQueries = 48

// attention is the state of one Attention. Partial results of chunks are merged in chunk order in both of its
// ways of cutting, so an output's bytes do not depend on the way.
type attention struct {
	d       *Device
	chunkFn func(chunk, worker int)
	tileFn  func(chunk, worker int)
	mergeFn func(chunk, worker int)

	out, q   compute.Tensor
	c        *compute.Cache
	k, v     []uint16
	scale    float32
	group    int       // query heads of a KV head
	chunks   int       // of the longest sequence
	tile     int       // tokens of a tile
	partials []float32 // [tokens, kv_heads, chunks] of PartialLen(group, head_dim)
	visible  []int32   // [tokens] positions attended to
}

func (a *attention) init(d *Device) {
	a.d = d
	a.chunkFn, a.tileFn, a.mergeFn = a.chunk, a.tiled, a.merge
}

// Attention attends with every token's queries to its sequence.
func (d *Device) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	a := &d.att
	a.out, a.q, a.c, a.scale = out, q, c, scale
	a.k, a.v = layerOf(c, layer)
	a.group = q.Cols / c.HeadDim / c.KVHeads
	visible := grown(&a.visible, q.Rows)
	longest := 0
	for i := range visible {
		visible[i] = d.p.Pos[i] + 1
		longest = max(longest, int(visible[i]))
	}
	if q.Rows <= fewTokens {
		a.chunks = kernel.Chunks(longest)
		grown(&a.partials, q.Rows*c.KVHeads*a.chunks*a.partialLen())
		d.pool.Run(q.Rows*c.KVHeads*a.chunks, a.chunkFn)
		d.pool.Run(q.Rows*c.KVHeads, a.mergeFn)
		return
	}
	a.tile = max(1, tileQueries/a.group)
	d.pool.Run((q.Rows+a.tile-1)/a.tile*c.KVHeads, a.tileFn)
}

func (a *attention) partialLen() int { return kernel.PartialLen(a.group, a.c.HeadDim) }

// partial is the result of one token, KV head and chunk.
func (a *attention) partial(token, head, chunk int) kernel.Partial {
	n := a.partialLen()
	at := (token*a.c.KVHeads+head)*a.chunks + chunk
	return kernel.NewPartial(a.partials[at*n:][:n], a.group, a.c.HeadDim)
}

func (a *attention) kv(seq int32, head int) kernel.KV {
	return kernel.KV{K: a.k, V: a.v, Pages: a.d.p.Pages[seq], Heads: a.c.KVHeads, Head: head, HeadDim: a.c.HeadDim}
}

// scaled copies the queries of tokens [t, end) and one KV head to dst, times the scale.
func (a *attention) scaled(dst []float32, t, end, head int) {
	n := a.group * a.c.HeadDim
	for i := t; i < end; i++ {
		a.d.k.Scale(dst[(i-t)*n:][:n], row(a.q, i)[head*n:][:n], a.scale)
	}
}

// chunk is one token, KV head and chunk of its sequence.
func (a *attention) chunk(i, worker int) {
	token, head, chunk := i/a.chunks/a.c.KVHeads, i/a.chunks%a.c.KVHeads, i%a.chunks
	if chunk >= kernel.Chunks(int(a.visible[token])) {
		return
	}
	q := grown(&a.d.worker(worker).floats, a.group*a.c.HeadDim)
	a.scaled(q, token, token+1, head)
	kv := a.kv(a.d.p.Seq[token], head)
	a.d.k.AttendChunk(a.partial(token, head, chunk), q, &kv, a.visible[token:token+1], chunk)
}

// merge puts one token's chunks together.
func (a *attention) merge(i, _ int) {
	token, head := i/a.c.KVHeads, i%a.c.KVHeads
	sum := a.partial(token, head, 0)
	for c := 1; c < kernel.Chunks(int(a.visible[token])); c++ {
		a.d.k.Merge(sum, a.partial(token, head, c))
	}
	a.finish(sum, token, token+1, head)
}

func (a *attention) finish(sum kernel.Partial, t, end, head int) {
	hd := a.c.HeadDim
	for i := t; i < end; i++ {
		out := row(a.out, i)[head*a.group*hd:]
		for g := range a.group {
			a.d.k.Finish(out[g*hd:][:hd], sum, (i-t)*a.group+g)
		}
	}
}

// tiled is one KV head for a tile of tokens, cut where sequences change, over all chunks.
func (a *attention) tiled(i, worker int) {
	t, head := i/a.c.KVHeads*a.tile, i%a.c.KVHeads
	stop := min(a.q.Rows, t+a.tile)
	for t < stop {
		end := t + 1
		for end < stop && a.d.p.Seq[end] == a.d.p.Seq[t] {
			end++
		}
		a.tokens(t, end, head, a.d.worker(worker))
		t = end
	}
}

func (a *attention) tokens(t, end, head int, w *workerScratch) {
	n := (end - t) * a.group
	size := kernel.PartialLen(n, a.c.HeadDim)
	mem := grown(&w.floats, n*a.c.HeadDim+2*size)
	q, mem := mem[:n*a.c.HeadDim], mem[n*a.c.HeadDim:]
	sum, next := kernel.NewPartial(mem[:size], n, a.c.HeadDim), kernel.NewPartial(mem[size:], n, a.c.HeadDim)
	a.scaled(q, t, end, head)
	kv := a.kv(a.d.p.Seq[t], head)
	longest := 0
	for _, p := range a.visible[t:end] {
		longest = max(longest, int(p))
	}
	a.d.k.AttendChunk(sum, q, &kv, a.visible[t:end], 0)
	for c := 1; c < kernel.Chunks(longest); c++ {
		a.d.k.AttendChunk(next, q, &kv, a.visible[t:end], c)
		a.d.k.Merge(sum, next)
	}
	a.finish(sum, t, end, head)
}
