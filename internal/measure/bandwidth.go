// Package measure says how fast the machine moves bytes: memory, graphics cards, and the way between them. Bytes per second and
// seconds throughout.
package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/clock"
)

const (
	readBytes = 512 << 20              // far beyond any cache
	readChunk = 1 << 20                // claimed at a time, so that a thread that lost its core delays nothing
	readBlock = 256                    // what sumAVX2 takes bytes in multiples of
	readAhead = 4096                   // bytes between a load and its prefetch
	readTime  = 500 * time.Millisecond // of passes: longer than a neighbour's turn on a core
)

// ReadBandwidth is what memory gives to threads that read a buffer far beyond the caches from front to back, each its own
// parts, in bytes per second: the fastest pass of half a second, so that a neighbour on the machine lowers it least. Decoding
// cannot read its weights faster.
func ReadBandwidth(threads int) (float64, error) {
	if threads < 1 || threads > 512 {
		return 0, fmt.Errorf("%d threads: give 1 to 512", threads)
	}
	buf, release, err := filled()
	if err != nil {
		return 0, err
	}
	defer release()
	return stream(buf, threads)
}

// filled is a buffer far beyond the caches.
func filled() (buf []byte, release func(), err error) {
	buf, release, err = buffer(readBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%d MiB to measure the bandwidth with: %w", readBytes>>20, err)
	}
	for i := range buf { // pages that nothing was written to are all the same one
		buf[i] = byte(i)
	}
	return buf, release, nil
}

func stream(buf []byte, threads int) (float64, error) {
	best, check := readOnce(buf, threads)
	for total := best; total < readTime; {
		took, sum := readOnce(buf, threads)
		if sum != check {
			return 0, errors.New("a second read of the same memory differs")
		}
		best = min(best, took)
		total += took
	}
	return float64(len(buf)) / best.Seconds(), nil
}

// readOnce reads buf once with all threads. The sum of its words keeps the reads from being idle.
func readOnce(buf []byte, threads int) (time.Duration, uint64) {
	return parallel(threads, len(buf), readChunk, func(from, to int) uint64 { return sumWords(buf[from:to]) })
}

// parallel has all threads claim parts of n items, part at a time, and adds up what sum makes of them.
func parallel(threads, n, part int, sumOf func(from, to int) uint64) (time.Duration, uint64) {
	var next atomic.Int64
	var sum atomic.Uint64
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for range threads {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-start
			var s uint64
			for {
				at := int(next.Add(int64(part))) - part
				if at >= n {
					break
				}
				s += sumOf(at, min(at+part, n))
			}
			sum.Add(s)
		})
	}
	ready.Wait()
	begin := clock.Now()
	close(start)
	done.Wait()
	return clock.Since(begin), sum.Load()
}

// sumGeneric adds up b as little-endian 64-bit words; its length is a multiple of 8.
func sumGeneric(b []byte) uint64 {
	var s uint64
	for ; len(b) >= 8; b = b[8:] {
		s += binary.LittleEndian.Uint64(b)
	}
	return s
}
