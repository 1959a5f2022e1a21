package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPrepare: usual steps are prepared only while nobody has asked for anything, not right after loading, and once.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, m := openFake(t, 8, limits{rows: 32, outputs: 4, context: 256})
		m.takes = 10 * time.Millisecond
		m.unprepared.Store(5)
		time.Sleep(calm / 2)
		_, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2}, Max: 20, Sampler: greedySampler{before: func() {
			time.Sleep(2 * calm)
			if n := m.unprepared.Load(); n != 5 {
				t.Errorf("%d steps are to be prepared while a text is generated, want 5", n)
			}
		}}, IgnoreEOG: true}, func(Token) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(calm + 5*m.takes/2) // in the middle of the third
		before := time.Now()
		if _, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2}, Max: 1, Sampler: greedySampler{}, IgnoreEOG: true}, func(Token) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took > 2*m.takes {
			t.Errorf("a request took %v while steps were prepared, of %v each", took, m.takes)
		}
		if n := m.unprepared.Load(); n != 2 {
			t.Errorf("%d steps are to be prepared, want 2", n)
		}
		time.Sleep(10 * calm)
		if n := m.unprepared.Load(); n != 0 {
			t.Errorf("%d steps are to be prepared in the end", n)
		}
	})
}
