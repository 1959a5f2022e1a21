package sample

// Constraint allows only some tokens to come next, as a grammar's state does. It follows one sequence.
type Constraint interface {
	// Apply sets the logits [n_vocab] of tokens that may not come next to -Inf. It is an error if none may.
	Apply(logits []float32) error
	// Accept advances by a token, or returns an error if the token is not allowed.
	Accept(id int32) error
	// Done reports whether the text is complete and nothing can follow it.
	Done() bool
}

// Constrain makes s draw only what c allows from now on; nil lifts it. What was accepted before, as a prompt, c has not
// seen.
func (s *Sampler) Constrain(c Constraint) {
	s.constraint, s.err = c, nil
	if c != nil && s.logits == nil {
		s.logits = make([]float32, s.nVocab)
	}
}

// Done reports whether the constraint says that the text is complete.
func (s *Sampler) Done() bool { return s.constraint != nil && s.constraint.Done() }

// Err returns the first error of the constraint; tokens drawn after it mean nothing.
func (s *Sampler) Err() error { return s.err }
