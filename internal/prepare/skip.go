package prepare

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// skipShares is the number of points of a curve of experts that are left out: shares of a token's weights, each twice the
// one before, up to the largest weight that an expert after those that stay can have.
const skipShares = 7

// checkExpertCurve refuses models with experts of which none can be left out.
func (r *run) checkExpertCurve() error {
	switch {
	case r.c.Experts.Used < 2:
		return fmt.Errorf("%s: a token uses %d expert, which cannot be left out", r.f.Path, r.c.Experts.Used)
	case len(r.o.Files)+len(r.o.EvalFiles) == 0:
		return fmt.Errorf("%s: give text to measure on with -f", r.f.Path)
	}
	return nil
}

// expertCurve measures what it costs to leave out experts of small weight, all that may be left out. The better half of a
// token's experts stays.
func (r *run) expertCurve(ctx context.Context) (*prepared.Curve, error) {
	m, c, err := r.newCurve(ctx, r.f, prepared.ByWeight)
	if err != nil {
		return nil, err
	}
	c.Rank, c.Calibration = max(1, r.c.Experts.Used/2), c.HeldOut
	largest := 1 / float32(c.Rank+1)
	for i := 1; i <= skipShares; i++ {
		below := largest / float32(int(1)<<(skipShares-i))
		p, err := m.point(ctx, float64(below), setting{mode: model.Off, skip: compute.Skip{After: c.Rank, Below: below, Always: true}})
		if err != nil {
			return nil, err
		}
		if c.Add(p); p.KLDivergence > worstKLD {
			break
		}
	}
	return c, nil
}

// expertsRead returns the share of the chosen experts that were computed, and the bytes of experts that a token read.
func (m *curveMaker) expertsRead(use []model.NeuronUse) (active, bytes float64) {
	var chosen, computed float64
	for l, u := range use {
		if m.config.Blocks[l].Experts {
			chosen += float64(u.Tokens) * float64(m.config.Experts.Used*m.config.Experts.FF)
			computed += float64(u.Predicted)
		}
	}
	active = computed / max(1, chosen)
	return active, active * m.config.ExpertBytes(m.file)
}
