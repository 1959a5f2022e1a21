package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// event is a word that goroutines wait on until it changes: first spinning, then
// asleep. Sleepers hold a thread in the kernel where the system has futexes and every
// worker has a processor of Go's; otherwise they are goroutines that wait.
type event struct {
	word     atomic.Uint32
	_        line // sleepers changes while others spin on word
	sleepers atomic.Int32
	shared   bool // fewer of Go's processors than threads: never hold one while asleep
	mu       sync.Mutex
	changed  sync.Cond
}

func (e *event) init(shared bool) {
	e.shared = shared || !haveFutex
	e.changed.L = &e.mu
}

// add changes the word and wakes up to n sleepers.
func (e *event) add(n int) {
	e.word.Add(1)
	e.wake(n)
}

// wake wakes up to n of those who slept before the word changed. A sleeper counts itself before it looks
// at the word for the last time, so either it sees the change or wake sees it.
func (e *event) wake(n int) {
	if n == 0 || e.sleepers.Load() == 0 {
		return
	}
	if !e.shared {
		futexWake(&e.word, n)
		return
	}
	e.mu.Lock()
	e.changed.Broadcast()
	e.mu.Unlock()
}

// spin reports whether the word is not old, or came to be during about the given number of pauses.
func (e *event) spin(old uint32, pauses int) bool {
	for range pauses / stepPauses {
		if e.step(old) {
			return true
		}
	}
	return e.word.Load() != old
}

// sleep returns when the word is not old, and perhaps earlier.
func (e *event) sleep(old uint32) {
	if e.shared {
		runtime.Gosched()
	}
	e.sleepers.Add(1)
	defer e.sleepers.Add(-1)
	if !e.shared {
		if e.word.Load() == old {
			futexWait(&e.word, old)
		}
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.word.Load() == old {
		e.changed.Wait()
	}
}

// step pauses until the word is not old, at most stepPauses times. It is a call of its own because
// Go's scheduler stops a goroutine at a call, and the collector waits for that.
//
//go:noinline
func (e *event) step(old uint32) bool {
	return spinWhile(&e.word, old, stepPauses) != old
}
