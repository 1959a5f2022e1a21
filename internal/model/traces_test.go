package model_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// TestTraces compares every family's operations, with weights and the flow of data, to testdata/traces, and the byte
// counts of its models to testdata/bytes.txt.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	counts := map[string]string{}
	families := slices.Sorted(maps.Keys(tracedFamilies()))
	t.Run("families", func(t *testing.T) {
		for _, family := range testenv.Few(t, 9, families) {
			t.Run(family, func(t *testing.T) {
				t.Parallel()
				s := &story{programs: dictionary{prefix: "P"}, stretches: dictionary{prefix: "S"}, lists: dictionary{prefix: "W"}, loads: map[string]string{}}
				count := ""
				for _, m := range tracedModels(t, family) {
					s.model(t, m)
					if isCounted(m.name) {
						count += countedText(t, m)
					}
				}
				fmt.Fprintf(s, "\n")
				for i, r := range s.ropes {
					fmt.Fprintf(s, "R%d is %s\n", i+1, r)
				}
				mu.Lock()
				counts[family] = count
				mu.Unlock()
				sameText(t, filepath.Join("testdata", "traces", family+".txt"), strings.TrimPrefix(s.String(), "\n"))
			})
		}
	})
	text := bytesLegend
	for _, family := range families {
		text += "\n" + family + "\n" + counts[family]
	}
	if len(counts) == len(families) { // else only some were asked for
		sameText(t, filepath.Join("testdata", "bytes.txt"), text)
	}
}

// sameText compares a text with a file's, or writes the file with -update.
func sameText(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	is, was := strings.Split(got, "\n"), strings.Split(string(data), "\n")
	above := "" // what the line belongs to
	for i := range max(len(is), len(was)) {
		line := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(the end)"
		}
		if line(is) != line(was) {
			t.Fatalf("%s:%d: %s\n got %s\nwant %s", path, i+1, above, line(is), line(was))
		}
		if is[i] != "" && !strings.HasPrefix(is[i], "  ") {
			above = is[i]
		}
	}
}

// model writes what all loads of m do.
func (s *story) model(t *testing.T, m tracedModel) {
	t.Helper()
	fmt.Fprintf(s, "\n== %s\n", m.name)
	for _, l := range m.loads {
		s.trace(t, m, l)
	}
}

// trace loads m as l says, on paper, and writes what its steps do.
func (s *story) trace(t *testing.T, m tracedModel, l loading) {
	t.Helper()
	d := &paper{files: []*gguf.File{m.file}, expands: !l.gpu}
	for _, a := range l.options.Adapters {
		d.files = append(d.files, a.File)
	}
	o := l.options
	o.Batch, o.Outputs = 16, 8
	o.Cache = compute.CacheSpec{Pages: 8, States: 4, Near: o.Cache.Near}
	var dev compute.Device = d
	if l.shaped {
		dev = shaped{d}
	}
	if l.observed {
		o.Observer = firstRows{}
	}
	loaded, err := model.Load(t.Context(), m.file, dev, o)
	if err != nil {
		if l.refused {
			return
		}
		t.Fatalf("%s, %s: %v", m.name, l.name, err)
	}
	var steps []told
	segments := map[compute.Segment]string{} // what they did first
	for _, step := range stepsOf(loaded, m.file, l) {
		d.run = nil
		if _, err := step.run(); err != nil {
			t.Fatalf("%s, %s, %s: %v", m.name, l.name, step.name, err)
		}
		if d.run != nil {
			lines := s.told(d.run)
			steps = append(steps, told{step.name, lines})
			does := ""
			for _, l := range lines {
				if !strings.HasPrefix(l.text, "  then:") {
					does += l.text
				}
			}
			if first, again := segments[d.run.segment]; again && first != does {
				t.Errorf("%s, %s, %s: the segment %+v did something else before: a recording of it would be wrong", m.name, l.name, step.name, d.run.segment)
			}
			segments[d.run.segment] = does
		}
	}
	if l.rehearsed {
		d.runs = []*recording{}
		if err := loaded.Rehearse(); err != nil {
			t.Fatal(err)
		}
		for i, r := range d.runs {
			steps = append(steps, told{fmt.Sprintf("rehearsal %d of %d rows", i, r.segment.Rows), s.told(r)})
		}
	}
	s.load(m.name, l.name, s.listed(d), cached(d.cache), steps)
}

// told returns a recording's lines.
func (s *story) told(r *recording) []line {
	for i := range r.ops {
		for j := range r.ops[i].fields {
			if f := &r.ops[i].fields[j]; f.name == "Rope" {
				f.text = s.rope(f.text)
			}
		}
	}
	list, after := r.told()
	lines := folded(list, &s.stretches)
	p := &r.params
	if p.Threshold != 0 {
		after += fmt.Sprintf(" threshold=%.6g", p.Threshold)
	}
	if seg := p.Segment(r.segment.Name); seg != r.segment {
		after += fmt.Sprintf(" segment of %d rows, %d decode, %d outputs, %d of decode", r.segment.Rows, r.segment.Decode, r.segment.Out, r.segment.DecodeOut)
	}
	if after != "" {
		lines = append(lines, line{text: "  then:" + after})
	}
	return lines
}

// rope returns the name of a rotation that is given in words.
func (s *story) rope(words string) string {
	i := slices.Index(s.ropes, words)
	if i < 0 {
		i = len(s.ropes)
		s.ropes = append(s.ropes, words)
	}
	return fmt.Sprintf("R%d", i+1)
}

// shaped is paper that would rather run segments of powers of two.
type shaped struct{ *paper }

