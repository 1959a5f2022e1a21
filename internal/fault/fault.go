// Package fault returns an error if a mapped file cannot be read any more, instead of ending the process.
package fault

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
)

// Err is the error of memory that could not be read although it was mapped: the file became shorter, or its disk
// failed.
var Err = errors.New("a mapped file could not be read: it was changed or truncated while it was in use, or its disk failed")

// Guard calls f and returns its error. It returns Err if f reads mapped memory that cannot be read, in the same
// goroutine; otherwise the process would end. Other panics go on.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := of(recover()); fault != nil {
			err = fault
		}
	}()
	if err = f(); errors.Is(err, syscall.EFAULT) { // the kernel read the memory, to write it to another file
		err = Err
	}
	return err
}

// of returns Err for the value of a panic that an access to mapped memory caused, and nil for nil. It panics again with
// any other value.
func of(recovered any) error {
	if recovered == nil {
		return nil
	}
	err, _ := recovered.(error)
	var access interface {
		runtime.Error
		Addr() uintptr
	}
	if errors.As(err, &access) || errors.Is(err, Err) {
		return Err
	}
	panic(recovered)
}

// A Group is a sync.WaitGroup for functions that read mapped memory. Wait panics with Err if one of them could not; a
// Guard around Wait returns that as its error.
type Group struct {
	group  sync.WaitGroup
	failed atomic.Bool
}

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.group.Go(func() {
		if Guard(func() error { f(); return nil }) != nil {
			g.failed.Store(true)
		}
	})
}

// Wait waits until all functions have returned.
func (g *Group) Wait() {
	g.group.Wait()
	if g.failed.Load() {
		panic(Err)
	}
}
