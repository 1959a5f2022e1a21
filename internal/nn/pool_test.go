package nn

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// allocator is a device that hands out activations and counts them.
type allocator struct {
	compute.Device
	columns []int
}

func (a *allocator) Tensor(rows, cols int) (compute.Tensor, error) {
	a.columns = append(a.columns, cols)
	return compute.Tensor{Rows: rows, Cols: cols, Mem: new(int)}, nil
}

// TestPool: activations of one width share memory unless they are in use at the same time. After Allocate the same
// calls get the same memory and allocate nothing.
func TestPool(t *testing.T) {
	dev := &allocator{}
	p := NewPool(dev, 8, 2)
	like := compute.Tensor{Rows: 3}
	var memory []any
	step := func() {
		p.release(0)
		x, y := p.take(like, 16), p.take(like, 4)
		p.giveBack(y)
		wide := p.take(like, 32) // has y's memory
		if x.Mem == wide.Mem || wide.Rows != 3 || wide.Cols != 32 {
			t.Fatalf("%v and %v are in use at a time", x, wide)
		}
		memory = append(memory, x.Mem, wide.Mem)
	}
	for step(); p.Grown(); step() {
	}
	if err := p.Allocate(); err != nil || len(dev.columns) != 2 {
		t.Fatalf("activations of %v columns, error %v; want two", dev.columns, err)
	}
	memory = nil
	step()
	step()
	if memory[0] != memory[2] || memory[1] != memory[3] || len(dev.columns) != 2 {
		t.Errorf("the same takes got other memory, or allocated: %v columns", dev.columns)
	}
}
