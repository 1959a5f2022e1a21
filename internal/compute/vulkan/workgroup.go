package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// groupVariants are those of Groups, the smallest first.
var groupVariants = []variant{
	{by: Groups, rows: 64, tokens: 64, step: 64, local: 128},
	{by: Groups, rows: 128, tokens: 128, step: 64, local: 256},
	{by: Groups, rows: 128, tokens: 256, step: 64, local: 256},
	{by: Groups, rows: 128, tokens: 256, step: 64, local: 256, decoded: true},
}

// decoded returns a part's weights as v's workgroups load them: quantised ones that are decoded before as halves, in
// rows of whole units.
func (r *recorder) decoded(v variant, m *matrix, p *part, t quant.Type) driver.View {
	if !v.decoded || !t.Quantised() {
		return p.memory
	}
	const pieces = 2 // of a unit: piece.glsl
	n := p.rows * m.units * pieces
	w := r.scratch("decoded", int64(2*p.rows*m.units*quant.QK))
	r.dispatch(call{
		shader: "decode", local: 256, spec: []uint32{uint32(t), truth(m.layout == groups)},
		bind: []binding{read(p.memory), write(w)}, push: append(m.push(p), uint32(n)), groups: grid(ceil(n, 256)),
	})
	return w
}
