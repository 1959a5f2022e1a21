package kernel

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestEveryTypeHasKernels: no type is left to portable Go by any instruction set.
func TestEveryTypeHasKernels(t *testing.T) {
	for _, k := range platform() {
		for _, typ := range quant.Computed() {
			if len(k.Ways(typ, Consecutive)) == 0 || len(k.Ways(typ, Scattered)) == 0 {
				t.Errorf("%s has no kernels of %s", k.Name, typ)
			}
			if typ.Quantised() && !typ.Traits().Columns && !k.unpack[typ].known() {
				t.Errorf("%s has nothing that unpacks %s", k.Name, typ)
			}
		}
		for _, typ := range quant.Types() {
			if typ.Quantised() && (len(k.Ways(typ, Mapped)) == 0 || k.file[typ].scatter == nil || k.file[typ].pack == nil) {
				t.Errorf("%s has no kernels of %s as files have it", k.Name, typ)
			}
		}
	}
}
