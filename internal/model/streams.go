package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// bindStreams binds what families with several streams, and layers' embeddings, have before the layers. Tables stay in
// RAM.
func (m *Model) bindStreams(b *nn.Binder) {
	b.Place(m.place(m.Layers))
	gpu := b.GPU
	wide := m.Layers * m.Input
	if m.Input > 0 {
		b.GPU = false
		m.inputs.Table = b.Matrix("per_layer_token_embd.weight", m.Vocab, wide, compute.Lookup)
		b.GPU = gpu
		m.inputs.Proj = b.Adapted(b.Matrix("per_layer_model_proj.weight", wide, m.Embd, compute.Precise))
		m.inputs.Norm = m.newNorm(b.Vector("per_layer_proj_norm.weight", m.Input), nil)
		m.inputs.Width = m.Input
	}
	if m.Family.AltUp {
		m.altUp.Active = m.Active
		m.altUp.Split = b.Slices("altup_proj.weight", m.Embd, compute.Precise, m.Embd, m.Embd, m.Embd)
		m.altUp.Merge = b.Slices("altup_unembd_proj.weight", m.Embd, compute.Precise, m.Embd, m.Embd, m.Embd)
	}
}

// bindMixing binds what a block has of these.
func (l *block) bindMixing(b *blockBinder) {
	if b.m.Input > 0 {
		l.input = nn.LayerInput{Gate: b.linear("inp_gate.weight", ""), Proj: b.linear("proj.weight", ""), Norm: b.norm("post_norm")}
	}
	l.scale = 1
	if name := "layer_output_scale.weight"; b.bound(name) {
		if s := b.Floats(name, 1); s != nil {
			l.scale = s[0]
		}
	}
	if !b.m.Family.AltUp {
		return
	}
	const n = compute.AltUpStreams
	l.mixing = &nn.AltUpMixing{
		Norm: b.norm("altup_router_norm"), Router: b.linear("altup_router.weight", ""), Scale: b.vector("altup_correct_scale.weight"),
		Prediction: b.Flat("altup_predict_coef.weight", n*n, n), Correction: b.Flat("altup_correct_coef.weight", n, n),
	}
	l.laurel.Norm = b.norm("laurel_post_norm")
	rank := 1
	if t := b.Tensor("laurel_l.weight"); t != nil {
		rank = t.Rows()
	}
	l.laurel.Left = b.Linear("laurel_l", rank, b.m.Embd, nn.Absent)
	l.laurel.Right = b.Linear("laurel_r", b.m.Embd, rank, nn.Absent)
}
