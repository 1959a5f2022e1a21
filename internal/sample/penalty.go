package sample

import "math"

// penalise applies the repetition penalty (Keskar et al., arXiv:1909.05858), then presence and frequency, to each
// distinct token of the last RepeatLastN.
func (s *Sampler) penalise() {
	o, n := &s.options, min(len(s.history.ids), s.options.RepeatLastN)
	for i := range n {
		s.counts[s.history.at(i)]++
	}
	s.changeCounted(n, func(l float32, count int32) float32 {
		if l > 0 {
			l /= o.RepeatPenalty
		} else {
			l *= o.RepeatPenalty
		}
		frequency := float32(float32(count) * o.FrequencyPenalty) // the conversion forbids fusing, which amd64 lacks
		return l - frequency - o.PresencePenalty
	})
}

// changeCounted replaces the logits of the tokens with counts other than zero, all among the last n of the history, and
// makes the counts zero again.
func (s *Sampler) changeCounted(n int, change func(logit float32, count int32) float32) {
	p := &s.pool
	p.settle()
	if p.logits == nil {
		for i := range p.c {
			if count := s.counts[p.c[i].id]; count != 0 {
				p.c[i].logit = change(p.c[i].logit, count)
			}
		}
		p.findHighest()
	}
	for i := range n {
		id := s.history.at(i)
		count := s.counts[id]
		s.counts[id] = 0
		if count != 0 && p.logits != nil {
			p.logits[id] = change(p.logits[id], count)
		}
	}
}

// dry penalises the tokens that would make the last tokens repeat an earlier sequence: see DRY. It
// takes time linear in DRY.LastN.
func (s *Sampler) dry() {
	o := &s.options
	n := min(len(s.history.ids), o.DRY.LastN)
	longest := min(n, s.unbroken)
	if n <= o.DRY.AllowedLength || longest < o.DRY.AllowedLength {
		return
	}
	s.findRepeats(n)
	for back := 1; back < n; back++ {
		length := min(int(s.repeats[back]), longest)
		id := s.history.at(back - 1) // what followed there
		if length >= o.DRY.AllowedLength && (s.breakers == nil || !s.breakers.within(id)) {
			s.counts[id] = max(s.counts[id], int32(length)+1) // 0 is for none
		}
	}
	s.changeCounted(n, func(l float32, count int32) float32 {
		exponent := float64(int(count) - 1 - o.DRY.AllowedLength)
		penalty := float64(o.DRY.Multiplier) * math.Pow(float64(o.DRY.Base), exponent)
		return l - float32(min(penalty, math.MaxFloat32))
	})
}

// findRepeats sets repeats[back], for back in [1, n), to the number of tokens before the last back ones that equal as
// many at the end, all among the last n: the Z-function of the history read backwards (Gusfield, Algorithms on Strings,
// Trees, and Sequences, 1.4).
func (s *Sampler) findRepeats(n int) {
	for len(s.repeats) < n { // as the history grows, so that no length is allocated before it is needed
		s.repeats = append(s.repeats, 0)
	}
	left, right := 0, 0 // [left, right) equals the beginning
	for i := 1; i < n; i++ {
		length := 0
		if i < right {
			length = min(int(s.repeats[i-left]), right-i)
		}
		for i+length < n && s.history.at(length) == s.history.at(i+length) {
			length++
		}
		s.repeats[i] = int32(length)
		if i+length > right {
			left, right = i, i+length
		}
	}
}
