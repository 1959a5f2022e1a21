package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// A unit is what is read from disk at a time: an expert or a neuron. A store keeps the most used units in slots of RAM.
// The units of a layer are a bundle; each unit has a part in several matrices. Bundles with units of equal size form a
// class and share slots.
//
// The device's goroutine decides which unit is read and which one loses its slot. Goroutines of the reader pack what
// arrives into the slot. Until a load has arrived, the unit's slot is held, so that nobody else writes to it or reads
// it.
type store struct {
	budget   int64 // bytes for slots and whole layers
	forSlots int64 // bytes of slots that share no memory with whole layers
	reader   pieceReader
	bundles  []*bundle
	classes  []*class
	use      compute.UnitUse
	trace    *trace.Log
	tokens   int           // tokens of the step
	wholes   []*wholeLayer // whole layers, if there are neurons
	closed   bool          // whole layers have the memory of the class's last slots
	wholeFew bool          // a step of few tokens needed a whole layer
	copies   rowCopies

	// For the operation in progress
	b        *bundle
	units    []int32
	uses     []int32 // [units] by the step's tokens
	held     []bool  // [units] the operation holds the unit's slot
	done     []bool  // [units] the unit was released
	asked    int     // all units before this place are held or were released
	came     []bool  // [units] the unit was read for this operation
	admitted int     // units that are held and came, or are being read
	ready    []int   // scratch: places
	keep     []int32 // scratch: units that are held for the moment

	failed   error // error of reading a unit that is needed
	unread   error // the first error of reading a guess
	under    int   // loads that have not been finished
	finished []*load
	unused   []*load
	now      []*disk.Piece // to be read, but not yet passed to the reader
	later    []*disk.Piece // the same for guesses
	fetches  []*fetch      // fetches that nobody uses
	borrowed []*fetch      // fetches of one unit that nobody uses
	lent     int           // bytes of a fetch's memory

	mu      sync.Mutex // guards the fields below
	arrival *sync.Cond
	arrived []*load
	awaited int // loads that must have arrived before arrival is signalled; 0: nobody waits
}

// pieceReader is the part of disk.Reader that a store uses.
type pieceReader interface {
	Read(pieces ...*disk.Piece)
	Later(pieces ...*disk.Piece)
	Hurry(p *disk.Piece)
	Drop(p *disk.Piece) bool
	Use() disk.Use
	Close() error
}

// class is bundles with units of equal size.
type class struct {
	sizes   []int // bytes of a unit's parts
	bytes   int64 // bytes of a unit
	units   int
	slots   int
	own     int      // the first slots, which share no memory with whole layers
	slabs   [][]byte // by part: [own][size], then the rows of each whole layer, which are the other slots
	cache   *residency.Cache
	bundles []*bundle
	kept    int // units that bundles keep or that are borrowed
}

// bundle is the units of a layer.
type bundle struct {
	parts []*part
	spans []span
	dense []span // the same parts, where most units are best read in order
	units int
	prior []float64 // [units] or nil
	class *class
	first int32   // unit 0's number in the class's cache
	loads []*load // [units] that are being read; else nil
	fresh []bool  // [units] the unit was read and has not been used since
	next  *bundle // the one that was bundled after this one, or nil
	// The units that are or were being read for a guess that no step has confirmed. Some may not be in loads any more.
	guessed []int32
	kept    []int32        // units that are held until the bundle's turn, because readAhead expects them to be used
	unread  map[int32]bool // units that could not be read: only steps that need them try again

	slotted []compute.Matrix    // the parts, with slots for units
	whole   [][]compute.Matrix  // for bundles of neurons: the parts in each of the store's whole layers
	inFile  []int32             // for bundles of neurons in another order than the file's: the units in the file's order
	table   compute.ExpertTable // scratch: the slots of experts that are computed
}

// part is a matrix's share of its bundle's units.
type part struct {
	m        *compute.Matrix
	src      compute.Source // one unit, without data
	disk     *compute.OnDisk
	order    []int32 // unit u is the file's order[u]; nil: the file's u
	packing  packing
	size     int // bytes of a unit in RAM
	fileSize int // bytes in the file
	bundle   *bundle
	number   int // among the bundle's parts
}

