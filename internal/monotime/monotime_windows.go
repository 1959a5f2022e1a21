package monotime

import (
	"math/bits"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32                  = windows.NewLazySystemDLL("kernel32.dll")
	queryPerformanceCounter   = kernel32.NewProc("QueryPerformanceCounter")
	queryPerformanceFrequency = kernel32.NewProc("QueryPerformanceFrequency")
)

// frequency is the counter's, in ticks a second; it is fixed when the system starts.
var frequency = sync.OnceValue(func() uint64 { return query(queryPerformanceFrequency) })

// query cannot fail since Windows XP.
func query(p *windows.LazyProc) uint64 {
	var n uint64
	p.Call(uintptr(unsafe.Pointer(&n)))
	return n
}

// Now returns the time since some moment of this system, never less than before.
func Now() time.Duration {
	hi, lo := bits.Mul64(query(queryPerformanceCounter), uint64(time.Second))
	ns, _ := bits.Div64(hi, lo, frequency()) // no overflow: the counter is zero when the system starts
	return time.Duration(ns)
}
