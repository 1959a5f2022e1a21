package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkReads reads pieces at random offsets of the file that POWERINFER_DISK names, and tells what each takes of the
// processor.
func BenchmarkReads(b *testing.B) {
	path := os.Getenv("POWERINFER_DISK")
	if path == "" {
		b.Skip("POWERINFER_DISK names no file to read")
	}
	f, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		for _, depth := range []int{1, 4, 16, 64} {
			for _, way := range []string{"usual", "threads", "pages"} {
				if way == "threads" && size > mostFlown {
					continue
				}
				b.Run(fmt.Sprintf("%dK/%d/%s", size>>10, depth, way), func(b *testing.B) {
					r, err := NewReader(depth)
					if err != nil {
						b.Fatal(err)
					}
					defer r.Close()
					if way == "threads" {
						withoutRing(r)
					}
					if way == "pages" { // of the usual size
						_ = unix.Madvise(r.buffers.memory, unix.MADV_NOHUGEPAGE)
					}
					benchmarkReads(b, r, f, size)
				})
			}
		}
	}
}

// benchmarkReads asks for 4·depth pieces at a time and waits for them.
func benchmarkReads(b *testing.B, r *Reader, f *File, size int) {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	b.SetBytes(int64(size))
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	for n := 0; n < b.N; {
		wave := min(4*r.depth, b.N-n)
		n += wave
		var wait sync.WaitGroup
		wait.Add(wave)
		list := make([]*Piece, wave)
		for i := range list {
			at := rng.Int64N((f.Size()-int64(size))/usualAlign) * usualAlign
			list[i] = &Piece{File: f, Offset: at, Bytes: size, Done: func(_ []byte, err error) {
				if err != nil {
					b.Error(err)
				}
				wait.Done()
			}}
		}
		r.Read(list...)
		wait.Wait()
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(took)/1e3/float64(b.N), "cpu-µs/op")
}
