package engine

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// shown is a picture in a task's labels.
type shown struct {
	vision.Placed
	moved int // by how many positions the picture, and the ones before it, are shorter than their rows, see Rows.Positions
}

func (p *shown) end() int { return p.At + len(p.Vectors) }

// pictureNames gives numbers to rows of pictures. Equal rows have the same number, so that they have the same labels.
type pictureNames struct {
	mu    sync.Mutex
	names map[[32]byte]uint32
	next  uint32
}

// mostPictureNames limits the remembered numbers. A picture with a forgotten number gets a new one, and finds nothing
// in the cache.
const mostPictureNames = 1 << 14

func (n *pictureNames) name(sum [32]byte) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.names[sum]; ok {
		return id
	}
	if n.names == nil || len(n.names) >= mostPictureNames {
		n.names = map[[32]byte]uint32{}
	}
	n.next = (n.next + 1) % kvcache.MostPictures
	n.names[sum] = n.next
	return n.next
}

// pictureStep returns how many rows that see each other a step may have. The rest is reserved for sequences that
// generate.
func pictureStep(step, outputs int) int { return max(1, step-2*outputs) }

// checkPictures returns why a request's pictures cannot be shown, or nil.
func (e *Engine) checkPictures(r *Request) error {
	if len(r.Pictures) == 0 {
		return nil
	}
	if e.options.Cache.Extension.on() {
		return &vision.PictureError{Err: setting.Errorf("pictures and self-extension do not go together: leave out %s", setting.Extension)}
	}
	end := 0
	for i := range r.Pictures {
		p := &r.Pictures[i]
		n := len(p.Vectors)
		if p.At < end || n == 0 || p.At+n > len(r.Prompt) {
			return fmt.Errorf("picture %d has %d rows at token %d of a prompt of %d", i, n, p.At, len(r.Prompt))
		}
		end = p.At + n
		for _, v := range p.Vectors {
			if len(v) != e.config.Given {
				return fmt.Errorf("a row of picture %d has %d numbers, and the model takes %d", i, len(v), e.config.Given)
			}
		}
		if most := pictureStep(e.ubatch, e.outputs); p.Mutual && n > most {
			return &vision.PictureError{Err: setting.Errorf("a picture has %d tokens, which the model reads in one step of at most %d: give %s, or pictures fewer tokens with %s", n, most, setting.Step.To(n+2*e.outputs), setting.MostRows)}
		}
	}
	return nil
}

// show sets the pictures of a prompt, and their labels, for t.
func (e *Engine) show(t *task, pictures []vision.Placed) {
	moved := 0
	for _, p := range pictures {
		moved += len(p.Vectors) - p.Positions()
		t.pictures = append(t.pictures, shown{p, moved})
		name := e.names.name(p.Sum)
		for i := range p.Vectors {
			at := p.At + i
			t.labels[at] = kvcache.PictureLabel(name, int32(i), t.labels[at].Decoded())
		}
	}
}

// picture returns the picture that position i of t belongs to, or nil, and by how many positions the pictures that end
// before i are shorter than their rows.
func (t *task) picture(i int) (p *shown, moved int) {
	n, _ := slices.BinarySearchFunc(t.pictures, i, func(p shown, i int) int {
		if p.end() <= i {
			return -1
		}
		return 1
	})
	if n > 0 {
		moved = t.pictures[n-1].moved
	}
	if n < len(t.pictures) && t.pictures[n].At <= i {
		p = &t.pictures[n]
	}
	return p, moved
}

// uncut returns the length of a step of about n of t's positions from at on that does not end inside a picture with
// rows that see each other. It is more than n if the picture begins at or before at.
func (t *task) uncut(at, n int) int {
	if n == 0 {
		return 0
	}
	p, _ := t.picture(at + n - 1)
	switch {
	case p == nil || !p.Mutual || p.end() == at+n:
		return n
	case p.At > at:
		return p.At - at
	}
	return p.end() - at
}

