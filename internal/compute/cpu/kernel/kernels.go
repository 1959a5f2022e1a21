// Package kernel holds the CPU device's inner loops: matrix products over packed weights and quantised
// activations, norms, rotations, attention. Every fast kernel has a scalar twin in Go, which defines it.
//
// Kernels are single-threaded, allocate nothing, and give the same bits for an output element whatever else is computed
// in the same call; sets of different instruction sets may differ in rounding.
package kernel

//go:generate go -C ../../../../gen run ./neon -part matmul -out ../internal/compute/cpu/kernel/matmul_arm64.s -stubs ../internal/compute/cpu/kernel/matmul_stub_arm64.go

//go:generate go -C ../../../../gen run ./neon -part file -out ../internal/compute/cpu/kernel/file_arm64.s -stubs ../internal/compute/cpu/kernel/file_stub_arm64.go

//go:generate go -C ../../../../gen run ./neon -part axpy -out ../internal/compute/cpu/kernel/axpy_arm64.s -stubs ../internal/compute/cpu/kernel/axpy_stub_arm64.go

//go:generate go -C ../../../../gen run ./neon -part vector -out ../internal/compute/cpu/kernel/vector_arm64.s -stubs ../internal/compute/cpu/kernel/vector_stub_arm64.go

import (
	"fmt"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Kernels is one instruction set's kernels.
type Kernels struct {
	Name string
	Vector
	types  [quant.Limit]tiles           // by quant.Type
	ways   [quant.Limit][Orders]ways    // by quant.Type: for one token
	file   [quant.Limit]fileTiles       // by quant.Type
	adders [quant.Limit]adders          // by quant.Type
	unpack [quant.Limit]unpacker        // by quant.Type
	turn   [quant.Limit]turner          // by quant.Type of panels
	choose [2]chooser                   // above, at least
	fetch  func(p *byte, lines uintptr) // prefetches lines of memory from p on
	// scratch holds blockScratch of finished calls.
	scratch sync.Pool
	// Quantize writes x as superblocks of quantised activations to dst [ActRow(len(x))].
	Quantize func(dst []byte, x []float32)
	// bfloat says that BF16, and F16 where it is rounded, are multiplied in BF16; round writes x as BF16 to dst [bf16Acts(len(x))].
	bfloat  bool
	round   func(dst []byte, x []float32)
	unit    *matrixUnit // nil where there is none
	prompts sync.Pool   // promptScratch of finished calls
	// shorts writes x as integers of 16 bits with scales to dst [shortActs(len(x))]; nil where no product takes them.
	shorts func(dst []byte, x []float32)
	exact  *Kernels // where bfloat is set: the same without BF16
}

// Exact returns kernels with products that keep all bits of float weights.
func (k *Kernels) Exact() *Kernels {
	if k.exact != nil && k.types[quant.F16].rounded != nil {
		return k.exact
	}
	return k
}

// Floats makes k compute prompts' products with float weights in float32, too, and returns it. Matrix units and 16-bit
// integers are faster, but round.
func (k *Kernels) Floats() *Kernels {
	if k.exact != nil {
		k = k.exact
	}
	for t := range k.types {
		k.types[t].pairs, k.types[t].prompt = pairTiles{}, promptTiles{}
	}
	k.unit = nil
	return k
}

// Generic is the name of the portable set.
const Generic = "generic"

func generic() *Kernels {
	k := &Kernels{Name: Generic, Vector: genericVector(), Quantize: quantizeGeneric}
	for _, t := range quant.Computed() {
		k.types[t] = tiles{one: tileGeneric(t)}
	}
	return k
}

// Variants returns the sets that this machine runs, fastest first; the last is generic.
func Variants() []*Kernels { return append(platform(), generic()) }

// Names lists the names of Variants.
func Names() []string {
	var names []string
	for _, k := range Variants() {
		names = append(names, k.Name)
	}
	return names
}

// New returns the set of the given name, or the fastest where name is empty.
func New(name string) (*Kernels, error) {
	for _, k := range Variants() {
		if name == "" || k.Name == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("kernels %q do not run here; these do: %s", name, strings.Join(Names(), ", "))
}
