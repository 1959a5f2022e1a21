// Package trace records what was done when, and writes it in Chrome's trace format, which chrome://tracing and
// ui.perfetto.dev show.
package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Track is a line of the picture.
type Track int

// The tracks. Each GPU has its own from Calls on.
const (
	Steps     Track = iota // whole steps of a model
	Host                   // the CPU's computing next to a GPU
	Disk                   // when parts of the model are read from disk
	DiskWaits              // when a step waits for them
	Calls                  // submissions to the GPU and waits for it
	GPU                    // the GPU's work, by its own clock; without one, from submission, or the end of earlier work, until a wait ended
)

var tracks = [...]string{"steps", "processor", "disk", "waiting for the disk", "calls", "GPU"}

// most bounds the number of spans: 48 MiB of them. A token has about four a layer.
const most = 1 << 20

// Log is a list of spans. A nil Log keeps none and costs nothing. It may be used by several goroutines.
type Log struct {
	*kept
	gpu int // the GPU of the tracks
}

// kept is shared by the logs of all GPUs.
type kept struct {
	begin time.Duration // of monotime.Now
	mu    sync.Mutex
	spans []span
	gpus  int
	left  int // spans that found no room
}

type span struct {
	name     string
	track    Track
	gpu      int
	from, to time.Duration
}

// New returns an empty log that begins now.
func New() *Log { return &Log{kept: &kept{begin: monotime.Now(), gpus: 1}} }

// OfGPU is l, for GPU j of several to write to.
func (l *Log) OfGPU(j int) *Log {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gpus = max(l.gpus, j+1)
	return &Log{l.kept, j}
}

// Now returns the time since the log began; 0 for a nil log.
func (l *Log) Now() time.Duration {
	if l == nil {
		return 0
	}
	return monotime.Since(l.begin)
}

// Span keeps what went on on a track from a time until now.
func (l *Log) Span(t Track, name string, from time.Duration) {
	if l != nil {
		l.Between(t, name, from, l.Now())
	}
}

// Between keeps what went on on a track from a time to another.
func (l *Log) Between(t Track, name string, from, to time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spans) == most {
		l.left++
		return
	}
	l.spans = append(l.spans, span{name, t, l.gpu, from, to})
}

// Empty reports whether no step of a model was kept.
func (l *Log) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.spans {
		if s.track == Steps {
			return false
		}
	}
	return true
}

// Left returns how many spans found no room.
func (l *Log) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// quoted returns a name as a JSON string.
func quoted(name string) string {
	b, _ := json.Marshal(name) // a string always can be
	return string(b)
}

// thread returns a GPU's track's number.
func thread(t Track, gpu int) int {
	if t < Calls {
		return int(t)
	}
	return int(t) + gpu*(len(tracks)-int(Calls))
}

// Write writes the log to w: a JSON object with traceEvents, times in microseconds.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
func (l *Log) Write(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bufio.NewWriter(w)
	out.WriteString("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
	for gpu := range l.gpus {
		for t, name := range tracks {
			if gpu > 0 && t < int(Calls) {
				continue
			}
			if t >= int(Calls) && l.gpus > 1 {
				name = fmt.Sprintf("%s %d", name, gpu)
			}
			id := thread(Track(t), gpu)
			fmt.Fprintf(out, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":%s}},\n", id, quoted(name))
			fmt.Fprintf(out, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}},\n", id, id)
		}
	}
	us := func(d time.Duration) float64 { return float64(d) / 1000 }
	for _, s := range l.spans {
		fmt.Fprintf(out, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":%s,\"ts\":%.3f,\"dur\":%.3f},\n", thread(s.track, s.gpu), quoted(s.name), us(s.from), us(s.to-s.from))
	}
	out.WriteString("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"powerinfer\"}}\n]}\n")
	return out.Flush()
}
