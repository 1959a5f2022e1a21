package planner

import (
	"math"
	"testing"
)

// A dense model's rate is the bandwidth over what a token reads; one with experts reads its share.
func TestAbout(t *testing.T) {
	const stream = 50e9
	m := Described(64<<30, stream)
	for _, o := range []Outline{
		{Bytes: 5e9, Read: 1, KV: 1e9},
		{Bytes: 20e9, Read: 0.1, KV: 0},
	} {
		rate, ram, err := m.About(o)
		if err != nil {
			t.Fatal(err)
		}
		want := stream / (float64(o.Bytes)*o.Read + float64(o.KV))
		if math.Abs(rate-want) > 0.05*want {
			t.Errorf("%+v: %.2f tokens/s, want %.2f", o, rate, want)
		}
		if all := o.Bytes + o.KV; ram < all*98/100 || ram > all {
			t.Errorf("%+v takes %d bytes of RAM", o, ram)
		}
	}
	// A model with experts does not fit, so a part of it comes from the disk. It is slower than from RAM, but faster
	// than entirely from the disk.
	large := Outline{Bytes: 80e9, Read: 0.05, KV: 0}
	whole, _, err := m.About(large)
	if err != nil {
		t.Fatal(err)
	}
	if rate, err := m.AboutOnDisk(large, 32<<30); err != nil || rate >= whole || rate < AssumedDisk/(0.05*80e9) {
		t.Errorf("from the disk %.2f tokens/s, from RAM %.2f, %v", rate, whole, err)
	}
	if rate, err := m.AboutOnDisk(Outline{Bytes: 80e9, Read: 1}, 32<<30); err != nil || rate != 0 {
		t.Errorf("a dense model: %.2f tokens/s, %v", rate, err)
	}
	if rate, err := m.AboutOnDisk(large, 2<<30); err != nil || rate != 0 {
		t.Errorf("no room for what every token reads: %.2f tokens/s, %v", rate, err)
	}
	m.Add("GPU", 24<<30, 1e12)
	o := Outline{Bytes: 5e9, Read: 1, KV: 1e9}
	rate, ram, err := m.About(o)
	if err != nil || rate < 3*stream/6e9 || ram > o.Bytes/10 {
		t.Errorf("with a GPU: %.2f tokens/s, %d bytes of RAM, %v", rate, ram, err)
	}
}
