package driver

import "math"

// allocation holds the properties of a device that decide how much memory a model takes. The zero value is unknown.
type allocation struct {
	known     bool
	alignment uint64 // of bound views, in bytes
	span      uint32 // bytes that a binding may have
	largest   int64  // bytes that one allocation may have
	matrices  bool   // there are cooperative matrices that serve
	workgroup bool   // and such of workgroups
}

// allocation returns d's.
func (d *Physical) allocation() allocation {
	return allocation{true, d.Limits.MinStorageBufferOffsetAlignment, d.Limits.MaxStorageBufferRange, d.MaxMemory, d.Matrices.M > 0, len(d.Workgroup.Shapes) > 0}
}

// Described returns a GPU that is not there: memory for it is counted, and nothing can be submitted. Where info is not
// of Devices, but described, it is taken for a GPU that needs the most.
func Described(info Info) *GPU {
	a := info.allocation
	if !a.known {
		a = allocation{span: math.MaxUint32, largest: math.MaxInt64, matrices: true, workgroup: true}
	}
	p := &Physical{Info: info, MaxMemory: a.largest}
	if a.matrices {
		p.Matrices = Matrices{M: 16, N: 16, K: 16, Subgroup: 32}
	}
	if a.workgroup {
		p.Workgroup = WorkgroupMatrices{Most: math.MaxInt32}
		for invocations := 1; invocations <= workgroupLargest; invocations *= 2 {
			p.Workgroup.Shapes = append(p.Workgroup.Shapes, WorkgroupShape{1, 1, 1, invocations})
		}
	}
	p.Limits.MinStorageBufferOffsetAlignment, p.Limits.MaxStorageBufferRange = a.alignment, a.span
	p.Limits.MaxComputeSharedMemorySize, p.Limits.MaxComputeWorkGroupInvocations = math.MaxInt32, math.MaxInt32
	p.Limits.MaxComputeWorkGroupCount = [3]uint32{math.MaxInt32, math.MaxInt32, math.MaxInt32}
	return &GPU{Physical: p}
}

// Twin returns a GPU as Described does, which has all that g has.
func (g *GPU) Twin() *GPU {
	p := *g.Physical
	return &GPU{Physical: &p}
}

// Counts reports whether the GPU is Described.
func (g *GPU) Counts() bool { return g.VK == nil }
