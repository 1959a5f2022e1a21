package engine

import "slices"

// pages hands out the KV cache's pages. A page may belong to several sequences that share a prefix.
type pages struct {
	free []int32 // last in, first out: recently used pages are warm
	refs []int   // [page] sequences that hold it
}

func newPages(n int) *pages {
	p := &pages{refs: make([]int, n), free: make([]int32, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	return p
}

// take returns a page that nobody holds, or false.
func (p *pages) take() (int32, bool) {
	if len(p.free) == 0 {
		return 0, false
	}
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[id] = 1
	return id, true
}

func (p *pages) share(id int32) { p.refs[id]++ }

func (p *pages) release(ids []int32) {
	for _, id := range slices.Backward(ids) {
		p.refs[id]--
		if p.refs[id] == 0 {
			p.free = append(p.free, id)
		}
	}
}
