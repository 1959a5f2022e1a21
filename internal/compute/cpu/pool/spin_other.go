//go:build !amd64

package pool

import (
	"runtime"
	"sync/atomic"
)

// spinWhile looks at *word until it is not old, at most pauses times; it returns the word.
func spinWhile(word *atomic.Uint32, old uint32, pauses int) uint32 {
	for range pauses {
		if v := word.Load(); v != old {
			return v
		}
		runtime.Gosched()
	}
	return word.Load()
}
