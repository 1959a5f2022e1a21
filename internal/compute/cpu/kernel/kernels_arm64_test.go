package kernel

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestEveryTypeHasKernels: products of no type are left to portable Go by any instruction set.
func TestEveryTypeHasKernels(t *testing.T) {
	for _, k := range platform() {
		for _, typ := range quant.Computed() {
			if m := &k.types[typ]; !m.expanded() && len(k.Ways(typ, Consecutive)) == 0 {
				t.Errorf("%s has no kernels of %s", k.Name, typ)
			}
			if typ.Quantised() && !typ.Traits().Columns && !k.unpack[typ].known() {
				t.Errorf("%s has nothing that unpacks %s", k.Name, typ)
			}
		}
	}
}
