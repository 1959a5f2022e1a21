package kernel

import "github.com/powerinfer-go/powerinfer/internal/quant"

// takeFiles gives k kernels of rows as files have them.
func (k *Kernels) takeFiles(kernels map[quant.Type]fileKernels, isa string) {
	for t, f := range kernels {
		k.file[t].scatter = f.scatter
		k.takeFile(t, f.near, f.far, isa, usualFile(isa))
	}
}
