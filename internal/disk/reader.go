package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Piece is a part of a file that is to be read. A Reader has it until Done is called or Drop returns true; until then
// nobody else may change it, and afterwards it may be given to a Reader again, in Done, too.
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
	// mostBuffered bounds the bytes of buffers of a Reader, but for a piece that is larger.
	mostBuffered = 64 << 20
	// mostMerged bounds the bytes of several pieces that are read at once.
	mostMerged = 256 << 10
)

// Reader reads pieces of files, several at a time. Its methods may be called by several goroutines, and from Done, but
// for Close.
type Reader struct {
	depth int

	mu      sync.Mutex
	now     queue // Read's
	later   queue // Later's
	reading int   // batches that are being read
	guesses int   // those of Later's pieces
	active  int   // batches that are being read, or whose Done is not called yet
	closed  bool
	buffers buffers
	usage   usage
	ended   sync.Cond // active fell to 0

	ring   ring     // nil: there is none, and a goroutine reads each batch
	flying int      // batches that are in the ring
	led    bool     // a goroutine waits for them
	landed []*batch // those that came and are not worked on yet
	hands  int      // goroutines that work on them
}

// NewReader returns a Reader that reads up to depth pieces at a time. Its buffers are outside of Go's heap and take at
// most 2·depth times the bytes of the largest piece, at most 64 MiB, or the bytes of a single larger piece.
//
// A reader's goroutines need some of Go's processors: where computing keeps GOMAXPROCS of them busy, a read begins and
// ends only when Go's scheduler interrupts the computing, after up to 10 ms. Two more than there are computing threads
// are enough.
func NewReader(depth int) (*Reader, error) {
	if depth < 1 {
		return nil, fmt.Errorf("a disk cannot be read %d pieces at a time; use 1 or more", depth)
	}
	r := &Reader{depth: depth, buffers: buffers{most: mostBuffered}, ring: newRing(depth)}
	r.ended.L = &r.mu
	return r, nil
}

// Read queues pieces and never blocks. They are read in their order, ahead of all of Later's; pieces of one call that
// touch each other in a file are read at once. A piece that Later has queued is moved, one that is being read goes on.
func (r *Reader) Read(pieces ...*Piece) { r.add(&r.now, pieces) }

// Later queues pieces that may not be needed after all. They are read while no piece of Read's waits, and no more than
// half of the reader's depth at a time, so that a piece that is needed need not wait for many of them.
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
	r.closed = true
	r.abandon()
	for r.active > 0 {
		r.ended.Wait()
	}
	free := r.buffers.drain()
	if r.ring != nil {
		r.ring.close()
		r.ring = nil
	}
	r.mu.Unlock()
	release(free)
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
	r.buffers.put(b.buffer)
	if r.active--; r.active == 0 {
		r.ended.Broadcast()
	}
}

// batch is pieces that one read covers.
type batch struct {
	pieces   []*Piece
	from, to int64 // the aligned range
	guess    bool  // they were Later's
	buffer   buffer
	stale    []buffer // to be released
	came     int      // bytes that the ring read; negative: it could not
	began    time.Duration
}

// start begins as many reads as may run. mu is held.
func (r *Reader) start() {
	for b := r.take(); b != nil; b = r.take() {
		if !r.fly(b) {
			go r.run(b)
		}
	}
	if r.ring != nil {
		r.launch()
	}
}

// take takes what is to be read next out of its queue; nil: nothing may begin now. Goroutines that call Done count
// against a bound of their own, so that the disk is not idle while they work. mu is held.
func (r *Reader) take() *batch {
	if r.closed || r.reading >= r.depth || r.active >= 2*r.depth {
		return nil
	}
	q := &r.now
	if q.first == nil {
		if q = &r.later; q.first == nil || r.guesses >= (r.depth+1)/2 {
			return nil
		}
	}
	b := &batch{guess: q == &r.later}
	b.from, b.to = q.first.extent()
	last := q.first
	for n := last.next; n != nil && n.joins(b); n = n.next {
		from, to := n.extent()
		b.from, b.to, last = min(from, b.from), max(to, b.to), n
	}
	var ok bool
	if b.buffer, b.stale, ok = r.buffers.take(b.to-b.from, r.active == 0); !ok {
		return nil
	}
	for end := last.next; q.first != end; {
		p := q.first
		p.unlink()
		p.busy = true
		b.pieces = append(b.pieces, p)
	}
	r.usage.begin(b, r.reading)
	r.reading++
	r.active++
	if b.guess {
		r.guesses++
	}
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

// joins reports whether the piece is read at once with the batch that waits in front of it: their ranges touch.
func (p *Piece) joins(b *batch) bool {
	from, to := p.extent()
	return p.prev.File == p.File && from < to && b.from < b.to && from <= b.to && b.from <= to && max(to, b.to)-min(from, b.from) <= mostMerged
}

// run reads a batch and calls Done.
func (r *Reader) run(b *batch) {
	release(b.stale)
	err := b.buffer.reserve()
	if err == nil {
		err = b.read()
	}
	r.mu.Lock()
	r.came(b)
	r.start()
	r.mu.Unlock()

	b.give(err)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(b)
	r.start()
}

// came ends a batch's reading. mu is held.
func (r *Reader) came(b *batch) {
	r.reading--
	r.usage.end(b, r.reading)
	if b.guess {
		r.guesses--
	}
	for _, p := range b.pieces {
		p.busy = false
	}
}

// least returns how much of the batch's range must be there: up to the last byte of a piece.
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
	if b.from == b.to { // a piece without bytes, or one that the file never had
		return p.File.check(p.Offset, p.Bytes)
	}
	return p.File.read(b.buffer.memory[:b.to-b.from], b.from, b.least())
}

// give calls each piece's Done. If several pieces could not be read at once, each is read by itself, so that those that
// can be read are.
func (b *batch) give(err error) {
	if err != nil && len(b.pieces) > 1 {
		for _, p := range b.pieces {
			alone := batch{pieces: []*Piece{p}, buffer: b.buffer}
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
		p.Done(b.buffer.memory[at:at+int64(p.Bytes):at+int64(p.Bytes)], nil)
	}
}

// queue is a list of pieces that wait, first come, first served.
type queue struct{ first, last *Piece }

// push puts p, which waits nowhere, at the end.
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
