package devicetest

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestReplay: a body that depends on anything but its segment is detected, and one that does not passes.
func TestReplay(t *testing.T) {
	const n, cols = 3, 4
	dev := Replay(ref.New())
	tensor := func() compute.Tensor {
		x, err := dev.Tensor(n, cols)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x, y := tensor(), tensor()
	table, err := dev.Matrix(compute.Source{Name: "table", Type: quant.F32, Rows: 5, Cols: cols, Data: make([]byte, 4*5*cols)}, compute.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	honest := func(v compute.Verbs) {
		v.Embed(x, table)
		v.Host(func() error { row, err := dev.Read(x, 0); seen += len(row); return err })
		v.Add(x, y)
	}
	step := func(name string, token int32, body func(compute.Verbs)) error {
		p := compute.Params{Tokens: []int32{token, 1, 2}}
		return dev.Run(compute.Segment{Name: name, Rows: n}, &p, body)
	}
	for _, token := range []int32{0, 4} {
		if err := step("honest", token, honest); err != nil {
			t.Error(err)
		}
	}
	if seen != 2*cols {
		t.Errorf("Host read %d elements, want %d", seen, 2*cols)
	}
	if err := step("other", 0, func(v compute.Verbs) { v.Add(y, x) }); err != nil {
		t.Errorf("another segment may have other verbs: %v", err)
	}
	for _, c := range []struct {
		name  string
		body  func(compute.Verbs)
		fault string
	}{
		{"another verb", func(v compute.Verbs) { v.Embed(x, table); v.Gather(x, y); v.Add(x, y) }, "operation 1 is Gather"},
		{"another tensor", func(v compute.Verbs) { v.Embed(x, table); v.Host(func() error { return nil }); v.Add(x, x) }, "operation 2 is Add"},
		{"another shape", func(v compute.Verbs) { v.Embed(x.First(2), table); v.Host(func() error { return nil }); v.Add(x, y) }, "operation 0 is Embed"},
		{"fewer", func(v compute.Verbs) { v.Embed(x, table) }, "Host() is missing"},
		{"more", func(v compute.Verbs) { honest(v); v.Add(x, y) }, "is new"},
		{"a look", func(v compute.Verbs) { honest(v); _, _ = dev.Read(x, 0) }, "reads a tensor"},
	} {
		if err := step("honest", 0, c.body); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.fault)
		}
	}
	// A branch on the content of a tensor, as a careless model would have.
	branching := func(v compute.Verbs) {
		v.Embed(x, table)
		if seen++; seen%2 == 0 {
			v.Add(x, y)
		}
	}
	if err := step("branching", 0, branching); err != nil {
		t.Error(err)
	}
	if err := step("branching", 0, branching); err == nil {
		t.Error("a branch went unseen")
	}
}
