package session

import (
	"fmt"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// FileSampling returns how f's publisher advises to choose tokens: the defaults, with what the keys general.sampling.*
// say instead, for a context of so many tokens. said names what they say, as in "temp 0.6". notes has a line for each
// key that cannot be used.
func FileSampling(f *gguf.File, context int) (s Sampling, said, notes []string) {
	s = DefaultSampling()
	for _, name := range []string{
		"sequence", "temp", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "penalty_last_n", "penalty_repeat", "mirostat", "mirostat_tau", "mirostat_eta",
	} {
		key := "general.sampling." + name
		v, ok := f.Lookup(key)
		if !ok {
			continue
		}
		changed := s
		if err := changed.set(f, key, name, context); err != nil {
			notes = append(notes, fmt.Sprintf("key %q of the file is not used: %s", key, strings.TrimPrefix(err.Error(), "sample: ")))
			continue
		}
		s, said = changed, append(said, fmt.Sprintf("%s %v", name, v))
	}
	return s, said, notes
}

// set changes one field to what f says by a key.
func (s *Sampling) set(f *gguf.File, key, name string, context int) error {
	if name == "sequence" {
		text, _, err := f.String(key)
		if err != nil {
			return err
		}
		chain, err := sample.ParseChain(text)
		s.Samplers = []string{}
		for _, g := range chain {
			s.Samplers = append(s.Samplers, g.String())
		}
		return err
	}
	v, _, err := f.Float(key)
	if err != nil {
		return err
	}
	if n := map[string]*int{"top_k": &s.TopK, "penalty_last_n": &s.RepeatLastN, "mirostat": &s.Mirostat}[name]; n != nil {
		if v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
			return fmt.Errorf("%v is not a whole number", v)
		}
		if *n = int(v); name == "penalty_last_n" && v == -1 {
			*n = context
		}
	} else {
		*map[string]*float32{
			"temp": &s.Temperature, "top_p": &s.TopP, "min_p": &s.MinP, "xtc_probability": &s.XTCProbability, "xtc_threshold": &s.XTCThreshold,
			"penalty_repeat": &s.RepeatPenalty, "mirostat_tau": &s.MirostatTau, "mirostat_eta": &s.MirostatEta,
		}[name] = float32(v)
	}
	o, err := s.Options(nil)
	if err != nil {
		return err
	}
	return o.Validate(1) // no token is named
}
