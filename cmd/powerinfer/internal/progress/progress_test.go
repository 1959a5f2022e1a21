package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// clock is a clock that tests set.
type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	p := start("loading", Bytes, &out, false, c.now, usualPatience)
	p.Set(100e6, 1000e6)
	c.pass(usualPatience - time.Millisecond)
	p.Set(200e6, 1000e6)
	if out.Len() > 0 {
		t.Fatalf("a task of less than %s shows %q", usualPatience, out.String())
	}
	c.pass(3*time.Second + time.Millisecond) // five seconds since the beginning
	p.Set(0, 1000e6)
	p.Set(0, 0)
	p.Set(250e6, 1000e6)
	c.pass(lineEvery - time.Millisecond)
	p.Set(300e6, 1000e6)
	c.pass(time.Millisecond) // ten
	p.Set(1000e6, 1000e6)
	p.Finish()
	want := "loading: 25 % (50 MB/s, 15s left)\nloading: 100 % (100 MB/s, 0s left)\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestProgressStarts: a task that waited for another has its own rate and patience.
func TestProgressStarts(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	p := start("loading", Bytes, &out, false, c.now, usualPatience)
	c.pass(10 * time.Second) // while the machine is measured
	p.Starts()
	p.Set(100e6, 1000e6)
	c.pass(2 * time.Second)
	p.Set(500e6, 1000e6)
	if want := "loading: 50 % (250 MB/s, 2s left)\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// told passes on its writes.
type told chan string

func (c told) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

// TestProgressBegins: a task shows its running time until its first progress.
func TestProgressBegins(t *testing.T) {
	for _, c := range []struct {
		tty           bool
		waits, ending string
	}{{false, "perplexity: 0 % (7s)\n", ""}, {true, "\rperplexity: 0 % (7s)", "\r\x1b[K"}} {
		out := make(told, 100) // a busy machine may write several times
		p := start("perplexity", Windows, out, c.tty, time.Now, 0)
		p.mu.Lock()
		p.begin, p.now = time.Unix(1000, 0), func() time.Time { return time.Unix(1007, 0) }
		p.waiting = time.AfterFunc(0, p.wait)
		p.mu.Unlock()
		if got := <-out; got != c.waits {
			t.Errorf("terminal %v: %q, want %q", c.tty, got, c.waits)
		}
		p.Begun()
		p.Begun()
		p.Finish()
		close(out)
		last := ""
		for s := range out {
			if s != c.waits {
				last += s
			}
		}
		if last != c.ending {
			t.Errorf("terminal %v: ends with %q, want %q", c.tty, last, c.ending)
		}
	}
	var out bytes.Buffer
	p := start("perplexity", Windows, &out, false, time.Now, time.Hour)
	p.Begins()
	p.Finish()
	p.wait() // like a timer that fired meanwhile
	if out.Len() > 0 {
		t.Errorf("a short task shows %q", out.String())
	}
}

func TestProgressUnits(t *testing.T) {
	for u, want := range map[Unit]string{Bytes: "2 MB/s", Tokens: "2000000.0 tokens/s", Runs: "2000000.00/s"} {
		if got := u.rate(2e6); got != want {
			t.Errorf("unit %d: %q, want %q", u, got, want)
		}
	}
}

func TestProgressBar(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	synctest.Test(t, testProgressBar)
}

func testProgressBar(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Now()}
	p := start("reading the prompt", Tokens, &out, true, c.now, usualPatience)
	p.Set(512, 4096)
	p.Finish()
	if out.Len() > 0 {
		t.Fatalf("a short task shows %q", out.String())
	}
	p = start("reading the prompt", Tokens, &out, true, c.now, usualPatience)
	p.Set(512, 4096)
	c.pass(usualPatience)
	time.Sleep(barThrottle) // the bar has its own clock
	p.Set(1024, 4096)
	shown := out.String()
	p.Finish()
	for _, want := range []string{"reading the prompt", "25%", "1024/4096", "tokens/s"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the bar lacks %q: %q", want, shown)
		}
	}
	if strings.Contains(out.String(), "\x1b[3") || strings.Contains(out.String(), "\n") {
		t.Errorf("a bar with colours or lines: %q", out.String())
	}
	if !strings.HasSuffix(out.String(), "\r") {
		t.Errorf("the line is not cleared: %q", out.String())
	}
}