func (d shaped) Spare(int) int { return 8 }

func (d shaped) Shape(seg, most compute.Segment) compute.Segment {
	up := func(n int) int {
		if n == 0 {
			return 0
		}
		return 1 << int(math.Ceil(math.Log2(float64(n))))
	}
	prompt := up(seg.Rows - seg.Decode)
	out := min(most.Out, up(seg.Out-seg.DecodeOut)+up(seg.DecodeOut))
	seg.DecodeOut = min(out, up(seg.DecodeOut))
	seg.Decode, seg.Out = up(seg.Decode), out
	seg.Rows = seg.Decode + prompt
	return seg
}

// firstRows reads all that it is shown of a step's first row.
type firstRows struct{}

func (firstRows) FeedForward(_ int, s model.FFNStep) {
	s.Residual(0)
	s.Normed(0)
	s.Activations(0)
}
func (firstRows) Gates(_ int, s model.GateStep) { s.Gates(0) }
func (firstRows) Experts(int, model.ExpertStep) {}

// namedStep is a step of a model.
type namedStep struct {
	name string
	run  func() (rows [][]float32, err error) // logits and hidden states
}

// stepsOf returns the steps that a loaded model can take.
func stepsOf(m *model.Model, f *gguf.File, l loading) (list []namedStep) {
	type rows struct {
		seq, at, n int
	}
	params := func(decode int, out []int32, parts ...rows) *compute.Params {
		p := &compute.Params{Decode: decode, Out: out, States: []int32{2, 0, 1}, Pages: [][]int32{{0, 1}, {2, 3}, {4}}}
		p.Near = p.Pages
		for _, r := range parts {
			for i := range r.n {
				p.Tokens, p.Pos, p.Seq = append(p.Tokens, int32(7+i)), append(p.Pos, int32(r.at+i)), append(p.Seq, int32(r.seq))
				if f.Tensor("token_types.weight") != nil {
					p.Types = append(p.Types, int32(i%2))
				}
			}
		}
		p.Before = [][]float32{make([]float32, tracedEmbd), nil, nil}
		p.Scales = l.scales
		return p
	}
	read := func(p *compute.Params, logits, hidden bool) (rows [][]float32, err error) {
		keep := func(row []float32, err error) error {
			rows = append(rows, slices.Clone(row))
			return err
		}
		for i := range p.Out {
			if !logits {
				break
			}
			if err := keep(m.Logits(i)); err != nil {
				return nil, err
			}
		}
		for i := range p.Tokens {
			if !hidden {
				break
			}
			if err := keep(m.Hidden(i)); err != nil {
				return nil, err
			}
		}
		return rows, nil
	}
	add := func(name string, forward func(*compute.Params) error, hidden bool, p *compute.Params) {
		list = append(list, namedStep{name, func() ([][]float32, error) {
			if err := forward(p); err != nil {
				return nil, err
			}
			return read(p, !l.headless, hidden)
		}})
	}
	prompt := params(0, []int32{2, 4}, rows{0, 0, 5})
	if l.brief {
		if !l.headless {
			add("a prompt of 5, logits of 2", m.Forward, false, prompt)
			token := params(1, []int32{0}, rows{0, 5, 1})
			add("a token", m.Forward, false, token)
			if guess := *token; m.Drafts() {
				guess.Draft = true
				add("a token guessed", m.Forward, false, &guess)
			}
			return list
		}
		add("hidden states of a text of 5", m.ForwardHidden, true, params(0, nil, rows{0, 0, 5}))
		return list
	}
	forward, with := m.Forward, false
	if l.options.Further {
		forward, with = m.ForwardBoth, true
	}
	if !l.headless {
		add("a prompt of 5, logits of 2", forward, with, prompt)
		add("a prompt's part of 3", forward, with, params(0, nil, rows{0, 5, 3}))
		add("a token", forward, with, params(1, []int32{0}, rows{0, 8, 1}))
		add("two tokens and a prompt's part of 3, logits of 3", forward, with, params(2, []int32{0, 1, 4}, rows{0, 9, 1}, rows{1, 3, 1}, rows{2, 0, 3}))
		add("4 tokens to check, all logits", forward, with, params(4, []int32{0, 1, 2, 3}, rows{0, 10, 4}))
		add("a prompt of 12, the last logits", forward, with, params(0, []int32{11}, rows{0, 0, 12}))
		every := params(1, []int32{0}, rows{0, 12, 1})
		every.Everything = true
		add("a token, every neuron", forward, with, every)
		draft := params(1, []int32{0}, rows{0, 13, 1})
		draft.Draft = true
		if l.options.Further {
			add("a guess", m.ForwardFurther, true, draft)
			two := params(2, []int32{0, 1}, rows{0, 14, 1}, rows{1, 4, 1})
			two.Draft = true
			add("two guesses", m.ForwardFurther, true, two)
		} else if m.Drafts() {
			add("a token guessed", forward, false, draft)
		}
	}
	if !l.options.Further {
		add("hidden states of a text of 5, logits of 1", m.ForwardHidden, true, params(0, []int32{4}, rows{0, 0, 5}))
		add("hidden states of two texts", m.ForwardHidden, true, params(0, nil, rows{0, 0, 2}, rows{1, 0, 3}))
	}
	if m.CheckTurns() == nil {
		turn := params(0, nil, rows{0, 3, 4})
		turn.Turns = slices.Repeat([]int32{-2}, 4)
		list = append(list, namedStep{"keys turn", func() ([][]float32, error) { return nil, m.TurnKeys(turn) }})
	}
	return list
}
