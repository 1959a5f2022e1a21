package vulkan

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// TestHazards: a conflict is a byte that one of two touches and the other writes, by the definition, byte by byte.
func TestHazards(t *testing.T) {
	const seed, slabs, bytes = 3, 2, 12
	rng := rand.New(rand.NewPCG(seed, 0))
	var all [slabs]driver.Slab
	for range 2000 {
		var h hazards
		var reads, writes [slabs][bytes]bool
		for range 6 {
			s, at := rng.IntN(slabs), rng.IntN(bytes)
			b := binding{driver.View{Slab: &all[s], At: int64(at), Size: int64(1 + rng.IntN(bytes-at))}, rng.IntN(2) == 0, false}
			b.writes = !b.reads || rng.IntN(3) == 0
			want := false
			for i := b.At; i < b.At+b.Size; i++ {
				want = want || writes[s][i] || b.writes && reads[s][i]
			}
			if got := h.conflict(b); got != want {
				t.Fatalf("seed %d: %v behind %v: conflict %t, want %t", seed, b, h.ranges, got, want)
			}
			if rng.IntN(4) == 0 {
				h.clear()
				reads, writes = [slabs][bytes]bool{}, [slabs][bytes]bool{}
			}
			h.add(b)
			for i := b.At; i < b.At+b.Size; i++ {
				reads[s][i] = reads[s][i] || b.reads
				writes[s][i] = writes[s][i] || b.writes
			}
		}
	}
}

// TestMissingBarrierIsSeen: what the other tests rely on. Without a barrier, the validation layer finds the hazard;
// with it, nothing.
func TestMissingBarrierIsSeen(t *testing.T) {
	d := lent(t)
	x, err := d.Tensor(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	y, err := d.Tensor(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	record := func(forget bool) {
		if err := d.once(func(r *recorder) {
			r.add(x, y)
			if forget {
				r.hazards.clear()
			}
			r.add(y, x)
		}); err != nil {
			t.Fatal(err)
		}
	}
	record(false)
	shared.messages.check(t)
	record(true)
	if all := strings.Join(shared.messages.take(), "\n"); !strings.Contains(all, "SYNC-HAZARD") {
		t.Errorf("a missing barrier was not found: %q", all)
	}
}

// TestWrongAddressIsSeen: GPU-assisted validation reports accesses of a shader outside its bindings.
func TestWrongAddressIsSeen(t *testing.T) {
	d, messages := software(t, Options{assisted: true})
	defer d.Close()
	x, y := tensorOf(t, d, 10, 10), tensorOf(t, d, 11, 10)
	add := func(n uint32) {
		if err := d.once(func(r *recorder) {
			r.dispatch(call{
				shader: "add", local: elementwise, bind: []binding{update(floats(x)), read(floats(y))}, push: []uint32{n}, groups: [3]int{1, 1, 1},
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(100)
	messages.check(t)
	add(200) // beyond what alignment adds
	if all := strings.Join(messages.all, "\n"); !strings.Contains(all, "out of bounds") {
		t.Errorf("an access beside a binding was not found: %q", all)
	}
}
