// Package fault makes errors of accesses to mapped files that cannot be read any more.
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

// Guard calls f. Where f reads mapped memory that cannot be read, in its own goroutine, the error is Err instead of the
// end of the process. Other panics go on.
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

// A Group is a sync.WaitGroup for functions that read mapped memory. Its Wait panics with Err where one of them could
// not; Guard, around it, makes an error of that.
type Group struct {
	group  sync.WaitGroup
	failed atomic.Bool
}

// Go calls f in a goroutine of its own.
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
