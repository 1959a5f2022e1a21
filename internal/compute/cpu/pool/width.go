package pool

import (
	"sync/atomic"
	"time"
)

// A thread whose core the operating system gives to another process for some milliseconds lets the others wait for its chunk, and two
// threads on one core wait for each other: beside one busy process, all cores can be slower than all but one. What is faster depends on
// the work and the processor, so the pool measures it: when threads are often taken off their cores in the middle of a region, it runs
// some regions with one thread fewer, and keeps to the number that took less time. Later it tries one thread more in the same way. Which
// threads compute changes no result, since the chunks are the same.
const (
	// A trial begins when alarmLimit more regions were held up by a thread without a core than one in every alarmEvery.
	alarmLimit = 8
	alarmEvery = 20 * time.Millisecond
	// A trial has trialTurns turns, by turns with the present number of threads and the other; each lasts at least that long and has
	// at least that many regions: several layers.
	trialTurns   = 4
	trialTime    = 40 * time.Millisecond
	trialRegions = 64
	// The other number is taken when its time is less than that share of the present one's.
	trialGain = 0.97
	// From one trial to the next passes pauseFirst after a change, twice as long after each trial that changed nothing, up to pauseLast.
	pauseFirst = 200 * time.Millisecond
	pauseLast  = 3200 * time.Millisecond
)

// width is the number of threads that take part in regions, and what decides it. Its fields belong to the caller of Run but for those
// that are atomic.
type width struct {
	threads atomic.Int32         // that take part: the workers whose numbers are below it
	most    int                  // threads of the pool
	now     func() time.Duration // the clock

	alarms float64       // regions that were held up, less one for every alarmEvery
	alarm  time.Duration // alarms was brought up to date
	retry  time.Duration // no trial before
	pause  time.Duration // from the last trial to retry

	trial   bool
	numbers [2]int32      // of threads that are compared: the one that was, and the other
	turn    int           // of the trial: numbers[turn%2] take part
	begin   time.Duration // of the region
	time    time.Duration // of the turn's regions
	regions int           // of the turn
	mean    [2]float64    // time of a region with each number, summed over turns [ns]

	_         line
	heldUp    atomic.Bool // a thread has waited for the region's end in vain
	preempted atomic.Bool // a thread that finished a chunk after that had been taken off its core
	_         line
	counts    []int64 // [threads] what preempted remembers of each
}

func (w *width) init(threads int) {
	start := time.Now()
	w.now = func() time.Duration { return time.Since(start) }
	w.most, w.pause = threads, pauseFirst
	w.counts = make([]int64, threads)
	w.threads.Store(int32(threads))
}

// open begins a region. It reports whether more threads take part than in the one before.
func (w *width) open() (wider bool) {
	n := w.threads.Load()
	alarmed := w.alarms >= alarmLimit && n > 1
	if !w.trial && !alarmed && int(n) == w.most {
		return false // as usual: no look at the clock, which takes as long as a small chunk
	}
	w.begin = w.now()
	switch {
	case w.trial:
		if w.time >= trialTime && w.regions >= trialRegions {
			w.next()
		}
	case w.begin < w.retry:
	case alarmed:
		w.compare(n, n-1)
	default:
		w.compare(n, n+1)
	}
	return w.threads.Load() > n
}

// compare begins a trial.
func (w *width) compare(present, other int32) {
	if w.begin > w.retry+w.pause { // there was no reason for one meanwhile
		w.pause = pauseFirst
	}
	w.trial, w.turn, w.numbers, w.mean = true, 0, [2]int32{present, other}, [2]float64{}
	w.time, w.regions = 0, 0
}

// next ends a turn, and the trial with its last turn.
func (w *width) next() {
	w.mean[w.turn%2] += float64(w.time) / float64(w.regions)
	w.time, w.regions = 0, 0
	if w.turn++; w.turn < trialTurns {
		w.threads.Store(w.numbers[w.turn%2])
		return
	}
	w.trial, w.alarms = false, 0
	if w.mean[1] < trialGain*w.mean[0] {
		w.threads.Store(w.numbers[1])
		w.pause = pauseFirst
	} else {
		w.threads.Store(w.numbers[0])
		w.pause = min(2*w.pause, pauseLast)
	}
	w.alarm, w.retry = w.begin, w.begin+w.pause
}

// wait notes that a thread waited for the region's end for longer than it spins.
func (w *width) wait() { w.heldUp.Store(true) }

// finish looks, when a worker finished a chunk that others wait for, whether it was taken off its core.
func (w *width) finish(worker int) {
	if w.heldUp.Load() && preempted(&w.counts[worker]) {
		w.preempted.Store(true)
	}
}

// close ends a region.
func (w *width) close() {
	if w.trial {
		w.time += w.now() - w.begin
		w.regions++
	}
	if !w.heldUp.Load() {
		return
	}
	w.heldUp.Store(false)
	if w.preempted.Swap(false) {
		now := w.now()
		w.alarms = max(0, w.alarms-float64(now-w.alarm)/float64(alarmEvery)) + 1
		w.alarm = now
	}
}
