package cpu

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// blocks is the state of the operations of compressed attention.
type blocks struct {
	d          *Device
	compressFn func(i, worker int)
	attendFn   func(i, worker int)

	joined *compute.Compress
	o      *compute.AttendBlocks
	heads  int // heads of a token
	part   int // heads that a worker takes together
	parts  int
}

func (b *blocks) init(d *Device) { b.d, b.compressFn, b.attendFn = d, b.compressRow, b.attendPart }

// Compress puts together the positions of blocks.
func (d *Device) Compress(o *compute.Compress) {
	if !o.Fits() {
		panic("cpu: Compress of shapes that do not fit")
	}
	d.blocks.joined = o
	d.pool.Run(o.Out.Rows, d.blocks.compressFn)
}

// compressRow does a token's row. Sums are relative to the largest score of each element.
func (b *blocks) compressRow(t, worker int) {
	o, p := b.joined, b.d.p
	out, pos := row(o.Out, t), int(p.Pos[t])
	clear(out)
	if (pos+1)%o.Block != 0 {
		return
	}
	m, l := o.Cache.Mem.(*cache), o.Cache.Layers[o.Layer]
	s := cacheSlot{shape: l, tables: o.Cache.Tables(o.Layer, p), k: m.k[o.Layer], v: m.v[o.Layer]}
	width, columns, bias := len(out), o.Columns(), vector(o.Bias)
	from, own := o.Span(pos)
	n := pos + 1 - from
	room := grown(&b.d.worker(worker).floats, (n+2)*width)
	tops, sums, scores := room[:width], room[width:2*width], room[2*width:]
	at := func(p int) int {
		if o.Overlap && p >= own {
			return width
		}
		return 0
	}
	of := func(memory []byte, p int) []float32 {
		i := s.place(int(s.tables[b.d.p.Seq[t]][p/compute.PagePositions]), p, 0)
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory[i*4*l.Key:]))), l.Key)[o.At+at(p):][:width]
	}
	for i := range n {
		p := from + i
		score, by := scores[i*width:][:width], bias[p%o.Block*columns+at(p):][:width]
		for j, v := range of(s.v, p) {
			score[j] = v + by[j]
			if i == 0 || score[j] > tops[j] {
				tops[j] = score[j]
			}
		}
	}
	clear(sums)
	for i := range n {
		w := scores[i*width:][:width]
		for j := range w {
			w[j] -= tops[j]
		}
		b.d.k.Exp(w, w)
		for j, c := range of(s.k, from+i) {
			out[j] += w[j] * c
			sums[j] += w[j]
		}
	}
	for j := range out {
		out[j] /= sums[j]
	}
}

// Query heads that a worker takes together: of few tokens the heads are spread over workers, else the tokens are.
const (
	blockFew  = 8
	blockMany = tileQueries
)

// AttendBlocks attends to a window and to blocks.
func (d *Device) AttendBlocks(o *compute.AttendBlocks) {
	if !o.Fits() {
		panic("cpu: AttendBlocks of shapes that do not fit")
	}
	b := &d.blocks
	b.o, b.heads = o, o.Q.Cols/o.Cache.Layers[o.Layer].Key
	b.part = min(b.heads, blockMany)
	if o.Q.Rows <= compute.FewTokens {
		b.part = min(b.heads, blockFew)
	}
	b.parts = (b.heads + b.part - 1) / b.part
	d.pool.Run(o.Q.Rows*b.parts, b.attendFn)
}

// attendPart attends with some heads of a token. It gathers the positions that the token sees in pages, a chunk at a
// time, so that kernels read them like a sequence. A head's sums do not depend on the other heads.
func (b *blocks) attendPart(i, worker int) {
	o, d, w := b.o, b.d, b.d.worker(worker)
	token, first := i/b.parts, i%b.parts*b.part
	n := min(b.part, b.heads-first)
	shape, pos := o.Cache.Layers[o.Layer], int(d.p.Pos[token])
	shape.Reach = 0
	var chosen []float32
	if o.Chosen.Mem != nil {
		chosen = row(o.Chosen, token)
	}
	from, to := o.How.Span(pos, pos)
	near := to - from
	all := near + o.Seen(pos, chosen)

	size := kernel.PartialLen(n, shape.Value)
	room := grown(&w.floats, n*shape.Key+2*size)
	q, room := room[:n*shape.Key], room[n*shape.Key:]
	sum, next := kernel.NewPartial(room[:size], n, shape.Value), kernel.NewPartial(room[size:], n, shape.Value)
	d.k.Scale(q, row(o.Q, token)[first*shape.Key:][:n*shape.Key], o.How.Scale)

	rowBytes := shape.KeyBytes()
	kv := kernel.KV{K: grown(&w.gathered, kernel.ChunkPositions*rowBytes), Shape: shape, Scratch: grown(&w.decoded, kernel.ScratchLen(shape))}
	kv.V = kv.K
	pages := grown(&w.gatheredPages, kernel.Chunks(all)*kernel.ChunkPositions/compute.PagePositions)
	for i := range pages {
		pages[i] = int32(i % (kernel.ChunkPositions / compute.PagePositions))
	}
	kv.Pages = pages
	m := o.Cache.Mem.(*cache)
	raw := cacheSlot{shape: o.Cache.Layers[o.Layer], tables: o.Cache.Tables(o.Layer, d.p)}
	ends := cacheSlot{shape: o.Of.Layers[o.Blocks], tables: o.Of.Tables(o.Blocks, d.p)}
	spans := [1]kernel.Span{{To: int32(all), At: int32(pos)}}
	for chunk := range kernel.Chunks(all) {
		begin := chunk * kernel.ChunkPositions
		for j := begin; j < min(all, begin+kernel.ChunkPositions); j++ {
			s, memory, at := &raw, m.k[o.Layer], from+j
			if j >= near {
				s, memory, at = &ends, o.Of.Mem.(*cache).k[o.Blocks], o.Position(pos, j-near, chosen)
			}
			place := s.place(int(s.tables[d.p.Seq[token]][at/compute.PagePositions]), at, 0)
			copy(kv.K[(j-begin)*rowBytes:][:rowBytes], memory[place*rowBytes:])
		}
		if chunk == 0 {
			d.k.AttendChunk(sum, q, &kv, spans[:], kernel.Scores{}, chunk)
			continue
		}
		d.k.AttendChunk(next, q, &kv, spans[:], kernel.Scores{}, chunk)
		d.k.Merge(sum, next)
	}
	out, sinks := row(o.Out, token)[first*shape.Value:], vector(o.How.Sinks)
	for g := range n {
		if sinks != nil {
			d.k.FinishWithSink(out[g*shape.Value:][:shape.Value], sum, g, sinks[first+g])
		} else {
			d.k.Finish(out[g*shape.Value:][:shape.Value], sum, g)
		}
	}
}
