package measure

import (
	"math/rand/v2"
	"testing"
	"time"
)

// sumWords reads every byte once, wherever the parts are cut and however many threads read them.
func TestReadOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	buf := make([]byte, 3*readChunk+5*readBlock)
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	want := sumGeneric(buf)
	for _, threads := range []int{1, 2, 7} {
		took, got := readOnce(buf, threads)
		if got != want || took <= 0 {
			t.Errorf("%d threads: sum %x in %s, want %x", threads, got, took, want)
		}
	}
	for n := readBlock; n <= 8*readBlock; n += readBlock {
		at := rng.IntN(64) // unaligned
		if got, want := sumWords(buf[at:at+n]), sumGeneric(buf[at:at+n]); got != want {
			t.Errorf("%d bytes at %d: %x, want %x", n, at, got, want)
		}
	}
}

func TestSumGeneric(t *testing.T) {
	if got := sumGeneric([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0x80}); got != 0x8000000000000103 {
		t.Errorf("%x", got)
	}
}

func TestReadBandwidth(t *testing.T) {
	for _, threads := range []int{0, -1, 513} {
		if _, err := ReadBandwidth(threads); err == nil {
			t.Errorf("%d threads are accepted", threads)
		}
	}
	if testing.Short() {
		t.Skip("reads gigabytes")
	}
	v, err := ReadBandwidth(1)
	if err != nil {
		t.Fatal(err)
	}
	// No memory is as slow or as fast as this: the unit is bytes per second.
	if v < 1e7 || v > 1e13 {
		t.Errorf("%g bytes/s", v)
	}
	t.Logf("%.1f GB/s with one thread", v/1e9)
}