// seesPictures reports whether the step has rows of pictures, rows at other positions because of pictures before them,
// and rows that see each other.
func (s *scheduler) seesPictures() (rows, moved, mutual bool) {
	for i := range s.step {
		t, n := s.step[i].t, s.step[i].n
		at := t.kv.Len()
		for j := range t.pictures {
			p := &t.pictures[j]
			if p.At < at+n+s.step[i].drafts && p.moved != 0 {
				moved = true
			}
			if p.At < at+n && p.end() > at {
				rows, mutual = true, mutual || p.Mutual
			}
			if p.At < at+n && p.end() > at-s.behind {
				moved = moved || p.Across > 0
			}
		}
	}
	return rows, moved, mutual
}

// fillPictures makes room in the step's params for data of pictures.
func (s *scheduler) fillPictures() {
	p, room := &s.params, &s.pictures
	rows, moved, mutual := s.seesPictures()
	if p.Given = nil; rows {
		p.Given = slices.Grow(room.given[:0], s.rows)
		room.given = p.Given
	}
	if p.Axes = nil; moved {
		for axis := range room.axes {
			room.axes[axis] = slices.Grow(room.axes[axis][:0], s.rows)
		}
		p.Axes = room.axes[:]
	}
	if p.Behind = nil; moved && s.behind > 0 {
		for axis := range room.behind {
			room.behind[axis] = room.behind[axis][:0]
		}
		p.Behind = room.behind[:]
	}
	if p.Bounds = nil; mutual {
		p.Bounds = slices.Grow(room.bounds[:0], s.rows)
		room.bounds = p.Bounds
	}
}

// pictureParams is memory for params.
type pictureParams struct {
	given  [][]float32      // [n]
	axes   [nn.Axes][]int32 // [n] of each
	behind [nn.Axes][]int32 // [sequence·behind] of each
	bounds []compute.Bounds // [n]
}

// axes returns the positions of t's position pos along the axes. Those before the text's start are negative.
func (t *task) axes(pos int) [nn.Axes]int32 {
	one, moved := t.picture(pos)
	at := int32(pos - moved)
	if one == nil || one.Across == 0 {
		return [nn.Axes]int32{at, at, at}
	}
	begin, i := int32(one.At-moved), pos-one.At
	return [nn.Axes]int32{begin, begin + int32(i/one.Across), begin + int32(i%one.Across)}
}

// fillBehind writes the rotary positions before t's first row in the step.
func (s *scheduler) fillBehind(t *task) {
	if s.params.Behind == nil {
		return
	}
	first := t.kv.Len()
	for pos := first - s.behind; pos < first; pos++ {
		for axis, at := range t.axes(pos) {
			s.params.Behind[axis] = append(s.params.Behind[axis], at)
		}
	}
}

// fillPicture writes the data of row pos of t: its embedding, its positions and the rows that it sees.
func (s *scheduler) fillPicture(t *task, pos int) {
	p := &s.params
	one, _ := t.picture(pos)
	if p.Given != nil {
		var given []float32
		if one != nil {
			given = one.Vectors[pos-one.At]
		}
		p.Given = append(p.Given, given)
	}
	if p.Axes != nil {
		at := t.axes(pos)
		for axis := range p.Axes {
			p.Axes[axis] = append(p.Axes[axis], at[axis])
		}
		p.Turns = p.Axes[0]
	}
	if p.Bounds != nil {
		to := pos + 1
		if one != nil && one.Mutual {
			to = one.end()
		}
		p.Bounds = append(p.Bounds, compute.Bounds{To: int32(min(to, math.MaxInt32))})
	}
}

// upToPicture changes t's next n positions, which have out rows of logits, so that a step does not end inside a picture
// with rows that see each other. It returns none if the step has no room for the picture.
func (s *scheduler) upToPicture(t *task, n, out int) (int, int) {
	at := t.kv.Len()
	whole := t.uncut(at, n)
	room := s.rows - s.outputs // rows of single tokens are reserved
	for i := range s.step {
		room -= s.step[i].n + s.step[i].drafts
	}
	if whole > n && whole > room && len(s.step) > 0 {
		s.crowded = true
		return 0, 0
	}
	for i := min(n, whole); i < max(n, whole); i++ {
		if t.wants(at + i) {
			if whole > n {
				out++
			} else {
				out--
			}
		}
	}
	return whole, out
}
