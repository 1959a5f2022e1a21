package progress

import (
	"slices"
	"testing"
	"time"
)

// TestRemaining: bytes are timed from the first of them on, and parts from the start of the work. The note is printed
// once.
func TestRemaining(t *testing.T) {
	t.Setenv("POWERINFER_PATIENCE", "2s")
	type step struct {
		after time.Duration // the start
		done  int64
	}
	for _, c := range []struct {
		parts string
		steps []step
		want  []string
	}{
		{"", []step{{30 * time.Second, 1}}, nil}, // a first byte after a long start gives no estimate
		{"", []step{{30 * time.Second, 1}, {30*time.Second + enough/2, 6}, {30*time.Second + enough, 11}, {40 * time.Second, 100}}, []string{"about 10s"}},
		{"", []step{{0, 1}, {time.Second, 91}}, nil}, // shorter than the patience
		{"", []step{{0, 1}, {2 * time.Second, 1}, {4 * time.Second, 5}}, []string{"about 1m40s"}},
		{"windows", []step{{time.Second, 10}, {2 * time.Second, 11}}, []string{"about 10s for 100 windows"}},
	} {
		var told []string
		start := time.Unix(1000, 0)
		clock := start
		r := NewRemaining(c.parts)
		r.Now, r.Out = func() time.Time { return clock }, func(s string) { told = append(told, s) }
		if c.parts != "" {
			r.begin = start
		}
		for _, s := range c.steps {
			clock = start.Add(s.after)
			r.Set(s.done, 100)
		}
		if !slices.Equal(told, c.want) {
			t.Errorf("%q, %v: told %q, want %q", c.parts, c.steps, told, c.want)
		}
	}
}
