//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package editor

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal marks pasted text by two sequences. If the second one is lost, as on bad lines, the paste ends after
// pasteSilence without input, or with Ctrl-C and pasteBreath without input.
const (
	pasteEnd     = "\x1b[201~"
	pasteSilence = 3 * time.Second
	pasteBreath  = 100 * time.Millisecond
	ctrlC        = 0x03
)

// pasteActions replaces the library's reading of pasted text, which waits forever for the mark at its end.
func (e *Editor) pasteActions() map[string]func() {
	return map[string]func(){"bracketed-paste-begin": func() {
		text, ok := readPaste(e.key)
		if !ok {
			e.abort(func() {})()
			return
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
		if text = e.paste(text); text != "" {
			e.shell.Cursor().InsertAt([]rune(text)...)
		}
	}}
}

// key returns the next byte that the terminal sends. ok is false if none comes in time.
func (e *Editor) key(within time.Duration) (key byte, ok bool) {
	if key, empty := e.shell.Keys.Pop(); !empty {
		return key, true
	}
	in := []unix.PollFd{{Fd: int32(os.Stdin.Fd()), Events: unix.POLLIN}}
	for until := time.Now().Add(within); ; {
		n, err := unix.Poll(in, max(0, int(time.Until(until).Milliseconds())))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		var b [1]byte
		if err != nil || n == 0 {
			return 0, false
		}
		n, err = unix.Read(int(os.Stdin.Fd()), b[:])
		return b[0], err == nil && n == 1
	}
}

// readPaste returns the pasted text that key gives byte by byte. ok is false if Ctrl-C ended it.
func readPaste(key func(within time.Duration) (byte, bool)) (text string, ok bool) {
	var all []byte
	for within := pasteSilence; ; {
		b, came := key(within)
		switch {
		case !came && within == pasteBreath:
			return "", false
		case !came:
			return string(all), true
		}
		within = pasteSilence
		if b == ctrlC {
			within = pasteBreath
		}
		if all = append(all, b); bytes.HasSuffix(all, []byte(pasteEnd)) {
			return string(all[:len(all)-len(pasteEnd)]), true
		}
	}
}
