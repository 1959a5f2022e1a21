//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/rivo/uniseg"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var talkFor = flag.Duration("talk", 0, "how long TestChatScreen talks at random; without it each action is done once")

// thinking is a template that begins answers with thoughts. thoughtful is a grammar that ends the thoughts: four lines,
// then one line of answer.
const (
	thinking   = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
	thoughtful = `root ::= ([a-z ]{20,90} "\n"){4} "</think>" [A-Z]{20,60}`
)

// tube is powerinfer in a terminal. The test reads the terminal's screen, as a person does.
type tube struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	term vt.MockTerm
	size vt.Coord

	drawn    atomic.Int64 // how often the prompt and its text were drawn
	statuses atomic.Int64 // status lines
	answers  int64        // status lines that the test waited for

	showing           sync.Mutex // guards the fields below and the size
	more              *sync.Cond // signalled when the fields below change
	writes            int        // by the program
	closed            bool       // the program has ended
	drawings, endings occurrences

	began time.Time
	mu    sync.Mutex
	log   []string // everything on the terminal's line, with times
}

// occurrences counts a sequence in a text that comes in pieces.
type occurrences struct {
	of   string
	tail []byte // end of the earlier pieces, which may begin the sequence
}

func (o *occurrences) count(piece []byte) int64 {
	o.tail = append(o.tail, piece...)
	n := bytes.Count(o.tail, []byte(o.of))
	if last := bytes.LastIndex(o.tail, []byte(o.of)); last >= 0 {
		o.tail = o.tail[last+len(o.of):]
	}
	o.tail = bytes.Clone(o.tail[max(0, len(o.tail)-len(o.of)+1):])
	return int64(n)
}

// note logs an event: keys typed, text written by the program, or a change of the terminal.
func (s *tube) note(kind string, text any) {
	s.mu.Lock()
	s.log = append(s.log, fmt.Sprintf("%9.3f %s %q", time.Since(s.began).Seconds(), kind, text))
	s.mu.Unlock()
}

// tail returns the end of the log.
func (s *tube) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log[max(0, len(s.log)-200):], "\n")
}

// Write shows what the program writes.
func (s *tube) Write(text []byte) (int, error) {
	s.note("<", text)
	s.showing.Lock()
	defer s.showing.Unlock()
	n, err := s.term.Write(text)
	s.drawn.Add(s.drawings.count(text))
	s.statuses.Add(s.endings.count(text))
	s.writes++
	s.more.Broadcast()
	return n, err
}

func newTube(t *testing.T, args ...string) *tube {
	path, err := exec.LookPath("powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	s := &tube{t: t, began: time.Now(), cmd: exec.Command(path, args...), size: vt.Coord{X: 80, Y: 24}}
	s.more = sync.NewCond(&s.showing)
	s.drawings.of, s.endings.of = "\x1b[?25h", "]\x1b[0m\r\n"
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = []string{"LLAMA_ARG_DEVICE=none", "LLAMA_ARG_THREADS=1", "POWERINFER_PATIENCE=" + hung, "TERM=xterm-256color", "HOME=" + s.cmd.Dir, "XDG_STATE_HOME=" + s.cmd.Dir, "LANG=C.UTF-8"}
	s.term = vt.NewMockTerm(vt.MockOptSize(s.size))
	if err := s.term.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(s.term, "\x1b[?2027h") // characters of several code points take one place, as in modern terminals
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: uint16(s.size.Y), Cols: uint16(s.size.X)}); err != nil {
		testenv.Missing(t, "shells", "no pseudo-terminal: "+err.Error())
	}
	timer := time.AfterFunc(processLimit+*talkFor, func() { _ = s.cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); _ = s.cmd.Process.Kill(); _ = s.tty.Close(); _ = s.term.Stop() })
	go func() {
		_, _ = io.Copy(s, s.tty)
		s.showing.Lock()
		defer s.showing.Unlock()
		s.closed = true
		s.more.Broadcast()
	}()
	go func() { _, _ = io.Copy(s.tty, s.term) }() // answers to queries, such as the cursor's position
	return s
}

