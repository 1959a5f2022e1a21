package vulkan

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// groupVariants are the variants of Groups, the smallest first.
var groupVariants = []variant{
	{by: Groups, rows: 64, tokens: 64, step: 64, local: 128},
	{by: Groups, rows: 128, tokens: 128, step: 64, local: 256},
}

// decodedBytes bounds the memory of weights that were decoded. There are two such memories: the next rows are decoded
// to the one while those in the other are multiplied.
const decodedBytes = 32 << 20

// decodedRows returns how many rows are decoded at a time: whole tiles, the same number each time.
func (d *Device) decodedRows(v variant, rows, columns int) int {
	most := max(1, cmp.Or(d.long.decoded, decodedBytes)/(2*ceil(columns, quant.QK)*quant.QK*v.rows)) // tiles
	tiles := ceil(rows, v.rows)
	return ceil(tiles, ceil(tiles, most)) * v.rows
}

// decoded returns some of a part's weights as halves, outputs from on, and the quads of a row in memory. Weights in
// floats are not decoded: they are the part itself.
func (r *recorder) decoded(m *matrix, p *part, t quant.Type, from, some int, byNeuron bool) (halves driver.View, pitch int) {
	const (
		pieces      = 2 // pieces of a unit: piece.glsl
		pieceHalves = 16
		quad        = 8
	)
	if !t.Quantised() {
		return p.memory, m.units * unitElems(t) / quad
	}
	lines, line, firstLine, firstPiece := some, m.units*pieces, from, 0
	if byNeuron {
		lines, line, firstLine, firstPiece = p.rows, ceil(some, quant.QK)*pieces, 0, from/quant.QK*pieces
	}
	r.decodes++
	halves = r.scratch(fmt.Sprint("decoded ", r.decodes%2), int64(2*lines*line*pieceHalves))
	r.dispatch(call{
		shader: "decode", local: 256, spec: []uint32{uint32(t), truth(m.layout == groups)},
		bind: []binding{read(p.memory), write(halves)}, push: append(m.push(p), uint32(lines*line), uint32(line), uint32(firstLine), uint32(firstPiece)),
		groups: grid(ceil(lines*line, 256)),
	})
	return halves, line * pieceHalves / quad
}
