package chat

import (
	"runtime"
	"strings"
	"testing"
)

// TestJoinedMessages: messages of one role become one with its parts in order. Joining twice as many takes at most
// about twice the memory.
func TestJoinedMessages(t *testing.T) {
	const n = 10000
	took := func(n int) int64 {
		all := make([]Message, n, n+2)
		for i := range all {
			all[i] = Message{Role: "user", Content: "a"}
		}
		all = append(all, Message{Role: "assistant", Content: "b"}, Message{Role: "user", Content: "c"})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := alternating(all)
		runtime.ReadMemStats(&after)
		if len(out) != 3 || out[0].Content != strings.Repeat("a\n\n", n-1)+"a" || out[1].Content != "b" || out[2].Content != "c" {
			t.Fatalf("%d messages", len(out))
		}
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	if one, two := took(n), took(2*n); two > 3*one+1<<16 {
		t.Errorf("%d messages take %d bytes, and twice as many %d", n, one, two)
	}
}