// newPart returns the part of src's units on disk, which p packs.
func newPart(src compute.Source, p packing) *part {
	y := &part{disk: src.Disk, order: src.Order, packing: p}
	y.src = compute.Source{Name: src.Name, Type: src.Type, Rows: src.Rows / src.Disk.Units, Cols: src.Cols}
	y.size, y.fileSize = p.bytes(&y.src), y.src.Rows*src.Type.RowBytes(src.Cols)
	return y
}

// span is a range of a file that holds some parts of a unit.
type span struct {
	file           *disk.File
	offset, stride int64
	bytes          int
	parts          []int // the bundle's parts, in the order of the span
	at             []int // where they begin
}

// spanGap is the largest gap between parts that is read rather than left out: a read more costs about as much.
const spanGap = 16 << 10

// newStore returns a store of units in budget bytes of RAM.
func newStore(budget int64) *store {
	s := &store{budget: budget}
	s.arrival = sync.NewCond(&s.mu)
	return s
}

// readDepth is the largest number of concurrent reads. Disks do their best at 32 or fewer; more keep them busy until a
// goroutine that begins more reads has a core.
const readDepth = 128

// Bundle implements compute.Device.
func (d *Device) Bundle(prior []float64, parts ...*compute.Matrix) error {
	s := d.units
	b := &bundle{prior: prior, unread: map[int32]bool{}}
	for _, m := range parts {
		p := mem(m).disk
		if p == nil {
			return fmt.Errorf("tensor %q does not stay on disk with the others of its layer", m.Name)
		}
		p.m, p.bundle, p.number = m, b, len(b.parts)
		b.parts = append(b.parts, p)
		if b.units = p.disk.Units; b.units != b.parts[0].disk.Units {
			return fmt.Errorf("tensor %q: it has %d units on disk, and %q has %d", m.Name, b.units, parts[0].Name, b.parts[0].disk.Units)
		}
	}
	if prior != nil && len(prior) != b.units {
		return fmt.Errorf("tensor %q: uses of %d units are expected, and it has %d", parts[0].Name, len(prior), b.units)
	}
	b.spans = b.findSpans(func(o *compute.OnDisk) *compute.OnDisk { return o })
	b.dense = b.findSpans(func(o *compute.OnDisk) *compute.OnDisk { return cmp.Or(o.Dense, o) })
	b.loads, b.fresh = make([]*load, b.units), make([]bool, b.units)
	s.classify(b)
	if n := len(s.bundles); n > 0 {
		s.bundles[n-1].next = b
	}
	s.bundles = append(s.bundles, b)
	return nil
}

// findSpans joins parts that are near each other in a file. where gives each part's place.
func (b *bundle) findSpans(where func(*compute.OnDisk) *compute.OnDisk) (spans []span) {
	order := make([]int, len(b.parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		p, q := where(b.parts[i].disk), where(b.parts[j].disk)
		return cmp.Or(cmp.Compare(p.File.Path(), q.File.Path()), cmp.Compare(p.Offset, q.Offset))
	})
	for _, i := range order {
		p, disk := b.parts[i], where(b.parts[i].disk)
		if n := len(spans); n > 0 {
			y := &spans[n-1]
			at := disk.Offset - y.offset
			if y.file == disk.File && y.stride == disk.Stride && at >= int64(y.bytes) && at <= int64(y.bytes+spanGap) && at+int64(p.fileSize) <= y.stride {
				y.bytes = int(at) + p.fileSize
				y.parts, y.at = append(y.parts, i), append(y.at, int(at))
				continue
			}
		}
		spans = append(spans, span{file: disk.File, offset: disk.Offset, stride: disk.Stride, bytes: p.fileSize, parts: []int{i}, at: []int{0}})
	}
	return spans
}

// bytes returns the bytes of a unit in RAM.
func (b *bundle) bytes() (n int64) {
	for _, p := range b.parts {
		n += int64(p.size)
	}
	return n
}

// sizes returns the bytes of a unit's parts in RAM.
func (b *bundle) sizes() []int {
	sizes := make([]int, len(b.parts))
	for i, p := range b.parts {
		sizes[i] = p.size
	}
	return sizes
}

// usage returns the counts so far.
func (s *store) usage() compute.UnitUse {
	use := s.use
	if r := s.reader; r != nil {
		of := r.Use()
		use.Busy, use.Sum = of.Busy, of.Sum
	}
	for _, c := range s.classes {
		if c.cache != nil { // Keep succeeded
			use.CacheUse.Add(c.cache.Counted())
		}
	}
	return use
}

