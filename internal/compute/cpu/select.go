package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// selectScores is the number of scores that are kept at a time, unless a row has more.
const selectScores = 4 << 20

// selecting is the state of one Select. Workers score chunks of the positions of some rows, and then choose each row's
// blocks. The order in which scores are summed does not depend on the other rows.
type selecting struct {
	d        *Device
	scoreFn  func(i, worker int)
	chooseFn func(i, worker int)

	o      *compute.Select
	heads  int // heads of a group
	from   int // the first row in progress
	chunks int // chunks of a row, at most
	scores []float32
}

func (s *selecting) init(d *Device) { s.d, s.scoreFn, s.chooseFn = d, s.score, s.choose }

// Select scores every block for every token, and lists those with the highest scores.
func (d *Device) Select(o *compute.Select) {
	s := &d.choose
	if !o.Fits() {
		panic("cpu: Select of shapes that do not fit")
	}
	s.o, s.heads = o, o.Q.Cols/o.How.Groups/o.Cache.Layers[o.Layer].Key
	longest := 0
	for i := range o.Q.Rows {
		longest = max(longest, s.length(i))
	}
	s.chunks = kernel.Chunks(longest)
	groups := o.How.Groups
	rows := max(1, selectScores/max(1, groups*s.chunks*kernel.ChunkPositions))
	for s.from = 0; s.from < o.Q.Rows; s.from += rows {
		n := min(rows, o.Q.Rows-s.from) * groups
		grown(&s.scores, n*s.chunks*kernel.ChunkPositions)
		if s.chunks > 0 {
			d.pool.Run(n*s.chunks, s.scoreFn)
		}
		d.pool.Run(n, s.chooseFn)
	}
	s.o = nil
}

// length returns the number of positions of a row that have to be scored: none where all blocks are chosen.
func (s *selecting) length(row int) int {
	pos, h := int(s.d.p.Pos[row]), &s.o.How
	switch n := h.Candidates(pos); {
	case n <= h.Top:
		return 0
	case h.Ends:
		return n
	}
	return pos + 1
}

// scoresOf returns the scores of list i of those in progress; a list belongs to a row's group.
func (s *selecting) scoresOf(i int) []float32 {
	n := s.chunks * kernel.ChunkPositions
	return s.scores[i*n:][:n]
}

// score scores a chunk of the positions of a row's group.
func (s *selecting) score(i, worker int) {
	list, chunk, o := i/s.chunks, i%s.chunks, s.o
	token, group := s.from+list/o.How.Groups, list%o.How.Groups
	n := s.length(token)
	if chunk*kernel.ChunkPositions >= n {
		return
	}
	m, shape, w := o.Cache.Mem.(*cache), o.Cache.Layers[o.Layer], s.d.worker(worker)
	kv := kernel.KV{
		K: m.k[o.Layer], V: m.v[o.Layer], Pages: o.Cache.Tables(o.Layer, s.d.p)[s.d.p.Seq[token]], Shape: shape,
		Scratch: grown(&w.decoded, kernel.ScratchLen(shape)),
	}
	if o.How.Ends && o.How.Block > 1 {
		kv.Picks = kernel.Picks{Block: o.How.Block, Last: int(s.d.p.Pos[token]), Room: grown(&w.gathered, kernel.GatherLen(shape))}
	}
	var weights []float32
	if o.W.Mem != nil {
		weights = row(o.W, token)[group*s.heads:][:s.heads]
	}
	q := row(o.Q, token)[group*s.heads*shape.Key:][:s.heads*shape.Key]
	s.d.k.Index(s.scoresOf(list)[chunk*kernel.ChunkPositions:], q, weights, &kv, chunk, n, o.How.Rectified)
}

// choose lists the blocks that a row's group sees.
func (s *selecting) choose(i, _ int) {
	h := &s.o.How
	token, group := s.from+i/h.Groups, i%h.Groups
	pos := int(s.d.p.Pos[token])
	list, n := row(s.o.Blocks, token)[group*h.Row():][:h.Row()], h.Candidates(pos)
	chosen := list[1:1]
	if n <= h.Top {
		for b := range n {
			chosen = append(chosen, float32(b))
		}
	} else {
		scores := s.scoresOf(i)
		if !h.Ends && h.Block > 1 {
			for b := range n {
				most := scores[b*h.Block]
				for _, x := range scores[b*h.Block : min(pos+1, (b+1)*h.Block)] {
					most = max(most, x)
				}
				scores[b] = most // later scores belong to later positions
			}
		}
		chosen = best(chosen, scores[:n], h.Top, h.Local)
	}
	if h.OpenAt(pos) {
		chosen = append(chosen, float32(n))
	}
	list[0] = float32(len(chosen))
	clear(list[1+len(chosen):])
}

// ranked returns a number that orders as scores do; 0 and -0 are the same.
func ranked(score float32) uint32 {
	bits := math.Float32bits(score + 0)
	if bits>>31 != 0 {
		return ^bits
	}
	return bits | 1<<31
}

// best appends the numbers of the top highest scores in ascending order. Among equal scores it takes the first. The
// last local scores are always among them.
func best(list, scores []float32, top, local int) []float32 {
	rank := func(i int) uint32 {
		if i >= len(scores)-local {
			return math.MaxUint32
		}
		return ranked(scores[i])
	}
	// The least rank that is chosen is found eight bits at a time, by counting the ranks that agree with it so far.
	least, left := uint32(0), top // left: how many to choose from those that agree
	for shift := 24; shift >= 0; shift -= 8 {
		var counts [256]int
		for i := range scores {
			if r := rank(i); uint64(r)>>(shift+8) == uint64(least)>>(shift+8) {
				counts[r>>shift&255]++
			}
		}
		digit := 255
		for ; counts[digit] < left; digit-- {
			left -= counts[digit]
		}
		least |= uint32(digit) << shift
	}
	for i := range scores {
		switch r := rank(i); {
		case r > least:
		case r == least && left > 0:
			left--
		default:
			continue
		}
		list = append(list, float32(i))
	}
	return list
}
