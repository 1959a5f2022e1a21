//go:build !amd64

package pool

import (
	"runtime"
	"sync/atomic"
)

// looksPerYield is the number of times that spinWhile looks before it lets other goroutines run: giving way costs a
// hundred looks.
const looksPerYield = 64

// spinWhile looks at *word until it is not old, at most pauses times; it returns the word.
func spinWhile(word *atomic.Uint32, old uint32, pauses int) uint32 {
	for i := range pauses {
		if v := word.Load(); v != old {
			return v
		}
		if i%looksPerYield == 0 {
			runtime.Gosched()
		}
	}
	return word.Load()
}
