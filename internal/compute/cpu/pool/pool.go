// Package pool runs the chunks of a parallel region on a fixed set of workers.
//
// Chunks are claimed from one ticket, and the end of a region waits for chunks, never
// for workers: a worker that the operating system took off its core delays nothing
// unless it holds a chunk. Between regions workers spin for some 250 µs, then sleep.
package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// MaxThreads bounds a pool.
const MaxThreads = 512

const (
	// spinTime is the time that a worker spins before it sleeps. While a GPU computes attention, for 20 to 150 µs between
	// two regions, sleeping costs more than spinning: waking 15 threads took 12 µs, and spinning ones took 3.
	spinTime   = 250 * time.Microsecond
	stepPauses = 256 // between looks at Go's scheduler: an assembly loop cannot be preempted
)

// spinPauses returns how many pauses last spinTime: a pause takes 10 ns on some processors and 50 on others.
var spinPauses = sync.OnceValue(func() int {
	const steps, least, most = 4, 4096, 1 << 16
	var word atomic.Uint32
	took := spinTime
	for range 3 { // the shortest was not interrupted
		begin := time.Now()
		spinWhile(&word, 0, steps*stepPauses)
		took = min(took, time.Since(begin))
	}
	return min(max(least, int(spinTime*steps*stepPauses/max(took, 1))), most)
})

// Pool is a set of workers. One goroutine at a time calls Run.
type Pool struct {
	threads int
	spin    int  // pauses before sleeping
	shared  bool // fewer of Go's processors than threads: waiting for each other says nothing about other processes
	workers sync.WaitGroup
	running atomic.Bool
	stop    atomic.Bool
	failure atomic.Pointer[Panic] // the first panic of the region

	// fn is written before ticket opens a region and read after a successful claim,
	// which keeps that region from ending until the chunk is done.
	fn func(chunk, worker int)

	// Words that different cores write lie in lines of their own.
	_      line
	ticket atomic.Uint64 // chunks<<32 | next: open while next < chunks
	_      line
	done   event // chunks finished; the caller of Run waits for it
	_      line
	region event // changes with every region; workers wait for it
	_      line
	spare  event // changes when more threads take part; workers that do not wait for it
	width  width
}

// line keeps its neighbours apart: two cache lines, as they are prefetched in pairs.
type line [128]byte

// New starts a pool of threads-1 workers; the caller of Run is the remaining thread.
func New(threads int) *Pool {
	if threads < 1 || threads > MaxThreads {
		panic(fmt.Sprintf("pool: %d threads", threads))
	}
	p := &Pool{threads: threads, spin: spinPauses()}
	p.shared = runtime.GOMAXPROCS(0) < threads
	if p.shared {
		p.spin = 0 // spinning would hold up those who have the work
	}
	p.done.init(p.shared)
	p.region.init(p.shared)
	p.spare.init(p.shared)
	p.width.init(threads)
	for w := 1; w < threads; w++ {
		p.workers.Go(func() { p.serve(w) })
	}
	return p
}

// Threads returns the number of chunks that can be in progress at once: worker numbers are below it.
func (p *Pool) Threads() int { return p.threads }

// Begin says of which kind the next regions are. Regions of one kind, a number above 0, are short, and some in a row
// take about as long as the next ones: beside busy processes threads may be left out of them. In those of kind 0, as at
// first, all threads take part.
func (p *Pool) Begin(kind int) {
	if !p.shared && p.width.follow(kind) {
		p.spare.add(p.threads)
	}
}

// Expect says that n of the threads will probably find an idle core. Short regions begin with n threads, and soon the
// pool measures whether more are faster. It is called before the first region.
func (p *Pool) Expect(n int) { p.width.chosen = int32(max(1, min(n, p.threads))) }

// Active returns the number of threads that take part in regions now: beside other processes it may be less than
// Threads.
func (p *Pool) Active() int { return int(p.width.threads.Load()) }