// Step implements compute.Device.
func (d *Device) Step(tokens int) {
	d.neuronGuess.pays.step()
	d.units.letAllGo()
	d.units.tokens = tokens
	d.units.takeMemoryBack()
	for _, c := range d.units.classes {
		c.cache.Step(tokens)
	}
}

// begin begins an operation that needs units of b. It counts uses[i] uses of units[i] by the step, holds the units that
// are in RAM or on their way, and begins to read the others in that order. [len(units)]
func (s *store) begin(b *bundle, units, uses []int32) {
	s.b, s.units, s.uses, s.asked = b, units, uses, 0
	s.held, s.done = grown(&s.held, len(units)), grown(&s.done, len(units))
	s.came, s.admitted = grown(&s.came, len(units)), 0
	clear(s.done)
	clear(s.came)
	s.drain()
	s.failed = nil
	cache := b.class.cache
	for i, u := range units {
		n := b.first + u
		cache.Use(n, int(uses[i]))
		if s.held[i] = cache.Slot(n) != residency.Absent; !s.held[i] {
			continue
		}
		cache.Hold(n)
		if l := b.loads[u]; l != nil {
			l.hurry(s.reader)
		}
	}
	s.letGo(b)
	s.takeBack(b)
	s.admit()
}

// guess begins to read units of b that a step may need soon, if they are not in RAM. The likeliest is first. It reads
// as many as guesses may cost, after all units that are needed, so it is called after begin. When b's turn comes,
// guesses that are not needed are cancelled, unless their reads have begun.
func (s *store) guess(b *bundle, units []int32) {
	cache := b.class.cache
	s.keep = s.keep[:0]
	for _, u := range units { // no guess takes the slot of another
		if n := b.first + u; cache.Slot(n) != residency.Absent {
			cache.Hold(n)
			s.keep = append(s.keep, n)
		}
	}
	for _, u := range units {
		if cache.Guesses() == 0 {
			break
		}
		if b.unread[u] {
			continue
		}
		if slot, _, ok := cache.Guess(b.first + u); ok {
			s.read(b, u, slot, true)
			b.guessed = append(b.guessed, u)
		}
	}
	for _, n := range s.keep {
		cache.Release(n)
	}
	s.flush()
}

// takeBack cancels b's guesses whose reads have not begun.
func (s *store) takeBack(b *bundle) {
	for _, u := range b.guessed {
		if l := b.loads[u]; l != nil && l.guess && l.drop(s.reader) {
			b.class.cache.Drop(b.first + u)
			b.loads[u] = nil
			s.under--
			s.use.Reads -= int64(len(b.spans))
			s.use.Bytes -= b.fileBytes()
			s.unused = append(s.unused, l)
		}
	}
	b.guessed = b.guessed[:0]
}

// fileBytes returns the bytes read for a unit.
func (b *bundle) fileBytes() (n int64) {
	for i := range b.spans {
		n += int64(b.spans[i].bytes)
	}
	return n
}

// flush passes the pending pieces to the reader.
func (s *store) flush() {
	if len(s.now) > 0 {
		s.reader.Read(s.now...)
		s.now = s.now[:0]
	}
	if len(s.later) > 0 {
		s.reader.Later(s.later...)
		s.later = s.later[:0]
	}
}

// flushed is the number of pieces after which admit makes the disk begin: looking for slots for hundreds of neurons
// takes as long as reading tens of them.
const flushed = 64

// admit begins to read units without a slot, as long as there are slots for them. A prompt reads a limited number of
// units before it has computed and released some, so that the next layers' units keep their slots.
func (s *store) admit() {
	defer s.flush()
	most := len(s.units)
	if s.tokens > compute.FewTokens {
		most = max(4*leastWave, s.open(s.b.class)/4)
	}
	for ; s.asked < len(s.units); s.asked++ {
		if s.held[s.asked] || s.done[s.asked] {
			continue
		}
		if s.admitted >= most {
			return
		}
		u := s.units[s.asked]
		slot, _, ok := s.b.class.cache.Admit(s.b.first + u)
		if !ok {
			return
		}
		s.held[s.asked], s.came[s.asked] = true, true
		s.admitted++
		s.read(s.b, u, slot, false)
		if len(s.now) >= flushed {
			s.flush()
		}
	}
}

