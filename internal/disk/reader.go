package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Piece is a part of a file to read. It belongs to a Reader until Done is called or Drop returns true; until then
// nobody else may change it. Afterwards it may be given to a Reader again, also in Done.
type Piece struct {
	File   *File
	Offset int64 // need not be aligned
	Bytes  int
	// Done is called once, on a goroutine of the reader. data has the piece's bytes and is valid until Done returns. The
	// error names file and offset.
	Done func(data []byte, err error)

	queue      *queue // that it waits in; nil: none
	prev, next *Piece // in the queue
	busy       bool   // it is being read
}

// ErrClosed is the error of pieces that a closed Reader had not begun to read.
var ErrClosed = errors.New("the reader of the disk is closed")

const (
	// mostMerged bounds the bytes of several pieces that are read at once.
	mostMerged = 256 << 10
	// mostBetween bounds the bytes between two pieces that are read at once. A read more takes as long as reading 16 to
	// 20 KiB more (docs/benchmarks/2026-11-disk.md), and work of the CPU besides.
	mostBetween = 16 << 10
	// mostReading bounds the bytes that are read at once; a larger piece is read alone. It keeps a disk busy that reads
	// 14 GB/s and answers after half a millisecond, and an urgent piece waits for no more than these bytes.
	mostReading = 8 << 20
	// mostGuessed bounds the bytes that are read at once while one of Later's pieces is among them, unless that is read
	// alone. It keeps a disk busy, and a needed piece waits about 1 ms for them.
	mostGuessed = 2 << 20
)

// Reader reads pieces of files, several at once. Its methods, except Close, are safe for concurrent use, also from
// Done.
type Reader struct {
	depth int

	mu      sync.Mutex
	now     queue // Read's
	later   queue // Later's
	reading int   // batches that are being read
	bytes   int64 // of them
	active  int   // batches that are being read, or with a Done that has not returned
	spare   []*batch
	closed  bool
	buffers buffers
	usage   usage
	ended   sync.Cond // active fell to 0

	beside bool // see BesideComputing; guarded by besides.mu

	ring   ring     // nil: there is none, and a goroutine reads each batch
	flying int      // batches that are in the ring
	led    bool     // a goroutine waits for them
	landed []*batch // those that came and are not worked on yet
	hands  int      // goroutines that work on them

	leadFn, workFn func() // lead and work, made once so that beginning them allocates nothing
}

// NewReader returns a Reader that reads up to depth pieces at once, and up to 8 MiB or one piece. Its memory,
// MostBuffered at most, is outside of Go's heap. Pieces without room in it wait.
//
// A reader's goroutines need some of Go's processors: if computing keeps all GOMAXPROCS of them busy, a read begins and
// ends only when Go's scheduler interrupts the computing, after up to 10 ms. See BesideComputing.
func NewReader(depth int) (*Reader, error) {
	if depth < 1 {
		return nil, fmt.Errorf("a disk cannot be read %d pieces at a time; use 1 or more", depth)
	}
	memory, err := newBuffers()
	if err != nil {
		return nil, err
	}
	r := &Reader{depth: depth, buffers: memory, ring: newRing(depth)}
	r.ended.L = &r.mu
	r.leadFn, r.workFn = r.lead, r.work
	for range 2 * depth {
		r.spare = append(r.spare, r.makeBatch())
	}
	return r, nil
}

// Read queues pieces and never blocks. They are read in order, before all of Later's; neighbouring pieces of one call
// are read at once. A piece that Later has queued is moved; one that is being read continues.
func (r *Reader) Read(pieces ...*Piece) { r.add(&r.now, pieces) }

// Later queues pieces that may not be needed after all. They are read while none of Read's pieces waits and little is
// being read, so that needed pieces come first.
func (r *Reader) Later(pieces ...*Piece) { r.add(&r.later, pieces) }

// add puts pieces into a queue and begins to read.
func (r *Reader) add(to *queue, pieces []*Piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pieces {
		switch {
		case p.busy || p.queue == &r.now:
		case p.queue == &r.later && to == &r.later:
		default:
			p.unlink()
			to.push(p)
		}
	}
	if r.closed {
		r.abandon()
		return
	}
	r.start()
}

// Hurry moves a piece of Later's to Read's if it has not been begun.
func (r *Reader) Hurry(p *Piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.queue != &r.later {
		return
	}
	p.unlink()
	r.now.push(p)
	r.start()
}

// Drop takes a piece back that has not been begun and reports whether it did: then Done is not called.
func (r *Reader) Drop(p *Piece) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.queue != &r.now && p.queue != &r.later {
		return false
	}
	p.unlink()
	return true
}

// Close ends the reader: pieces that were not begun get ErrClosed. It returns when all reads and all calls of Done have
// returned.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.abandon()
	for r.active > 0 {
		r.ended.Wait()
	}
	r.buffers.close()
	if r.ring != nil {
		r.ring.close()
		r.ring = nil
	}
	r.giveProcessorsBack()
	return nil
}

