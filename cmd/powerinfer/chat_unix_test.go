//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// pane is a terminal in which powerinfer runs.
type pane struct {
	t   *testing.T
	tty *os.File
	cmd *exec.Cmd

	mu     sync.Mutex
	more   *sync.Cond // signalled when the fields below change
	text   string     // written since the last expect
	all    string
	closed bool // the program has ended, or left the terminal
}

// onScreen runs powerinfer with args in a terminal.
func onScreen(t *testing.T, env []string, args ...string) *pane {
	path, err := exec.LookPath("powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	return programOnScreen(t, path, env, args...)
}

// programOnScreen runs a program in a terminal, in a folder of its own.
func programOnScreen(t *testing.T, path string, env []string, args ...string) *pane {
	s := &pane{t: t, cmd: exec.Command(path, args...)}
	s.more = sync.NewCond(&s.mu)
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = append([]string{"LLAMA_ARG_DEVICE=none", "LLAMA_ARG_THREADS=1", "POWERINFER_PATIENCE=" + hung, "TERM=xterm-256color", "HOME=" + s.cmd.Dir, "XDG_STATE_HOME=" + s.cmd.Dir}, env...)
	var err error
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		testenv.Missing(t, "shells", "no pseudo-terminal: "+err.Error())
	}
	timer := time.AfterFunc(processLimit, func() { _ = s.cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); _ = s.cmd.Process.Kill(); _ = s.tty.Close() })
	go s.watch()
	return s
}

// watch keeps what is written.
func (s *pane) watch() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buffer)
		s.mu.Lock()
		s.text += string(buffer[:n])
		s.all += string(buffer[:n])
		s.closed = err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits until pattern was written.
func (s *pane) expect(pattern string) {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if at := want.FindStringIndex(s.text); at != nil {
			s.text = s.text[at[1]:]
			return
		}
		if s.closed {
			s.t.Fatalf("the program ended without %q in %q", pattern, s.text)
		}
		s.more.Wait()
	}
}

// drawn matches the end of drawing a line.
const drawn = `(?s:.*?)\x1b\[\?25h`

// keys presses keys, which follow a prompt.
func (s *pane) keys(keys string) {
	s.t.Helper()
	s.expect("> " + drawn)
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the program's end and checks that it succeeded.
func (s *pane) ended() {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("%v: %q", err, s.all)
	}
}

// TestChatOnTerminal: typed and pasted text becomes the conversation, and Ctrl-C stops only the answer.
func TestChatOnTerminal(t *testing.T) {
	t.Parallel()
	const endless = "llama.context_length=int:100000"
	s := onScreen(t, nil, "chat", "--chat-template", "chatml", "--ignore-eos", "-n", "8", "-c", "100000", "--override-kv", endless)
	const status = `(?s:tokens/s\s+\|\s+prompt.*?of\s+neurons\s+active)` // over several lines in a narrow window
	want := []string{"Héllo wörld 👍🏽 日本", "one\ntwo **bold**", strings.Repeat("a long line ", 30) + "ends", "goes\non", "read this:" + strings.Repeat("\nline", 100), "on and on"}
	s.keys(want[0] + "\r")
	s.expect(status)
	s.keys("\x1b[200~one\rtwo **bold**\x1b[201~\r")
	s.expect(status)
	if err := pty.Setsize(s.tty, &pty.Winsize{Rows: 10, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	s.keys(want[2] + "\r")
	s.expect(status)
	s.keys("goes\\\r")
	s.expect(`\. ` + drawn)
	_, _ = s.tty.WriteString("on\r")
	s.expect(status)
	s.keys("read this:\x1b[200~" + strings.Repeat("\rline", 100) + "\x1b[201~")
	s.expect(`read this:\[paste [0-9a-f]{8}: 101 lines\]`)
	_, _ = s.tty.WriteString("\r")
	s.expect(status)
	s.keys("/set n-predict -1\r")
	s.expect("n-predict is -1")
	s.keys("/set ignore-eos true\r")
	s.expect("ignore-eos is true")
	s.keys(want[5] + "\r")
	s.expect("on and on(?s:.*)[a-z]{3}.*\n") // an answer has begun
	_, _ = s.tty.WriteString("\x03")
	s.expect("cancelled")
	s.keys("\x03")
	s.expect(`\^C`)
	s.keys("\x03")
	s.expect("Ctrl-D or /exit leaves")
	s.keys("/save talk.json\r")
	s.expect("12 messages are in talk.json")
	s.keys("\x04")
	s.ended()

	data, err := os.ReadFile(filepath.Join(s.cmd.Dir, "talk.json"))
	if err != nil {
		t.Fatal(err)
	}
	var talk struct {
		Messages []struct{ Content any }
	}
	if err := json.Unmarshal(data, &talk); err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if got := talk.Messages[2*i].Content; got != w {
			t.Errorf("message %d is %q, typed was %q", i, got, w)
		}
	}
	if info, err := os.Stat(filepath.Join(s.cmd.Dir, "powerinfer", "chat-history.jsonl")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history: %v, %v", info, err)
	}
}

// TestChatSuspended: Ctrl-Z gives the terminal back to the shell, and fg continues with the line.
func TestChatSuspended(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		testenv.Missing(t, "shells", "bash is not there")
	}
	s := programOnScreen(t, bash, []string{"PATH=" + os.Getenv("PATH"), "PS1=shell$ "}, "--norc", "--noprofile")
	typed := func(after, text string) {
		s.expect(after)
		_, _ = s.tty.WriteString(text)
	}
	typed(`shell\$ `, "powerinfer chat --chat-template chatml --ignore-eos -n 3\r")
	s.keys("hello")
	typed("hello"+drawn, "\x1a")
	typed(`Stopped(?s:.*)shell\$ `, "fg\r")
	typed("> hello"+drawn, " there\r")
	s.expect("3 tokens")
	s.keys("/exit\r")
	typed(`shell\$ `, "exit\r")
	s.ended()
}

// TestChatTypedAhead: messages typed before their prompt appears are all answered.
func TestChatTypedAhead(t *testing.T) {
	t.Parallel()
	s := onScreen(t, nil, "chat", "--chat-template", "chatml", "--ignore-eos", "-n", "3")
	s.keys("first\rsecond\r/save talk.json\r/exit\r")
	s.expect("4 messages are in talk.json")
	s.ended()
	if strings.Contains(s.all, "\x1b[6n") {
		t.Error("the editor asks where the cursor is: it drops keys that come with the answer")
	}
}

// TestChatPlain: no escape sequences with NO_COLOR or on a dumb terminal. powerinfer without a command starts a chat.
func TestChatPlain(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		s := onScreen(t, []string{env})
		typed := func(text string) {
			s.expect("> ")
			_, _ = s.tty.WriteString(text)
		}
		typed("/set n-predict 5\n")
		s.expect("n-predict is 5")
		typed("/set ignore-eos true\n")
		s.expect("ignore-eos is true")
		typed("Once upon a time\n")
		s.expect("5 tokens")
		typed("\x03")
		s.expect(`\^C`)
		typed("\x03")
		s.expect("Ctrl-D or /exit leaves")
		typed("/exit\n")
		s.ended()
		if strings.Contains(s.all, "\x1b") {
			t.Errorf("%s: an escape sequence in %q", env, s.all)
		}
	}
}