// rows returns the screen's lines without trailing spaces, up to the last line with text.
func (s *tube) rows() []string {
	s.showing.Lock()
	defer s.showing.Unlock()
	var all []string
	for y := range s.size.Y {
		var row strings.Builder
		for x := vt.Col(0); x < s.size.X; {
			c := s.term.GetCell(vt.Coord{X: x, Y: y})
			if c.C == "" {
				c.C = " "
			}
			row.WriteString(c.C)
			x += vt.Col(max(1, c.W))
		}
		all = append(all, strings.TrimRight(row.String(), " "))
	}
	for len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// until waits until ok accepts the screen, and returns its rows. Messages name what it waits for.
func (s *tube) until(what string, ok func(rows []string) bool) []string {
	s.t.Helper()
	for seen, closed := 0, false; !closed; seen, closed = s.after(seen) {
		if rows := s.rows(); ok(rows) {
			return rows
		}
	}
	s.t.Fatalf("%s did not come about on the screen of %d×%d, the cursor at %v:\n%s\n%s", what, s.size.X, s.size.Y, s.term.Pos(), strings.Join(s.rows(), "\n"), s.tail())
	return nil
}

// after waits until the program has written more than seen times or has ended. It returns the number of writes.
func (s *tube) after(seen int) (writes int, closed bool) {
	s.showing.Lock()
	defer s.showing.Unlock()
	for s.writes == seen && !s.closed {
		s.more.Wait()
	}
	return s.writes, s.writes == seen
}

func (s *tube) keys(text string) {
	s.t.Helper()
	s.note(">", text)
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// types types text after an empty prompt. It waits for each character to appear before it types the next.
func (s *tube) types(text string) {
	s.t.Helper()
	state := -1
	for rest := text; rest != ""; {
		var c string
		c, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		s.press(c)
		s.typed(text[:len(text)-len(rest)])
	}
}

// press presses a key and waits until the line is drawn again.
func (s *tube) press(key string) {
	s.t.Helper()
	drawn := s.drawn.Load()
	s.keys(key)
	s.until("a line drawn anew", func([]string) bool { return s.drawn.Load() > drawn })
}

// prompt waits until the last line is an empty prompt with the cursor after it.
func (s *tube) prompt() []string {
	s.t.Helper()
	return s.until("an empty prompt", func(rows []string) bool {
		return len(rows) > 0 && rows[len(rows)-1] == ">" && s.term.Pos() == vt.Coord{X: 2, Y: vt.Row(len(rows) - 1)}
	})
}

// typed waits until the input after the last prompt is text, over as many lines as it takes.
func (s *tube) typed(text string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%q behind the prompt", text), func(rows []string) bool { return s.input(rows) == squeeze(text) })
}

// input returns the text after the last prompt, without spaces.
func (s *tube) input(rows []string) string {
	for i := len(rows) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(rows[i]+" ", "> "); ok {
			return squeeze(rest + strings.Join(rows[i+1:], ""))
		}
	}
	return ""
}

// squeeze returns text without white space: the screen adds some at line breaks.
func squeeze(text string) string {
	return strings.Join(strings.Fields(text), "")
}

// answered waits for a status line and the prompt below it, and returns the rows.
func (s *tube) answered() []string {
	s.t.Helper()
	s.answers++
	s.until("a status line", func(rows []string) bool {
		return s.statuses.Load() >= s.answers && len(rows) > 1 && rows[len(rows)-1] == ">" && strings.HasSuffix(strings.Join(rows[max(0, len(rows)-4):len(rows)-1], ""), "]")
	})
	return s.prompt()
}

// folded checks that the thought after said is folded to one line and leaves nothing else.
func (s *tube) folded(said string, rows []string) {
	s.t.Helper()
	for i := len(rows) - 1; i >= 0; i-- {
		if !strings.HasPrefix(rows[i], "▸ thought for") {
			continue
		}
		if above := s.input(rows[:i]); above != squeeze(said) && strings.Contains(strings.Join(rows[:i], ""), "> ") {
			s.t.Errorf("something is left of the thought behind %q:\n%s", said, strings.Join(rows, "\n"))
		}
		return
	}
	if len(rows) < int(s.size.Y)-2 { // else it has scrolled away
		s.t.Errorf("no line of the thought:\n%s", strings.Join(rows, "\n"))
	}
}

func (s *tube) resize(x, y int) {
	s.t.Helper()
	s.showing.Lock()
	defer s.showing.Unlock()
	s.size = vt.Coord{X: vt.Col(x), Y: vt.Row(y)}
	s.note("size", fmt.Sprint(x, y))
	s.term.SetSize(s.size)
	_ = s.term.Drain() // it has no error
	if err := pty.Setsize(s.tty, &pty.Winsize{Rows: uint16(y), Cols: uint16(x)}); err != nil {
		s.t.Fatal(err)
	}
}

// sayings are typed: letters one and two columns wide, letters of several code points, and lines wider than the screen.
var sayings = []string{
	"hello", "Héllo wörld", "日本語の文章です", "cafe\u0301 au lait", "👍🏽 👩‍👩‍👧 🇩🇪 ok", strings.Repeat("a long line ", 12) + "ends", strings.Repeat("長い", 50),
}

// TestChatScreen talks as a person does, and reads the screen. Typed, pasted and recalled text appears after the
// prompt. Thoughts are folded. Ctrl-C ends an answer. Text typed meanwhile waits for the prompt. The prompt is in the
// right place at any size. Widths are even, because terminals break a line before a wide letter that has one column
// left, and this one cuts the letter. -talk 20m continues at random; POWERINFER_SEED=random takes another seed.
func TestChatScreen(t *testing.T) {
	t.Parallel()
	r := testenv.Rand(t)
	s := newTube(t, "chat", "--chat-template", thinking, "--grammar", thoughtful, "-c", "4096")
	s.prompt()
	said := ""
	say := func() {
		said = sayings[r.IntN(len(sayings))]
		s.types(said)
		s.keys("\r")
	}
	acts := []func(){
		func() { say(); s.folded(said, s.answered()) },
		func() {
			say()
			s.answered()
			said = "/thoughts"
			s.types(said)
			s.keys("\r")
			s.until("thoughts", func(rows []string) bool { return !strings.HasPrefix(rows[max(0, len(rows)-2)], "[") })
			s.prompt()
		},
		func() { // several lines at once
			s.keys("\x1b[200~one\rtwo **bold**\x1b[201~")
			s.typed("one two **bold**")
			s.keys("\r")
			s.answered()
			said = ""
		},
		func() { // Ctrl-C while it answers
			say()
			s.until("the beginning of an answer", func(rows []string) bool { return s.input(rows) != squeeze(said) })
			s.keys("\x03")
			s.answers++ // if Ctrl-C came after the answer, it ended a prompt instead
			s.until("the end of the answer", func(rows []string) bool { return s.statuses.Load() >= s.answers && rows[len(rows)-1] == ">" })
			s.keys("never mind")
			s.until("what follows Ctrl-C", func(rows []string) bool { return strings.HasSuffix(rows[len(rows)-1], "never mind") })
			s.keys("\x15")
			s.prompt()
		},
		func() { // Ctrl-C while one types
			s.types("never mind")
			s.keys("\x03")
			s.prompt()
		},
		func() { // repeats the last message
			if said == "" {
				return
			}
			s.keys("\x1b[A")
			s.typed(said)
			s.keys("\x03")
			s.prompt()
		},
		func() {
			s.resize(40+2*r.IntN(40), 12+r.IntN(30))
			s.prompt()
			s.types("x")
			s.keys("\x7f")
			s.prompt()
		},
		func() { // while it answers
			say()
			s.resize(40+2*r.IntN(40), 12+r.IntN(30))
			s.answered()
		},
		func() {
			said = "/clear"
			s.types(said)
			s.keys("\r")
			s.until("a new conversation", s.ends("a new conversation", ">"))
			s.prompt()
		},
		func() { // edits the middle of a line
			s.types("a日c")
			for _, k := range [][2]string{{"\x1b[D", "a日c"}, {"\x1b[D", "a日c"}, {"b", "ab日c"}, {"\x05", "ab日c"}, {"d", "ab日cd"}, {"\x01", "ab日cd"}, {"\x1b[3~", "b日cd"}} {
				s.press(k[0])
				s.typed(k[1])
			}
			s.keys("\x0b")
			s.prompt()
		},
	}
	acts = append(acts, func() { // types during an answer; the text waits, unseen, for the prompt
		say()
		s.keys("later")
		s.answers++
		rows := s.until("what was typed ahead", func(rows []string) bool { return s.statuses.Load() >= s.answers && rows[len(rows)-1] == "> later" })
		if all := strings.Join(rows, "\n"); strings.Count(all, "later") != 1 {
			t.Errorf("it is in the answer, too:\n%s", all)
		}
		s.keys("\x15")
		s.prompt()
	}, func() { // Ctrl-C and a key arrive together
		s.types("never")
		s.keys("\x03mind")
		s.until("what follows Ctrl-C", func(rows []string) bool { return rows[len(rows)-1] == "> mind" })
		s.keys("\x15")
		s.prompt()
	}, func() { // types ahead
		said = sayings[r.IntN(len(sayings))]
		s.keys(said)
		s.typed(said)
		s.keys("\x15")
		s.prompt()
		s.keys("never mind\x15" + said + "\r")
		s.answered()
	})
	n := 0
	for end := time.Now().Add(*talkFor); (time.Now().Before(end) || *talkFor == 0 && n < len(acts)) && !t.Failed(); n++ {
		act := n % len(acts)
		if *talkFor > 0 {
			act = r.IntN(len(acts))
		}
		t.Logf("action %d", act)
		acts[act]()
		if *talkFor > time.Minute {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		if n%20 == 19 { // before the context is full
			acts[8]()
		}
	}
	t.Logf("%d actions", n)
	s.keys("\x04")
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// ends reports whether the last rows are these.
func (s *tube) ends(last ...string) func(rows []string) bool {
	return func(rows []string) bool {
		return len(rows) >= len(last) && strings.Join(rows[len(rows)-len(last):], "\n") == strings.Join(last, "\n")
	}
}
