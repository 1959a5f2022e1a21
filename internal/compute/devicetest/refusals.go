package devicetest

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// refusals: weights that do not fit are errors that name the tensor.
func refusals(t *testing.T, dev compute.Device) {
	t.Helper()
	const name = "blk.7.odd"
	for _, src := range []compute.Source{
		{Type: quant.F32, Rows: 2, Cols: 2, Data: make([]byte, 15)},
		{Type: quant.F16, Rows: 2, Cols: 2, Data: make([]byte, 10)},
		{Type: quant.Q4_0, Rows: 1, Cols: 16, Data: make([]byte, 9)},
		{Type: quant.Q6_K, Rows: 1, Cols: 128, Data: make([]byte, 105)},
		{Type: quant.F32, Rows: 4, Cols: 0},
		{Type: quant.F32, Rows: -1, Cols: -1, Data: make([]byte, 4)},
		{Type: 24, Rows: 1, Cols: 32, Data: make([]byte, 32)}, // I8
	} {
		src.Name = name
		if _, err := dev.Matrix(src, compute.Dense); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: a matrix of %d×%d %s in %d bytes gives the error %v", dev.Name(), src.Rows, src.Cols, src.Type, len(src.Data), err)
		}
		if _, err := dev.Vector(src); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: a vector of %d %s in %d bytes gives the error %v", dev.Name(), src.Cols, src.Type, len(src.Data), err)
		}
	}
}
