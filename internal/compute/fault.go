package compute

import (
	"errors"
	"runtime"
)

// ErrFault is the error of memory that could not be read although it was mapped: the file behind it became shorter, or
// its disk failed.
var ErrFault = errors.New("a mapped file could not be read: it was changed or truncated while it was in use, or its disk failed")

// Fault returns ErrFault for the value of a panic that an access to mapped memory caused where debug.SetPanicOnFault is
// on, and nil for nil. It panics again with any other value.
func Fault(recovered any) error {
	if recovered == nil {
		return nil
	}
	err, _ := recovered.(error)
	var access interface {
		runtime.Error
		Addr() uintptr
	}
	if errors.As(err, &access) {
		return ErrFault
	}
	panic(recovered)
}
