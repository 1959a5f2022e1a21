package disk

import (
	"runtime"
	"sync"
)

// readProcessors is the number of Go's processors that readers need besides those of computing threads.
const readProcessors = 2

// besides counts the readers for which Go has more processors. Their number belongs to the process, and so does this.
var besides struct {
	mu      sync.Mutex
	readers int
	before  int // processors without these readers
	set     int // processors with them
}

// BesideComputing gives Go two more processors until r is closed, so that r reads while computing keeps all others busy.
// Several readers share them.
func (r *Reader) BesideComputing() {
	besides.mu.Lock()
	defer besides.mu.Unlock()
	if r.beside {
		return
	}
	r.beside = true
	if besides.readers++; besides.readers == 1 {
		besides.before = runtime.GOMAXPROCS(0)
		besides.set = besides.before + readProcessors
		runtime.GOMAXPROCS(besides.set)
	}
}

// giveProcessorsBack ends BesideComputing. If others have changed the number meanwhile, it stays theirs.
func (r *Reader) giveProcessorsBack() {
	besides.mu.Lock()
	defer besides.mu.Unlock()
	if !r.beside {
		return
	}
	r.beside = false
	if besides.readers--; besides.readers == 0 && runtime.GOMAXPROCS(0) == besides.set {
		runtime.GOMAXPROCS(besides.before)
	}
}