// abandon hands all queued pieces back, with ErrClosed.
func (r *Reader) abandon() {
	var list []*Piece
	for _, q := range []*queue{&r.now, &r.later} {
		for q.first != nil {
			list = append(list, q.first)
			q.first.unlink()
		}
	}
	if len(list) == 0 {
		return
	}
	r.active++
	go func() {
		for _, p := range list {
			p.Done(nil, fmt.Errorf("%s at byte %d was not read: %w", p.File.path, p.Offset, ErrClosed))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leave(&batch{})
	}()
}

// leave ends a batch. mu is held.
func (r *Reader) leave(b *batch) {
	r.buffers.put(b.span)
	if b.run != nil {
		*b = batch{pieces: b.pieces[:0], run: b.run}
		r.spare = append(r.spare, b)
	}
	if r.active--; r.active == 0 {
		r.ended.Broadcast()
	}
}

// batch is the pieces of one read.
type batch struct {
	pieces   []*Piece
	from, to int64 // the aligned range
	span     span
	memory   []byte // of the span
	came     int    // bytes that the ring read; negative: it could not
	began    time.Duration
	run      func() // Reader.run of it
}

// makeBatch returns a batch that may be spare.
func (r *Reader) makeBatch() *batch {
	b := &batch{pieces: make([]*Piece, 0, 1)}
	b.run = func() { r.run(b) }
	return b
}

// start begins as many reads as may run. mu must be held.
func (r *Reader) start() {
	for b := r.take(); b != nil; b = r.take() {
		if !r.fly(b) {
			go b.run()
		}
	}
	if r.ring != nil {
		r.launch()
	}
}

// take removes what is to be read next from its queue; nil: nothing may begin now. Batches with a running Done have a
// bound of their own, so that the disk is not idle meanwhile. mu must be held.
func (r *Reader) take() *batch {
	if r.closed || r.reading >= r.depth || r.active >= 2*r.depth {
		return nil
	}
	q, most := &r.now, int64(mostReading)
	if q.first == nil {
		if q, most = &r.later, mostGuessed; q.first == nil {
			return nil
		}
	}
	last := len(r.spare) - 1 // one is left, since fewer than 2·depth are active
	b := r.spare[last]
	r.spare = r.spare[:last]
	b.from, b.to = q.first.extent()
	end := q.first.next
	for ; end != nil && end.joins(b); end = end.next {
		from, to := end.extent()
		b.from, b.to = min(from, b.from), max(to, b.to)
	}
	ok := r.reading == 0 || r.bytes+b.to-b.from <= most
	if ok {
		b.span, ok = r.buffers.take(b.to - b.from)
	}
	if !ok {
		r.spare = append(r.spare, b)
		return nil
	}
	if !b.span.single {
		b.memory = r.buffers.memory[b.span.at:b.span.end]
	}
	for q.first != end {
		p := q.first
		p.unlink()
		p.busy = true
		b.pieces = append(b.pieces, p)
	}
	r.usage.begin(b, r.reading)
	r.reading++
	r.bytes += b.to - b.from
	r.active++
	return b
}

// extent returns the aligned range of the file that has the piece; nothing if it has no bytes, or the file never had it.
func (p *Piece) extent() (from, to int64) {
	f := p.File
	if p.Bytes == 0 || f.check(p.Offset, p.Bytes) != nil {
		return 0, 0
	}
	return p.Offset &^ (f.align - 1), (p.Offset + int64(p.Bytes) + f.align - 1) &^ (f.align - 1)
}

// joins reports whether the piece is read together with the batch before it in the queue: nothing or little is between
// their ranges.
func (p *Piece) joins(b *batch) bool {
	from, to := p.extent()
	return p.prev.File == p.File && from < to && b.from < b.to && from <= b.to+mostBetween && b.from <= to+mostBetween &&
		max(to, b.to)-min(from, b.from) <= mostMerged
}

// run reads a batch and calls Done.
func (r *Reader) run(b *batch) {
	err := b.read()
	r.mu.Lock()
	r.came(b)
	r.start()
	r.mu.Unlock()

	b.give(err)

	r.mu.Lock()
	defer r.mu.Unlock()
	if b.span.single && b.memory != nil {
		free(b.memory)
	}
	r.leave(b)
	r.start()
}

// came ends a batch's reading. mu is held.
func (r *Reader) came(b *batch) {
	r.reading--
	r.bytes -= b.to - b.from
	r.usage.end(b, r.reading)
	for _, p := range b.pieces {
		p.busy = false
	}
}

// least returns how much of the batch's range the file must have: up to the last byte of a piece.
func (b *batch) least() int {
	end := b.from
	for _, p := range b.pieces {
		end = max(end, p.Offset+int64(p.Bytes))
	}
	return int(end - b.from)
}

// read reads the batch's range.
func (b *batch) read() error {
	p := b.pieces[0]
	if b.from == b.to { // a piece without bytes, or beyond the file's end
		return p.File.check(p.Offset, p.Bytes)
	}
	if b.memory == nil { // it is single
		var err error
		if b.memory, err = allocate(int(b.to - b.from)); err != nil {
			return noMemory(b.to-b.from, err)
		}
	}
	return p.File.read(b.memory[:b.to-b.from], b.from, b.least())
}

// give calls each piece's Done. If several pieces could not be read at once, each is read alone, so that the readable
// ones are.
func (b *batch) give(err error) {
	if err != nil && len(b.pieces) > 1 {
		for _, p := range b.pieces {
			alone := batch{pieces: []*Piece{p}, memory: b.memory}
			alone.from, alone.to = p.extent()
			alone.give(alone.read())
		}
		return
	}
	for _, p := range b.pieces {
		if err != nil {
			p.Done(nil, err)
			continue
		}
		at := p.Offset - b.from
		if b.from == b.to {
			at = 0
		}
		p.Done(b.memory[at:at+int64(p.Bytes):at+int64(p.Bytes)], nil)
	}
}

// queue is a list of pieces that wait, first come, first served.
type queue struct{ first, last *Piece }

// push appends p, which must be in no queue.
func (q *queue) push(p *Piece) {
	p.queue, p.prev, p.next = q, q.last, nil
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
}

// unlink takes p out of the queue that it waits in, if any.
func (p *Piece) unlink() {
	q := p.queue
	if q == nil {
		return
	}
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.queue, p.prev, p.next = nil, nil, nil
}
