package disk

import (
	"math"
	"testing"
)

// The disk takes 100 µs to begin and reads 1 GB/s from then on, at depth 4 or more; less deep it is slower.
func described() Speeds {
	list := Speeds{{Bytes: 1 << 20, Depth: 8, InOrder: true, Read: 1.5e9}}
	for _, size := range []int64{4 << 10, 64 << 10, 1 << 20} {
		best := float64(size) / (25e-6 + float64(size)/1e9)
		for _, depth := range []int{1, 2, 4, 8} {
			list = append(list, Speed{Bytes: size, Depth: depth, Read: best * min(1, float64(depth)/4)})
		}
	}
	return list
}

func TestSpeedsBetweenSizes(t *testing.T) {
	s := described()
	for _, c := range []struct {
		size int64
		want float64
	}{
		{1 << 10, 1 << 10 / (25e-6 + 4096/1e9)}, // as many a second as of the smallest
		{4 << 10, 4 << 10 / (25e-6 + 4096/1e9)},
		{16 << 10, 16 << 10 / (25e-6 + 16384/1e9)},
		{300 << 10, 300 << 10 / (25e-6 + 307200/1e9)},
		{1 << 20, 1 << 20 / (25e-6 + 1048576/1e9)},
		{16 << 20, 1 << 20 / (25e-6 + 1048576/1e9)}, // as fast as the largest
		{0, 0},
	} {
		if got := s.At(c.size); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%d bytes: %g bytes/s, want %g", c.size, got, c.want)
		}
	}
	for _, size := range []int64{1, 4 << 10, 5 << 10, 1 << 20, 1 << 30} {
		if got := s.Depth(size); got != 4 {
			t.Errorf("%d bytes: depth %d, want 4", size, got)
		}
	}
	if got := s.InOrder(); got != 1.5e9 {
		t.Errorf("in order: %g bytes/s", got)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if s := Speeds(nil); s.At(4096) != 0 || s.Depth(4096) != 1 || s.InOrder() != 0 {
		t.Error("a disk that was not measured has speeds")
	}
	for _, bad := range []Speed{{Depth: 1, Read: 1}, {Bytes: 1, Read: 1}, {Bytes: 1, Depth: 1}, {Bytes: 1, Depth: 1, Read: math.NaN()}} {
		if (Speeds{bad}).Check() == nil {
			t.Errorf("%+v is a speed", bad)
		}
	}
}
