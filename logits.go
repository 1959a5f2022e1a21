package powerinfer

import "context"

// Logits evaluates tokens as a prompt and calls each with the logits after tokens[i], for every i that wanted reports,
// in order. logits [vocabulary] are valid until each returns. An error of each, or ctx's, ends the evaluation.
func (m *Model) Logits(ctx context.Context, tokens []int32, wanted func(i int) bool, each func(i int, logits []float32) error) error {
	s := m.session.NewSequence()
	defer m.session.Release(s)
	step := m.session.Step()
	for at := 0; at < len(tokens); at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed error
		part := tokens[at:min(at+step, len(tokens))]
		err := m.session.Evaluate(s, part, func(i int) bool { return wanted(at + i) }, func(i int, logits []float32) {
			if failed == nil {
				failed = each(at+i, logits)
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return tell(err)
		}
	}
	return nil
}
