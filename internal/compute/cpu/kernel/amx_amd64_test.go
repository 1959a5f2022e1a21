package kernel

import (
	"bytes"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"golang.org/x/sys/cpu"
)

// TestTilesAreTheirDefinition holds what prepares a matrix unit's operands, which is AVX-512, to its twins.
func TestTilesAreTheirDefinition(t *testing.T) {
	if !cpu.X86.HasAVX512BW {
		t.Skip("this processor has no AVX-512")
	}
	rng := newRand(t)
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	const n = 3
	x, got, want := random(n*layout.ActBytes), random(n*256+canary), make([]byte, n*256+canary)
	copy(want, got)
	blockwiseAMX(&got[0], &x[0], n)
	blockwiseGeneric(want, x, n)
	if !bytes.Equal(got, want) {
		t.Error("activations block by block differ from their definition")
	}
	const step, offset = 2*layout.PanelQuants + 512, 8
	const pair = n*step + 64
	panel := random(layout.MatrixRows / 2 * pair)
	for _, form := range []int{layout.FormScales, layout.FormMinima, layout.FormHalves} {
		size := layout.MatrixBytes(uintptr(form))
		got := random(n*size + canary)
		want := bytes.Clone(got)
		fillMatrixAMX(&got[0], uintptr(size), &panel[0], pair, step, n, offset, uintptr(form))
		fillMatrixGeneric(want, panel, pair, step, n, offset, form)
		if !bytes.Equal(got, want) {
			t.Errorf("tiles of form %d differ from their definition", form)
		}
	}
}
