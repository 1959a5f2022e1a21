package rounds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// test is what one figure was measured on.
type test struct {
	threads, prompt, gen, depth int
}

func (t test) String() string {
	name := bench.Test{Prompt: t.prompt, Gen: t.gen, Depth: t.depth}.Name()
	if t.threads == 1 {
		return name + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", name, t.threads)
}

// Results are tokens per second by test and engine, one a round.
type Results map[test]map[string][]float64

// add reads llama-bench's JSON: an array of rows.
func (r Results) add(engine string, out []byte) error {
	var rows []struct {
		Threads int     `json:"n_threads"`
		Prompt  int     `json:"n_prompt"`
		Gen     int     `json:"n_gen"`
		Depth   int     `json:"n_depth"`
		Rate    float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return fmt.Errorf("no JSON of llama-bench's form: %w", err)
	}
	if len(rows) == 0 {
		return errors.New("no test was run")
	}
	for _, row := range rows {
		t := test{row.Threads, row.Prompt, row.Gen, row.Depth}
		if r[t] == nil {
			r[t] = map[string][]float64{}
		}
		r[t][engine] = append(r[t][engine], row.Rate)
	}
	return nil
}

// tests returns those with Results: prompts first, then by depth and threads.
func (r Results) tests() []test {
	return slices.SortedFunc(maps.Keys(r), func(a, b test) int {
		return cmp.Or(b.prompt-a.prompt, a.gen-b.gen, a.depth-b.depth, a.threads-b.threads)
	})
}

// Table prints medians with their range and, for each engine after the first, how many times as fast the first is.
func Table(model string, list []Engine, r Results) string {
	return fmt.Sprintf("### %s\n\n", model) + header("test", list) + lines("", list, r)
}

// Measured has the results of one model's rounds.
type Measured struct {
	Name    string
	Results Results
}

// Together prints one table of several models.
func Together(list []Engine, models []Measured) string {
	s := header("model, test", list)
	for _, m := range models {
		s += lines(m.Name+", ", list, m.Results)
	}
	return s
}

func header(first string, list []Engine) string {
	s := fmt.Sprintf("| %s |", first)
	for _, e := range list {
		s += fmt.Sprintf(" %s |", e.Name)
	}
	for _, e := range list[1:] {
		s += fmt.Sprintf(" %s / %s |", list[0].Name, e.Name)
	}
	return s + "\n|---|" + strings.Repeat("---|", 2*len(list)-1) + "\n"
}

// lines prints a line for each test. Its name follows prefix.
func lines(prefix string, list []Engine, r Results) string {
	var b strings.Builder
	for _, t := range r.tests() {
		fmt.Fprintf(&b, "| %s%s |", prefix, t)
		for _, e := range list {
			b.WriteString(" " + spread(r[t][e.Name], 1, "") + " |")
		}
		for _, e := range list[1:] {
			b.WriteString(" " + spread(ratios(r[t][list[0].Name], r[t][e.Name]), 2, "") + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Slower names the tests in which we are slower than the old binary by more than a share, both in the median of the
// pairs and in the fastest rounds: other work on the machine moves the one or the other, a slower binary both.
func (r Results) Slower(share float64) []string {
	var list []string
	for _, t := range r.tests() {
		now, then := r[t]["ours"], r[t][Old]
		pairs := ratios(now, then)
		if len(pairs) == 0 {
			continue
		}
		if best := slices.Max(now) / slices.Max(then); median(pairs) < 1-share && best < 1-share {
			list = append(list, fmt.Sprintf("%s: %s, fastest %.3f", t, spread(pairs, 3, ""), best))
		}
	}
	return list
}

// ratios returns a over b round by round: what one round measured saw the machine in one state, and a machine may have
// several.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

// spread prints the median of x and its range.
func spread(x []float64, digits int, unit string) string {
	if len(x) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f%s (%.*f–%.*f)", digits, median(x), unit, digits, slices.Min(x), digits, slices.Max(x))
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Bandwidths are bytes a second that memory gave, by threads, one a round.
type Bandwidths map[int][]float64

func (b Bandwidths) measure(ctx context.Context, threads []int, of func(threads int) (float64, error)) error {
	for _, n := range threads {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := of(n)
		if err != nil {
			return err
		}
		b[n] = append(b[n], v)
	}
	return nil
}

// WeightsOf returns the bytes of weights that a token reads in the model at path without skipping: everything except an
// embedding that is not also the head, and only the experts that a token uses.
func WeightsOf(path string) (int64, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	family, _, err := f.String("general.architecture")
	if err != nil {
		return 0, err
	}
	share := 1.0
	if n, ok, _ := f.Uint(family + ".expert_count"); ok && n > 0 {
		used, _, err := f.Uint(family + ".expert_used_count")
		if err != nil {
			return 0, err
		}
		share = float64(used) / float64(n)
	}
	bytes := 0.0
	for _, t := range f.Tensors {
		switch n := float64(len(t.Data)); {
		case t.Name == "token_embd.weight" && f.Tensor("output.weight") != nil:
		case strings.Contains(t.Name, "_exps."):
			bytes += share * n
		default:
			bytes += n
		}
	}
	return int64(bytes), nil
}

// Shares prints what part of the read bandwidth each engine's decoding used: a token reads its weights once, so it is
// bytes of weights times tokens a second over bytes a second, round by round.
func Shares(weights int64, list []Engine, r Results, b Bandwidths) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Share of the read bandwidth, with %.2f GB of weights read a token:\n\n| test | GB/s |", float64(weights)/1e9)
	for _, e := range list {
		fmt.Fprintf(&s, " %s |", e.Name)
	}
	s.WriteString("\n|---|---|" + strings.Repeat("---|", len(list)) + "\n")
	for _, t := range r.tests() {
		read := b[t.threads]
		if t.prompt > 0 || len(read) == 0 {
			continue
		}
		fmt.Fprintf(&s, "| %s | %s |", t, spread(scaled(read, 1e-9), 1, ""))
		for _, e := range list {
			s.WriteString(" " + spread(scaled(ratios(r[t][e.Name], read), 100*float64(weights)), 0, " %") + " |")
		}
		s.WriteString("\n")
	}
	return s.String()
}

func scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}
