// Package measure says how fast the machine moves bytes: memory, GPUs, and the way between them. Bytes per second and
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

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

const (
	readBytes = 512 << 20              // at least, if memory allows
	readCache = cpu.TuneCaches         // buffer over the caches: less of it than this share is found there
	readShare = 4                      // available memory over the buffer, at least
	readChunk = 1 << 20                // claimed at once, small so that a thread that lost its core delays nothing
	readBlock = 256                    // what sumAVX2 takes bytes in multiples of
	readAhead = 8 << 10                // bytes between a load and its prefetch, as in the kernels: farAhead in gen/matmul
	readTime  = 300 * time.Millisecond // time of passes: longer than another program's turn on a core
	readPass  = 10 * time.Millisecond  // least time of a pass over a part: far longer than threads take to start
	mostParts = 10                     // of the buffer
)

// A way is a way to read memory in order. The engine's kernels have the same ones.
type way struct {
	name string
	sum  func(b []byte) uint64 // sums b's words
}

// ReadBandwidth returns what memory gives to threads that read a buffer of several times the caches from front to back,
// each its own parts, in bytes per second, in the faster way.
func ReadBandwidth(threads int) (float64, error) {
	if threads < 1 || threads > 512 {
		return 0, fmt.Errorf("%d threads: give 1 to 512", threads)
	}
	buf, release, err := filled()
	if err != nil {
		return 0, err
	}
	defer release()
	speed, _, err := stream(buf, threads)
	return speed, err
}

// bufferBytes returns how much memory to read on a machine with this many bytes of caches and of available memory; 0 is
// unknown.
func bufferBytes(caches int, available uint64) int {
	n := max(readBytes, readCache*caches)
	if available > 0 {
		n = int(min(uint64(n), max(available/readShare, 16*readChunk)))
	}
	return n / readChunk * readChunk
}

// buffered returns how much memory to read on this machine.
func buffered() int {
	mem, _ := hw.ReadMemory() // unknown means enough
	return bufferBytes(hw.Detect().L3All, mem.Available)
}

// filled returns a buffer of several times the caches.
func filled() (buf []byte, release func(), err error) {
	n := buffered()
	buf, release, err = buffer(n, true)
	if err != nil {
		return nil, nil, fmt.Errorf("measuring the bandwidth takes %d MiB of memory, so close other programs: %w", n>>20, err)
	}
	const first = 1 << 12
	for i := range min(len(buf), first) { // unwritten pages are all the same one
		buf[i] = byte(i)
	}
	for at := first; at < len(buf); at *= 2 {
		copy(buf[at:], buf[:at])
	}
	return buf, release, nil
}

// stream returns the bandwidth of the fastest way to read buf, in bytes per second, and its name.
func stream(buf []byte, threads int) (speed float64, name string, err error) {
	var check uint64
	for i, w := range ways() {
		took, sum := readOnce(buf, threads, w)
		if i == 0 {
			check = sum
		}
		if sum != check {
			return 0, "", errors.New("a second read of the same memory differs")
		}
		parts := int(min(max(took/readPass, 1), mostParts))
		size := max(len(buf)/parts/readChunk*readChunk, readBlock)
		v := fastestPass(readTime, func(pass int) (int, time.Duration) {
			took, _ := readOnce(buf[size*(pass%parts):][:size], threads, w)
			return size, took
		})
		if v > speed {
			speed, name = v, w.name
		}
	}
	return speed, name, nil
}

// fastestPass returns the best of the passes in this much time, in bytes per second, because other programs disturb
// that one least. read gets the pass's number.
func fastestPass(time time.Duration, read func(pass int) (bytes int, took time.Duration)) (best float64) {
	for pass := 0; time > 0; pass++ {
		bytes, took := read(pass)
		took = max(took, 1)
		best = max(best, float64(bytes)/took.Seconds())
		time -= took
	}
	return best
}

// readOnce reads buf once with all threads. The sum of its words keeps the reads from being idle.
func readOnce(buf []byte, threads int, w way) (time.Duration, uint64) {
	return parallel(threads, len(buf), readChunk, func(from, to int) uint64 { return w.sum(buf[from:to]) })
}

// parallel makes all threads claim parts of n items and adds up the results of sum.
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
	begin := monotime.Now()
	close(start)
	done.Wait()
	return monotime.Since(begin), sum.Load()
}

// sumGeneric adds up b as little-endian 64-bit words; its length is a multiple of 8.
func sumGeneric(b []byte) uint64 {
	var s uint64
	for ; len(b) >= 8; b = b[8:] {
		s += binary.LittleEndian.Uint64(b)
	}
	return s
}