// Yielded returns the time that threads did not take part in regions because fewer threads are faster while other
// programs keep cores busy, summed over those threads. It may be called from any goroutine.
func (p *Pool) Yielded() time.Duration { return time.Duration(p.width.yielded.Load()) }

// Run calls fn(0…chunks-1, worker) and returns when all calls have returned. The
// caller takes part as worker 0; no two calls with the same worker number overlap.
// Run allocates nothing. If a call panics, the other chunks still run, and then Run
// panics with a *Panic.
func (p *Pool) Run(chunks int, fn func(chunk, worker int)) {
	if p.threads == 1 || chunks <= 1 {
		for c := range chunks {
			fn(c, 0)
		}
		return
	}
	if !p.running.CompareAndSwap(false, true) {
		panic("pool: Run inside Run")
	}
	if p.width.open() {
		p.spare.add(p.threads)
	}
	p.fn = fn
	p.done.word.Store(0)
	p.ticket.Store(uint64(chunks) << 32)
	p.region.add(min(chunks, p.Active()) - 1)
	p.work(0)
	for n := p.done.word.Load(); n < uint32(chunks); n = p.done.word.Load() {
		if !p.done.spin(n, p.spin) {
			p.heldUp()
			p.done.sleep(n)
		}
	}
	p.width.close()
	p.fn = nil
	failure := p.failure.Swap(nil)
	p.running.Store(false)
	if failure != nil {
		panic(failure)
	}
}

// Close ends the workers and waits for them. The pool must be idle.
func (p *Pool) Close() {
	p.stop.Store(true)
	p.region.add(p.threads)
	p.spare.add(p.threads)
	p.workers.Wait()
}

func (p *Pool) serve(worker int) {
	debug.SetPanicOnFault(true) // weights may be a mapped file, which can shrink
	for {
		left, seen := p.spare.word.Load(), p.region.word.Load()
		if p.stop.Load() {
			return
		}
		if worker >= p.Active() {
			p.spare.sleep(left)
			continue
		}
		p.work(worker)
		if p.region.spin(seen, p.spin) {
			continue
		}
		if p.unfinished() {
			p.heldUp()
		}
		p.region.sleep(seen)
	}
}

// heldUp notes that a thread waits for the region's end.
func (p *Pool) heldUp() {
	if !p.shared {
		p.width.wait()
	}
}

// unfinished reports whether all chunks of the region are claimed and not all are done.
func (p *Pool) unfinished() bool {
	t := p.ticket.Load()
	return uint32(t) >= uint32(t>>32) && p.done.word.Load() < uint32(t>>32)
}

// work claims and runs chunks until there are none.
func (p *Pool) work(worker int) {
	for p.claim(worker) {
	}
}

// claim runs chunks until there are none, or until one panics: then it reports true, for there may be more.
func (p *Pool) claim(worker int) (more bool) {
	held := false
	defer func() {
		if !held {
			return
		}
		p.failure.CompareAndSwap(nil, &Panic{Value: recover(), Stack: debug.Stack()})
		more = true
		p.finish(worker)
	}()
	for {
		t := p.ticket.Load()
		next, chunks := uint32(t), uint32(t>>32)
		if next >= chunks {
			return false
		}
		if !p.ticket.CompareAndSwap(t, t+1) {
			continue
		}
		held = true
		p.fn(int(next), worker)
		held = false
		p.finish(worker)
	}
}

// finish counts a chunk and wakes the caller after the last one. The number of chunks is
// read before the count, since the next region may begin right after it.
func (p *Pool) finish(worker int) {
	p.width.finish(worker)
	chunks := uint32(p.ticket.Load() >> 32)
	if p.done.word.Add(1) == chunks {
		p.done.wake(1)
	}
}

// Panic is the value that Run panics with when a chunk has panicked.
type Panic struct {
	Value any    // of the first panic
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the panic's value, if that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
