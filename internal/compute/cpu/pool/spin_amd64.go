package pool

import "sync/atomic"

// spinWhile executes PAUSE until *word is not old, at most pauses times; it returns the word. Its twin is in
// spin_other.go.
//
//go:noescape
func spinWhile(word *atomic.Uint32, old uint32, pauses int) uint32
