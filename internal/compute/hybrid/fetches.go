package hybrid

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// fetches are the chunks of weights on disk that recordings send, in order. While one chunk is packed the next ones are
// read, across layers.
type fetches map[compute.Segment][]*fetched

// fetchedAhead is the number of chunks that are read while one is packed.
const fetchedAhead = 2

// fetched is units of a chunk.
type fetched struct {
	begin func() compute.UnitFetch
	units compute.UnitFetch // nil: they are not being read
	n     int
	taken bool // in this run
}

// add adds a chunk, of units that list returns in each run, to the recording of seg.
func (y fetches) add(seg compute.Segment, host Host, m *compute.Matrix, list func() []int32) *fetched {
	f := &fetched{}
	f.begin = func() compute.UnitFetch {
		units := list()
		f.n = len(units)
		return host.Fetch(m, units)
	}
	y[seg] = append(y[seg], f)
	return f
}

// start begins a run of seg.
func (y fetches) start(seg compute.Segment) {
	for _, f := range y[seg] {
		f.taken = false
	}
}

// take begins to read the chunks after f, and waits for f.
func (y fetches) take(seg compute.Segment, f *fetched) error {
	all := y[seg]
	at := slices.Index(all, f)
	for _, next := range all[at:min(len(all), at+1+fetchedAhead)] {
		if next.units == nil && !next.taken {
			next.units = next.begin()
		}
	}
	f.taken = true
	return f.units.Wait()
}

// end releases what a run of seg has left.
func (y fetches) end(seg compute.Segment) {
	for _, f := range y[seg] {
		f.release()
	}
}

// release ends a chunk's units.
func (f *fetched) release() {
	if f.units != nil {
		f.units.Release()
		f.units = nil
	}
}
