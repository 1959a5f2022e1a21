package nn

import "testing"

// TestPooling: names are those of llama.cpp's --pooling, and numbers those of LLAMA_POOLING_TYPE_* in its llama.h.
func TestPooling(t *testing.T) {
	for name, number := range map[string]uint32{"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4} {
		p, err := ParsePooling(name)
		if err != nil || p.Number() != number {
			t.Errorf("%s is %q, number %d (%v), not %d", name, p, p.Number(), err, number)
		}
	}
	if p, err := ParsePooling("max"); err == nil {
		t.Errorf("there is a pooling %q", p)
	}
}
