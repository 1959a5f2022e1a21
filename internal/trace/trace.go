// Package trace keeps what was done when, and writes it in Chrome's trace format, which chrome://tracing and ui.perfetto.dev show.
package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/clock"
)

// Track is a line of the picture.
type Track int

// The tracks. Each card has its own from Calls on.
const (
	Steps Track = iota // whole steps of a model
	Host               // what the processor computes beside a card
	Calls              // what the card is told, and waited for
	Card               // what the card does, by its own clock; where that is not known, from submission, or the end of what was before it, until a wait ended
)

var tracks = [...]string{"steps", "processor", "calls", "card"}

// most is how many spans are kept: 48 MiB of them. A token has about four a layer.
const most = 1 << 20

// Log is a list of spans. A nil Log keeps none and costs nothing. It may be used by several goroutines.
type Log struct {
	*kept
	card int // whose tracks are written to
}

// kept is what the logs of all cards share.
type kept struct {
	begin time.Duration // of clock.Now
	mu    sync.Mutex
	spans []span
	cards int
	left  int // spans that found no room
}

type span struct {
	name     string
	track    Track
	card     int
	from, to time.Duration
}

// New is an empty log, whose time begins now.
func New() *Log { return &Log{kept: &kept{begin: clock.Now(), cards: 1}} }

// OfCard is l, for card j of several to write to.
func (l *Log) OfCard(j int) *Log {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cards = max(l.cards, j+1)
	return &Log{l.kept, j}
}

// Now is the time since the log began; 0 for a nil log.
func (l *Log) Now() time.Duration {
	if l == nil {
		return 0
	}
	return clock.Since(l.begin)
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
	l.spans = append(l.spans, span{name, t, l.card, from, to})
}

// Left is how many spans found no room.
func (l *Log) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// quoted is a name as a JSON string.
func quoted(name string) string {
	b, _ := json.Marshal(name) // a string always can be
	return string(b)
}

// thread is a card's track's number.
func thread(t Track, card int) int {
	if t < Calls {
		return int(t)
	}
	return int(t) + card*(len(tracks)-int(Calls))
}

// Write writes the log to w: a JSON object with traceEvents, times in microseconds.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
func (l *Log) Write(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bufio.NewWriter(w)
	out.WriteString("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
	for card := range l.cards {
		for t, name := range tracks {
			if card > 0 && t < int(Calls) {
				continue
			}
			if t >= int(Calls) && l.cards > 1 {
				name = fmt.Sprintf("%s %d", name, card)
			}
			id := thread(Track(t), card)
			fmt.Fprintf(out, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":%s}},\n", id, quoted(name))
			fmt.Fprintf(out, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}},\n", id, id)
		}
	}
	us := func(d time.Duration) float64 { return float64(d) / 1000 }
	for _, s := range l.spans {
		fmt.Fprintf(out, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":%s,\"ts\":%.3f,\"dur\":%.3f},\n", thread(s.track, s.card), quoted(s.name), us(s.from), us(s.to-s.from))
	}
	out.WriteString("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"powerinfer\"}}\n]}\n")
	return out.Flush()
}
