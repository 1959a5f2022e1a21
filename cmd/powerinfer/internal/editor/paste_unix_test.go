//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package editor

import (
	"testing"
	"time"
)

// TestReadPaste gives pastes as terminals send them, with pauses, and without the mark at the end.
func TestReadPaste(t *testing.T) {
	for _, c := range []struct {
		name, sent string // | is a pause in which a person may press a key, … one that is too long for a paste
		want, left string
		ok         bool
	}{
		{"whole", "two\rlines\x1b[201~x", "two\rlines", "x", true},
		{"in pieces", "two|lines\x1b[2|01~x", "twolines", "x", true},
		{"without its end", "some text…x", "some text", "x", true},
		{"Ctrl-C", "some text|\x03|x", "", "x", false},
		{"Ctrl-C at the end", "some text\x03…", "", "", false},
		{"a control character within", "a\x03b\x1b[201~", "a\x03b", "", true},
	} {
		sent := []rune(c.sent)
		text, ok := readPaste(func(within time.Duration) (byte, bool) {
			for len(sent) > 0 {
				r := sent[0]
				sent = sent[1:]
				switch r {
				case '|':
					if within <= pasteBreath {
						return 0, false
					}
				case '…':
					return 0, false
				default:
					return byte(r), true
				}
			}
			return 0, false
		})
		if text != c.want || ok != c.ok || string(sent) != c.left {
			t.Errorf("%s: %q, %v, with %q left; want %q, %v, %q", c.name, text, ok, string(sent), c.want, c.ok, c.left)
		}
	}
}
