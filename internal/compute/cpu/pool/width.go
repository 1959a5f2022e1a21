package pool

import (
	"sync/atomic"
	"time"
)

// A thread whose core the operating system gives to another process for some milliseconds makes the others wait for its
// chunk, and two threads that share a core wait for each other. Beside one busy process, short regions can therefore be
// slower on all cores than on all but one. Which is faster depends on the work and the processor, so the pool measures
// it. When threads are often taken off their cores in the middle of a region, it runs some regions with one thread
// fewer, and keeps to the number that took less time. Later it tries one thread more in the same way. Which threads
// compute changes no result, since the chunks are the same.
const (
	// width adds up the time for which threads without a core held up regions, and subtracts one alarmShare-th of the time
	// that passes. At alarmLimit a trial begins. A process of the lowest priority takes 2 % of a core, which is less than
	// that share.
	// One region counts for at most alarmMost: what stops it for longer, as a debugger or a slow disk, does not share a core.
	alarmLimit = 20 * time.Millisecond
	alarmShare = 20
	alarmMost  = alarmLimit / 2
	// A trial consists of trialTurns turns, which alternate between the chosen number of threads and the other one. A
	// turn lasts for at least trialTime and at least trialRegions regions, which are those of several layers.
	trialTurns   = 4
	trialTime    = 40 * time.Millisecond
	trialRegions = 64
	// The other number is chosen if its regions took less than trialGain of the time. A region that takes longer than
	// trialMost was stopped, and the trial says nothing.
	trialGain = 0.97
	trialMost = 250 * time.Millisecond
	// The next trial comes no sooner than pauseFirst after one that changed the number, and twice as late after each
	// further one that did not, up to pauseLast.
	pauseFirst = 200 * time.Millisecond
	pauseLast  = 3200 * time.Millisecond
)

// width is the number of threads that take part in regions, and what decides it. Only the caller of Run uses the fields
// that are not atomic, except that each worker uses its element of counts.
type width struct {
	threads atomic.Int32         // that take part: the workers whose numbers are below it
	most    int32                // threads of the pool
	chosen  int32                // threads that take part in short regions, trials apart
	kind    int                  // of the regions, see Begin; 0: all threads take part
	now     func() time.Duration // the clock

	alarms time.Duration // for which regions were held up, less one alarmShare-th of the time that has passed
	alarm  time.Duration // when alarms was last brought up to date
	retry  time.Duration // no trial begins before
	pause  time.Duration // from the last trial to retry

	trial   bool
	other   int32         // the number of threads that is compared with the chosen one
	turn    int           // of the trial: in each second one the other number of threads takes part
	begin   time.Duration // of the region
	time    time.Duration // of the turn's regions
	regions int           // of the turn
	stopped bool          // a region of the trial was
	mean    [2]float64    // time of a region with the chosen and the other number, summed over turns [ns]

	yielded atomic.Int64 // see Pool.Yielded [ns]

	_         line
	heldUp    atomic.Int64 // when a thread had waited for the region's end in vain [ns]; 0: none has
	preempted atomic.Bool  // a thread that finished a chunk after that had been taken off its core
	_         line
	counts    []int64 // [threads] what preempted remembers of each
}

func (w *width) init(threads int) {
	start := time.Now()
	w.now = func() time.Duration { return time.Since(start) }
	w.most, w.chosen, w.pause = int32(threads), int32(threads), pauseFirst
	w.counts = make([]int64, threads)
	w.threads.Store(w.most)
}

// set has n threads take part. It reports whether that is more than before.
func (w *width) set(n int32) (wider bool) { return n > w.threads.Swap(n) }

// follow says of which kind the next regions are. It reports whether more threads take part than before.
func (w *width) follow(kind int) (wider bool) {
	if kind == w.kind {
		return false
	}
	w.kind = kind
	if w.trial { // its turns would not be alike
		w.giveUp(w.now())
	}
	if kind == 0 {
		return w.set(w.most)
	}
	return w.set(w.chosen)
}

// open begins a region. It reports whether more threads take part than before.
func (w *width) open() (wider bool) {
	if w.heldUp.Load() > 0 { // by a worker that noticed the end of its region too late
		w.heldUp.Store(0)
	}
	alarmed := w.alarms >= alarmLimit && w.chosen > 1
	if w.kind == 0 || !w.trial && !alarmed && w.chosen == w.most {
		return false // as usual: no look at the clock, which takes as long as a small chunk
	}
	w.begin = w.now()
	switch {
	case w.trial && w.stopped:
		w.giveUp(w.begin)
		return w.set(w.chosen)
	case w.trial:
		if w.time >= trialTime && w.regions >= trialRegions {
			return w.next()
		}
	case w.begin < w.retry:
	case alarmed:
		if w.forget(w.begin); w.alarms >= alarmLimit {
			w.compare(w.chosen - 1)
		}
	default:
		w.compare(w.chosen + 1)
	}
	return false
}

// forget subtracts the share of the time that has passed from alarms.
func (w *width) forget(now time.Duration) {
	w.alarms = max(0, w.alarms-(now-w.alarm)/alarmShare)
	w.alarm = now
}

// compare begins a trial of the chosen number of threads and the other.
func (w *width) compare(other int32) {
	if w.begin > w.retry+w.pause { // there was no reason for one meanwhile
		w.pause = pauseFirst
	}
	w.trial, w.turn, w.other, w.mean = true, 0, other, [2]float64{}
	w.time, w.regions, w.stopped = 0, 0, false
}

// next ends a turn, and the trial with its last turn. It reports whether more threads take part than before.
func (w *width) next() (wider bool) {
	w.mean[w.turn%2] += float64(w.time) / float64(w.regions)
	w.time, w.regions = 0, 0
	w.turn++
	switch {
	case w.turn == trialTurns:
		w.pause = min(2*w.pause, pauseLast)
		if w.mean[1] < trialGain*w.mean[0] {
			w.chosen, w.pause = w.other, pauseFirst
		}
		w.end(w.begin)
	case w.turn%2 == 1:
		return w.set(w.other)
	}
	return w.set(w.chosen)
}

// giveUp ends a trial without a result.
func (w *width) giveUp(now time.Duration) {
	w.pause = min(2*w.pause, pauseLast)
	w.end(now)
}

// end ends a trial at the given time.
func (w *width) end(now time.Duration) {
	w.trial, w.alarms = false, 0
	w.alarm, w.retry = now, now+w.pause
}

// wait notes that a thread waited for the region's end for longer than it spins.
func (w *width) wait() { w.heldUp.CompareAndSwap(0, max(1, int64(w.now()))) }

// finish looks, when a worker finished a chunk that others wait for, whether it was taken off its core.
func (w *width) finish(worker int) {
	if w.heldUp.Load() > 0 && preempted(&w.counts[worker]) {
		w.preempted.Store(true)
	}
}

// close ends a region.
func (w *width) close() {
	if threads := w.threads.Load(); w.trial || threads < w.most {
		took := w.now() - w.begin
		if w.trial {
			w.time += took
			w.regions++
			w.stopped = w.stopped || took > trialMost
		}
		w.yielded.Add(int64(took) * int64(w.most-threads))
	}
	since := w.heldUp.Swap(0)
	if since == 0 {
		return
	}
	if w.preempted.Swap(false) && w.kind != 0 {
		now := w.now()
		w.forget(now)
		w.alarms += min(now-time.Duration(since), alarmMost)
	}
}
