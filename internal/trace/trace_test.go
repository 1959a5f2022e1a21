package trace_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// TestWrite: recorded spans are in the file, on their tracks, in microseconds; names may be anything.
func TestWrite(t *testing.T) {
	l := trace.New()
	l.Between(trace.Host, "blk.0\n\"\x01\xff", 1500*time.Nanosecond, 4*time.Microsecond)
	l.Between(trace.GPU, "b", 2*time.Microsecond, 2*time.Microsecond)
	l.Span(trace.Calls, "c", l.Now())
	var text strings.Builder
	if err := l.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Ph, Name string
			Tid      int
			Ts, Dur  float64
			Args     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatalf("%v in %s", err, text.String())
	}
	names, spans := map[int]any{}, 0
	for _, e := range got.TraceEvents {
		switch {
		case e.Name == "thread_name":
			names[e.Tid] = e.Args["name"]
		case e.Ph == "X":
			spans++
			if strings.HasPrefix(e.Name, "blk.0") && (names[e.Tid] != "processor" || e.Ts != 1.5 || e.Dur != 2.5) {
				t.Errorf("%+v on %v", e, names[e.Tid])
			}
		}
	}
	if spans != 3 {
		t.Errorf("%d spans, want 3", spans)
	}
}

// TestGPUs: several GPUs have separate tracks, and one clock.
func TestGPUs(t *testing.T) {
	l := trace.New()
	l.Between(trace.Steps, "token", 1, 9000)
	l.OfGPU(0).Between(trace.GPU, "first", 1000, 2000)
	l.OfGPU(1).Between(trace.GPU, "second", 3000, 4000)
	l.OfGPU(1).Between(trace.Host, "neurons", 3000, 4000)
	var text strings.Builder
	if err := l.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Ph, Name string
			Tid      int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	names, on := map[int]any{}, map[string]any{}
	for _, e := range got.TraceEvents {
		if e.Name == "thread_name" {
			if names[e.Tid] != nil {
				t.Errorf("track %d is %v and %v", e.Tid, names[e.Tid], e.Args["name"])
			}
			names[e.Tid] = e.Args["name"]
		}
		if e.Ph == "X" {
			on[e.Name] = names[e.Tid]
		}
	}
	if on["token"] != "steps" || on["first"] != "GPU 0" || on["second"] != "GPU 1" || on["neurons"] != "processor" {
		t.Errorf("spans are on %v", on)
	}
}

// TestNone: a nil log accepts everything and allocates nothing.
func TestNone(t *testing.T) {
	var l *trace.Log
	if n := testing.AllocsPerRun(100, func() { l.Span(trace.Host, "a", l.Now()); l.OfGPU(1).Between(trace.GPU, "b", 1, 2) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
