package engine

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Checkpoints of recurrent states are made near a prompt's end, and at least checkpointEvery positions apart. The next
// turn of a conversation may begin differently from the prompt's last positions, such as a template's beginning of an
// answer. A step of only checkpointTail positions costs no more than a step of one.
const (
	checkpointTail  = compute.FewTokens
	checkpointEvery = 512
)

// keepsCheckpoints reports whether another sequence may continue from t, in a model with recurrent layers.
func (s *scheduler) keepsCheckpoints(t *task) bool {
	return s.kv.States > 0 && t.reuse != ReuseNone && !t.private() && t.pooled == nil
}

// upToCheckpoint shortens t's next n positions, which have out rows of logits. They end where a checkpoint is due
// before a prompt's end, and where positions of prompts and generated ones meet: a step groups rows by kind, and a
// state reads positions in order.
func (s *scheduler) upToCheckpoint(t *task, n, out int) (int, int) {
	at, most := t.kv.Len(), n
	if s.keepsCheckpoints(t) && !t.decodes() {
		tail, least := len(t.labels)-checkpointTail, checkpointTail
		if t.taken > 0 {
			tail, least = t.taken, 0
		}
		if at+n > tail && tail-at > least {
			most = tail - at
		}
	}
	for i := 1; i < most; i++ {
		if t.labels[at+i].Decoded() != t.labels[at].Decoded() {
			most = i
		}
	}
	for n > most {
		n--
		if t.wants(at + n) {
			out--
		}
	}
	return n, out
}

// keepStates copies the recurrent states of the step's parts with drafts, to restore them if a draft is wrong. A part
// checks no drafts if there is no slot for the copy.
func (s *scheduler) keepStates() {
	s.keeping = 0
	if s.kv.States == 0 {
		return
	}
	begin, copies := s.now(), 0
	for i := range s.step {
		if c := &s.step[i]; c.drafts > 0 {
			if c.t.kv.Keep() {
				copies++
			} else {
				c.drafts, c.t.draft.labels = 0, c.t.draft.labels[:0]
			}
		}
	}
	if copies == 0 {
		return
	}
	s.keeping = s.now() - begin
	each := float64(s.keeping) / float64(copies)
	if s.keep == 0 {
		s.keep = each
	}
	s.keep += costMemory * (each - s.keep)
}

// checkpoint copies t's state after a step if a checkpoint is due.
func (s *scheduler) checkpoint(t *task) {
	if !s.keepsCheckpoints(t) {
		return
	}
	rest, since := t.backlog(), t.kv.Len()-t.kv.Marked()
	// If less than two tails are left, upToCheckpoint cuts none off.
	due := rest > 0 && rest <= 2*checkpointTail && since > checkpointTail
	if t.taken > 0 { // branches share positions up to there
		due = t.kv.Len() == t.taken && since > 0
	}
	if due || since >= checkpointEvery {
		t.kv.Mark()
	}
}
