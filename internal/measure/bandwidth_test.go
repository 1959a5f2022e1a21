package measure

import (
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// Every way reads every byte once, wherever the parts are cut and however many threads read them.
func TestReadOnce(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	buf := make([]byte, 3*readChunk+5*readBlock)
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	want := sumGeneric(buf)
	for _, w := range ways() {
		for _, threads := range []int{1, 2, 7} {
			took, got := readOnce(buf, threads, w)
			if got != want || took <= 0 {
				t.Errorf("%s, %d threads: sum %x in %s, want %x", w.name, threads, got, took, want)
			}
		}
		for n := 8; n <= 8*readBlock; n += readBlock / 2 {
			at := rng.IntN(64) // unaligned
			if got, want := w.sum(buf[at:at+n]), sumGeneric(buf[at:at+n]); got != want {
				t.Errorf("%s, %d bytes at %d: %x, want %x", w.name, n, at, got, want)
			}
		}
	}
}

// The buffer is four times the caches, but no more than a quarter of the memory that is available.
func TestBufferBytes(t *testing.T) {
	for _, c := range []struct {
		caches    int
		available uint64
		want      int
	}{
		{0, 0, 512 << 20},
		{32 << 20, 64 << 30, 512 << 20},
		{300 << 20, 64 << 30, 1200 << 20},
		{300 << 20, 0, 1200 << 20},
		{300 << 20, 2 << 30, 512 << 20},
		{300 << 20, 2<<30 + 5, 512 << 20},
		{300 << 20, 1 << 20, 16 << 20},
	} {
		if got := bufferBytes(c.caches, c.available); got != c.want {
			t.Errorf("caches of %d MiB, %d MiB available: %d bytes, want %d", c.caches>>20, c.available>>20, got, c.want)
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
	testenv.Thorough(t) // it reads gigabytes
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
