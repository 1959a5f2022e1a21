package responses

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// TestManyItems: thoughts and texts of one assistant are joined in order, and twice as many take at most about twice
// the memory.
func TestManyItems(t *testing.T) {
	const n = 5000
	took := func(n int) int64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := conversation{calls: map[string]string{}}
		for range n {
			for _, item := range []string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}]}`, `{"role":"assistant","content":"b"}`} {
				if err := c.read(json.RawMessage(item)); err != nil {
					t.Fatal(err)
				}
			}
		}
		runtime.ReadMemStats(&after)
		want := strings.Repeat("a\n\n", n)[:3*n-2]
		if len(c.messages) != 1 || c.messages[0].Reasoning != want || c.messages[0].Content != strings.ReplaceAll(want, "a", "b") {
			t.Fatalf("%d messages", len(c.messages))
		}
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	if one, two := took(n), took(2*n); two > 5*one/2 {
		t.Errorf("%d items take %d bytes, and twice as many %d", n, one, two)
	}
}
