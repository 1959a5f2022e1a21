package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// copiesFusion fuses copies of columns to different columns of one tensor, which would wait for each other. It also
// computes a single one.
type copiesFusion struct{}

// copiesMost is the largest number of copies that copycolumns.comp makes.
const copiesMost = 3

func (copiesFusion) takes(_ *recorder, ops []compute.Op) bool {
	c, ok := ops[len(ops)-1].(*compute.CopyColumns)
	if !ok || len(ops) > copiesMost {
		return false
	}
	for _, op := range ops[:len(ops)-1] {
		o := op.(*compute.CopyColumns)
		if c.Dst != o.Dst || overlap(floats(c.Dst), floats(c.Src)) || overlap(floats(o.Dst), floats(o.Src)) || sameColumns(c, o) {
			return false
		}
	}
	return true
}

// sameColumns reports whether two copies write some of the same columns.
func sameColumns(a, b *compute.CopyColumns) bool {
	for i := range a.Count {
		for j := range b.Count {
			x, y := a.To.First+i*a.To.Step, b.To.First+j*b.To.Step
			if x < y+b.Width && y < x+a.Width {
				return true
			}
		}
	}
	return false
}

func (copiesFusion) whole(*recorder, []compute.Op) bool { return true }

func (copiesFusion) record(r *recorder, ops []compute.Op) {
	dst := ops[0].(*compute.CopyColumns).Dst
	c := call{shader: "copycolumns", local: elementwise, bind: []binding{update(floats(dst))}}
	var sources [copiesMost]driver.View
	most := 0 // elements of a copy
	for i := range copiesMost {
		if i >= len(ops) {
			sources[i], c.push = sources[0], append(c.push, make([]uint32, 8)...) // stands in
			continue
		}
		o := ops[i].(*compute.CopyColumns)
		if last := o.Count - 1; o.To.First+last*o.To.Step+o.Width > dst.Cols || o.From.First+last*o.From.Step+o.Width > o.Src.Cols || dst.Rows != o.Src.Rows {
			panic(fmt.Sprintf("vulkan: CopyColumns of %d times %d columns from %d to %d", o.Count, o.Width, o.Src.Cols, dst.Cols))
		}
		n := dst.Rows * o.Count * o.Width
		sources[i], most = floats(o.Src), max(most, n)
		c.push = append(c.push, uint32(n), uint32(o.Width), uint32(o.Count), uint32(o.Src.Cols), uint32(o.To.First), uint32(o.To.Step), uint32(o.From.First), uint32(o.From.Step))
	}
	if most == 0 {
		return
	}
	form, pack := floats(dst), false // stands in
	if o := ops[0].(*compute.CopyColumns); o.Count*o.Width == dst.Cols && (o.Count == 1 || o.To.Step == o.Width) && o.Width%quant.QK == 0 {
		form, pack = r.packing(dst)
	}
	invocations := most
	if pack {
		invocations /= packPart
	}
	for _, v := range sources {
		c.bind = append(c.bind, read(v))
	}
	c.bind, c.push = append(c.bind, write(form)), append(c.push, uint32(dst.Cols), packedScales(dst.Rows*dst.Cols))
	c.spec, c.groups = []uint32{truth(pack)}, [3]int{r.groupsFor(invocations)[0], len(ops), 1}
	r.dispatch(c)
	r.packed(dst, form, pack)
}
