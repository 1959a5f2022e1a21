package pool

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A region must run every chunk exactly once and be over when Run returns. Plain
// writes to marks let the race detector check the hand-over between goroutines.
func region(t *testing.T, p *Pool, chunks int, marks []int, round int) {
	t.Helper()
	busy := make([]atomic.Bool, p.Threads())
	p.Run(chunks, func(c, w int) {
		if busy[w].Swap(true) {
			t.Errorf("worker %d runs two chunks at once", w)
		}
		marks[c] += round
		busy[w].Store(false)
	})
	for c := range chunks {
		if marks[c] != round {
			t.Fatalf("round %d: chunk %d of %d ran %d times", round, c, chunks, marks[c]/round)
		}
		marks[c] = 0
	}
}

func TestRunsEveryChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 4, 8} {
		p := New(threads)
		marks := make([]int, 100)
		for round := 1; round <= 5000; round++ {
			region(t, p, round%len(marks), marks, round)
		}
		p.Close()
	}
}

func TestFewerProcessorsThanThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := New(4)
	defer p.Close()
	marks := make([]int, 10)
	for round := 1; round <= 300; round++ {
		region(t, p, 10, marks, round)
	}
}

// TestProcessorsTakenAway covers a pool made with enough processors, of which it then loses most.
func TestProcessorsTakenAway(t *testing.T) {
	p := New(4)
	defer p.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	marks := make([]int, 10)
	for round := 1; round <= 100; round++ {
		region(t, p, 10, marks, round)
	}
}

func TestOversubscribed(t *testing.T) {
	var stop atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	defer stop.Store(true)
	p := New(2 * runtime.NumCPU())
	defer p.Close()
	marks := make([]int, 64)
	for round := 1; round <= 100; round++ {
		region(t, p, len(marks), marks, round)
	}
}

// asleep waits until all workers of p sleep.
func asleep(t *testing.T, p *Pool) {
	t.Helper()
	testenv.Eventually(t, "the workers' sleep", func() bool { return int(p.region.sleepers.Load()) >= p.threads-1 })
}

func TestWakesAndClosesSleepers(t *testing.T) {
	p := New(4)
	marks := make([]int, 8)
	for round := 1; round <= 20; round++ {
		asleep(t, p)
		region(t, p, 8, marks, round)
	}
	asleep(t, p)
	p.Close()
	p = New(4) // closed at once
	p.Close()
}

func TestPanicReachesCaller(t *testing.T) {
	p := New(4)
	defer p.Close()
	cause := errors.New("broken")
	for bad := range 16 {
		var ran atomic.Int32
		err := func() (err error) {
			defer func() { err, _ = recover().(error) }()
			p.Run(16, func(c, _ int) {
				ran.Add(1)
				if c == bad {
					panic(cause)
				}
			})
			return nil
		}()
		if !errors.Is(err, cause) {
			t.Fatalf("Run panicked with %v, not with the chunk's panic", err)
		}
		if ran.Load() != 16 {
			t.Fatalf("%d of 16 chunks ran", ran.Load())
		}
	}
	marks := make([]int, 16)
	region(t, p, 16, marks, 1)
}

func TestNestedRunPanics(t *testing.T) {
	p := New(2)
	defer p.Close()
	defer func() {
		if recover() == nil {
			t.Fatal("a nested Run went through")
		}
	}()
	p.Run(2, func(int, int) { p.Run(2, func(int, int) {}) })
}

// TestCollectorIsNotHeldUp runs collections while workers spin and regions follow each other.
func TestCollectorIsNotHeldUp(t *testing.T) {
	p := New(4)
	defer p.Close()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			p.Run(8, func(int, int) {})
		}
	}()
	for range 20 {
		runtime.GC()
	}
	stop.Store(true)
	<-done
}

func TestRunAllocatesNothing(t *testing.T) {
	p := New(4)
	defer p.Close()
	fn := func(int, int) {}
	if n := testing.AllocsPerRun(100, func() { p.Run(16, fn) }); n != 0 {
		t.Fatalf("%v allocations a region", n)
	}
}

func BenchmarkRegion(b *testing.B) {
	for _, threads := range []int{1, 2, 4} {
		for _, chunks := range []int{threads, 16} {
			b.Run(fmt.Sprintf("threads=%d/chunks=%d", threads, chunks), func(b *testing.B) {
				p := New(threads)
				defer p.Close()
				fn := func(int, int) {}
				for b.Loop() {
					p.Run(chunks, fn)
				}
			})
		}
	}
}
