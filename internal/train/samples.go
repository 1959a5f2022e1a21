package train

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Samples are the recordings of a layer: its predictor's inputs and the active neurons of each. The slices may be in a
// mapped file; they are only read.
type Samples struct {
	Embd, FF int
	X        []uint16 // [n, Embd] inputs, F16
	Start    []int64  // [n+1] sample i's active neurons are Active[Start[i]:Start[i+1]]
	Active   []uint16 // neurons, ascending within a sample
	Mass     []uint16 // what each of Active adds to the output, |a_i|·‖d_i‖, BF16
	Document []int32  // [n] the text that a sample is from
}

// Len returns the number of samples.
func (s *Samples) Len() int { return len(s.Document) }

// maxFF is the largest number of neurons that 16-bit indices can name.
const maxFF = 1 << 16

// check checks the samples' shape, so that nothing later reads outside of them.
func (s *Samples) check() error {
	n := s.Len()
	switch {
	case s.Embd < 1 || s.FF < 1 || s.FF > maxFF:
		return fmt.Errorf("samples of %d inputs and %d neurons: at most %d neurons can be recorded", s.Embd, s.FF, maxFF)
	case len(s.X)/s.Embd != n || len(s.X)%s.Embd != 0 || len(s.Start) != n+1 || len(s.Mass) != len(s.Active):
		return fmt.Errorf("samples do not fit: %d documents, %d inputs of %d, %d offsets, %d neurons, %d masses",
			n, len(s.X), s.Embd, len(s.Start), len(s.Active), len(s.Mass))
	case s.Start[0] != 0 || s.Start[n] != int64(len(s.Active)):
		return errors.New("samples do not fit: offsets do not cover the active neurons")
	}
	for i := range n {
		if s.Start[i+1] < s.Start[i] || s.Start[i+1] > int64(len(s.Active)) {
			return fmt.Errorf("sample %d: its active neurons end before they begin, or behind the last", i)
		}
		last := -1
		for _, a := range s.active(i) {
			if int(a) <= last || int(a) >= s.FF {
				return fmt.Errorf("sample %d: active neuron %d follows %d, of %d", i, a, last, s.FF)
			}
			last = int(a)
		}
	}
	return nil
}

func (s *Samples) x(i int) []uint16      { return s.X[i*s.Embd:][:s.Embd] }
func (s *Samples) active(i int) []uint16 { return s.Active[s.Start[i]:s.Start[i+1]] }
func (s *Samples) mass(i int) []uint16   { return s.Mass[s.Start[i]:s.Start[i+1]] }

// split divides the samples by document, so that no text is both for learning and for judging. Whole documents are held
// out until they make up the given share of samples; at least one is, and one is not.
func (s *Samples) split(share float64, seed uint64) (train, held []int32, err error) {
	count := map[int32]int{}
	var documents []int32
	for _, d := range s.Document {
		if count[d] == 0 {
			documents = append(documents, d)
		}
		count[d]++
	}
	if len(documents) < 2 {
		return nil, nil, fmt.Errorf("samples are from %d documents: at least two are needed, one of them to be held out", len(documents))
	}
	rng := rand.New(rand.NewPCG(seed, streamSplit))
	rng.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	out, n := map[int32]bool{}, 0
	for _, d := range documents[:len(documents)-1] {
		if n > 0 && float64(n+count[d]) > share*float64(s.Len()) {
			continue
		}
		out[d] = true
		n += count[d]
	}
	for i, d := range s.Document {
		if out[d] {
			held = append(held, int32(i))
		} else {
			train = append(train, int32(i))
		}
	}
	return train, held, nil
}

// evenly is at most n of the indices, evenly spaced.
func evenly(indices []int32, n int) []int32 {
	if len(indices) <= n {
		return indices
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = indices[i*len(indices)/n]
	}
	return out
}

// permuted returns a copy of indices in an order that follows from the seed and the stream.
func permuted(indices []int32, seed, stream uint64) []int32 {
	out := slices.Clone(indices)
	rng := rand.New(rand.NewPCG(seed, stream))
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Streams of random numbers from one seed.
const (
	streamSplit = 1 << 40
	streamStart = 2 << 40
	streamEpoch = 3 << 40 // plus the epoch
)
