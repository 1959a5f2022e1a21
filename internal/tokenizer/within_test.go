package tokenizer

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestWithin: EncodeWithin returns Encode's result, reserves at least what it allocates for texts of long and of short
// words, and stops when memory is refused.
func TestWithin(t *testing.T) {
	const n = 1 << 19
	refused := errors.New("no room")
	for name, v := range map[string]Vocab{"bytes": bytesVocab("qwen2"), "pieces": piecesVocab()} {
		tok, err := New(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{" ", "a", "ab", "\n", "a b ", "\x01", "é"} {
			text := strings.Repeat(part, n/len(part))
			want := tok.Encode(text, true, true)
			runtime.GC() // twice, so that no scratch is left
			runtime.GC()
			var before, after runtime.MemStats
			var reserved int64
			calls := 0
			runtime.ReadMemStats(&before)
			got, err := tok.EncodeWithin(text, true, true, func(n int64) error {
				reserved += n
				calls++
				return nil
			})
			runtime.ReadMemStats(&after)
			if err != nil || len(got) != len(want) {
				t.Errorf("%s %q: %d tokens and %v, want %d", name, part, len(got), err, len(want))
			}
			// Besides, the body's own reservation covers words that are remembered and the scratch of short ones.
			if took := int64(after.TotalAlloc - before.TotalAlloc); took > reserved+4*n+1<<20 {
				t.Errorf("%s %q: %d bytes were allocated for each of the text, and %d reserved", name, part, took/n, reserved/n)
			}
			for at := range min(calls, 3) {
				call := 0
				if ids, err := tok.EncodeWithin(text, true, true, func(int64) error {
					if call++; call > at {
						return refused
					}
					return nil
				}); ids != nil || !errors.Is(err, refused) || call != at+1 {
					t.Errorf("%s %q: refused at call %d, it went on to call %d and returned %d tokens, %v", name, part, at, call, len(ids), err)
				}
			}
		}
	}
}
