package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Forward runs one step. Afterwards Logits returns the rows that p.Out asked for. The last layer may compute only these
// rows after its attention; ForwardHidden computes all.
func (m *Model) Forward(p *compute.Params) error {
	return m.run(nn.Logits, p)
}

// ForwardHidden runs one step as Forward does. Afterwards Hidden returns every row's hidden state, too.
func (m *Model) ForwardHidden(p *compute.Params) error {
	return m.run(nn.States, p)
}

// run runs one step.
func (m *Model) run(kind nn.Kind, p *compute.Params) error {
	if !slices.IsSorted(p.Out) {
		return fmt.Errorf("rows of logits %v of a step are not in ascending order", p.Out)
	}
	seg := p.Segment("")
	if seg.Rows == 0 || seg.Rows > m.most.Rows || seg.Out > m.most.Out {
		return fmt.Errorf("a step of %d tokens and %d outputs does not fit buffers of %d and %d", seg.Rows, seg.Out, m.most.Rows, m.most.Out)
	}
	seg.Name = m.begin(kind, p)
	if m.shaped {
		seg = m.dev.Shape(seg, m.most)
	}
	return m.runAs(seg, p)
}

// begin makes m.pass one of the kind, for a step of p, and returns the name of its segment.
func (m *Model) begin(kind nn.Kind, p *compute.Params) string {
	if p.Threshold = m.Threshold; p.Everything {
		p.Threshold = -math.MaxFloat32
	}
	for i, given := range p.Given {
		if given != nil {
			p.Tokens[i] = m.embed.Picture
		}
	}
	if kind == nn.OnlyMTP && m.shape.Bounded() {
		m.bound(p)
	}
	m.pass.Params, m.pass.Scales = p, m.scalesOf(p)
	m.pass.Step = nn.Step{Kind: kind, Whole: m.drafts && !p.Draft, Depth: m.depth(kind, p), Draft: p.Draft, Pictures: p.Given != nil, Bounded: p.Bounds != nil, Expanded: m.expands(p), Scales: nn.ScalesKey(m.pass.Scales)}
	if m.pass.Step.Scales != "" { // clients choose scales: names of all that they try would never be dropped
		return m.pass.Step.String()
	}
	name, ok := m.names[m.pass.Step]
	if !ok {
		name = m.pass.Step.String()
		m.names[m.pass.Step] = name
	}
	return name
}

// depth returns the Step.Depth of a step.
func (m *Model) depth(kind nn.Kind, p *compute.Params) int {
	if kind != nn.OnlyMTP {
		return 0
	}
	return min(p.Depth, max(0, m.shape.Most-1))
}

// runAs runs a step that has begun as seg.
func (m *Model) runAs(seg compute.Segment, p *compute.Params) error {
	m.segment = seg
	m.dev.Step(len(p.Tokens))
	return m.dev.Run(seg, p, m.body)
}

// record computes the step that has begun, in the operations of v.
func (m *Model) record(v compute.Verbs) {
	p := &m.pass
	p.Begin(v, m.pool, m.segment.Rows, m.segment.Out)
	switch p.Kind {
	case nn.RotateKeys:
		m.rotateKeys(p)
	case nn.OnlyMTP:
		m.forwardDraft(p)
	default:
		m.forward(p)
	}
}

// forward is the whole pass: embedding, blocks, final norm, head.
func (m *Model) forward(p *nn.Pass) {
	p.Features.Begin(p, m.Embd)
	x := m.program.Forward(p)
	if _, outputs := p.Rows(); outputs > 0 && m.output.Head.Bound() {
		last := p.Outputs(x)
		m.output.Logits(p, m.logits.Like(last), last)
		if p.Kind == nn.LastStates { // which the head has normed
			p.Replace(m.lasts.Like(last), last)
		}
	}
	switch p.Kind {
	case nn.States:
		m.keep(p, x)
	case nn.WithMTP:
		m.follow(p, x)
	}
}

// keep makes the step's hidden states the last norm of x.
func (m *Model) keep(p *nn.Pass, x compute.Tensor) {
	if m.draft != nil {
		p.NormTo(m.hidden.Like(x), x, m.output.Norm)
		return
	}
	p.Normalize(x, m.output.Norm)
	if m.hidden.Mem == nil { // the largest step comes first
		m.hidden = x
	}
}

// Logits returns row i of the last step's logits, valid until the next step: [n_vocab], or in a drafting step
// [n_draft], see family.DraftShape.Token. It fails if a GPU does.
func (m *Model) Logits(i int) ([]float32, error) {
	if m.pass.Kind == nn.OnlyMTP {
		return m.dev.Read(m.drafted(), i)
	}
	return m.dev.Read(m.logits, i)
}

// Hidden returns row i of the hidden states [n_embd] of the last step, which ForwardHidden or ForwardBoth ran: the last
// layer's outputs after the last norm, from which logits are computed. It is valid until the next step. It fails if a
// GPU does.
func (m *Model) Hidden(i int) ([]float32, error) {
	return m.dev.Read(m.hidden, i)
}