var errNoSlot = errors.New("RAM has no room for another unit of the model; give more memory")

// take waits until the unit at place at of begin's units is in RAM. It returns how many consecutive units from there on
// are in RAM. They are at least least, unless there are no slots for them.
func (s *store) take(at, least int) (n int, err error) {
	for !s.held[at] {
		if s.failed != nil {
			return 0, s.failed
		}
		if s.admit(); s.held[at] || s.giveUp(at) || s.letAllGo() {
			continue
		}
		if s.under == 0 {
			return 0, errNoSlot
		}
		s.wait(1) // for guesses, and for units that come later
	}
	least = min(least, len(s.units)-at)
	for {
		s.drain()
		if s.failed != nil {
			return 0, s.failed
		}
		for at+n < len(s.units) && s.held[at+n] && s.b.loads[s.units[at+n]] == nil {
			n++
		}
		if n >= least || n > 0 && !s.held[at+n] {
			return n, nil
		}
		missing := 0
		for i := at + n; i < at+least && s.held[i]; i++ {
			if s.b.loads[s.units[i]] != nil {
				missing++
			}
		}
		s.wait(missing)
	}
}

// takeAny waits until some of begin's units are in RAM, and returns the places of all that are and were not released.
func (s *store) takeAny() (places []int, err error) {
	for {
		s.drain()
		if s.failed != nil {
			return nil, s.failed
		}
		s.admit()
		s.ready = s.ready[:0]
		for i, u := range s.units {
			if s.held[i] && s.b.loads[u] == nil {
				s.ready = append(s.ready, i)
			}
		}
		switch {
		case len(s.ready) > 0:
			return s.ready, nil
		case s.under == 0:
			return nil, errNoSlot
		}
		s.wait(1)
	}
}

// wait is await, timed.
func (s *store) wait(loads int) {
	from := monotime.Now()
	s.await(loads)
	s.waited(from, s.b)
}

// giveUp releases the slot of the last unit after place at that is in RAM, for the unit at that place, which needs one.
// It reports whether there was such a slot. The released unit is read again later.
func (s *store) giveUp(at int) bool {
	for i := len(s.units) - 1; i > at; i-- {
		if s.held[i] && s.b.loads[s.units[i]] == nil {
			s.held[i] = false
			if s.came[i] {
				s.admitted--
			}
			s.asked = min(s.asked, at)
			s.b.class.cache.Release(s.b.first + s.units[i])
			return true
		}
	}
	return false
}

// release releases n units from place at on, which have been computed.
func (s *store) release(at, n int) {
	for i := at; i < at+n; i++ {
		s.done[i] = true
		if s.held[i] {
			s.held[i] = false
			if s.came[i] {
				s.admitted--
			}
			s.let(s.b, s.units[i], s.uses[i])
		}
	}
}

// let ends the use of a unit by uses tokens.
func (s *store) let(b *bundle, unit, uses int32) {
	if n := b.first + unit; b.fresh[unit] && s.tokens > compute.FewTokens {
		b.class.cache.Pass(n, int(uses))
	} else {
		b.class.cache.Release(n)
	}
	b.fresh[unit] = false
}

// abandon ends an operation that failed before it computed the unit at place at. It waits for the reads of its units,
// so that no slot is written to later; their errors belong to this operation. A later operation that needs a unit reads
// it again.
func (s *store) abandon(at int) {
	for slices.ContainsFunc(s.units[at:], func(u int32) bool { l := s.b.loads[u]; return l != nil && !l.guess }) {
		s.await(1)
	}
	s.release(at, len(s.units)-at)
	s.units = nil
}

// count counts uses[i] uses of units[i] of b by the step, which takes these units from elsewhere than slots.
func (s *store) count(b *bundle, units, uses []int32) {
	for i, u := range units {
		b.class.cache.Use(b.first+u, int(uses[i]))
	}
}

// slot returns the slot of a unit in RAM.
func (b *bundle) slot(unit int32) int32 { return b.class.cache.Slot(b.first + unit) }

// close ends all reads.
func (s *store) close() error {
	if s.reader == nil {
		return nil
	}
	return s.reader.Close()
}
