// Package devicetest compares every device with the scalar one: one suite of small scripts over all verbs, shapes and
// types.
//
// A script is played on the device under test and on package ref with the same numbers, and compared within tolerances
// that have a reason. It is then played with only some of its tokens, or with weights that the device uses in place:
// both must give the same bytes as before, except for feed-forward layers by neuron, where long steps may round
// differently.
package devicetest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// seed makes every script's numbers, together with its name.
const seed = 20

// script is one case. Its numbers come from the stage, so that they are the same on every device.
type script struct {
	name   string // verb/…; the first two parts name its group
	tokens int    // tokens of the step
	whole  bool   // its rows are not tokens, so it cannot be played with some of them
	each   bool   // every token is also played by itself

	rough       bool // long steps may be computed another way than short ones: see Promise
	few         int  // tokens of the longest short step; 0 where steps of any length must agree
	kinds       bool // tokens of running sequences may be computed another way than tokens of prompts: see compute.Params
	halves      bool // long steps' products may be computed in halves: see Promise
	bfloats     bool // prompts' products may be computed in bfloat16: see Promise
	pinnedApart bool // pinned weights may be multiplied in another way

	turn, turns int // its place among the scripts that take turns with the ways to play them, and their number
	play        func(s *stage)
}

func (sc *script) group() string {
	parts := strings.SplitN(sc.name, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// kind is the name of sc's group without types and numbers: "Attention/a window of " for windows of all sizes.
func (sc *script) kind() string { return differing().ReplaceAllString(sc.group(), "") }

// differing matches the types and the numbers in a name.
var differing = sync.OnceValue(func() *regexp.Regexp {
	var types []string
	for _, t := range quant.Types() {
		types = append(types, t.String())
	}
	return regexp.MustCompile(`\b(` + strings.Join(types, "|") + `|[0-9]+)\b`)
})

func (sc *script) verb() string {
	verb, _, _ := strings.Cut(sc.name, "/")
	return verb
}

// scripts are all, the longest groups first: groups are played side by side.
func scripts() []script {
	return slices.Concat(sparseScripts(), expertScripts(), matMulScripts(), byHeadScripts(), attentionScripts(), blockScripts(), latentScripts(), selectScripts(), recurrentScripts(), wkvScripts(), predictScripts(), ropeScripts(), rowScripts(), routeScripts())
}

// selection says how much of the suite is played: one of each scripts scripts of a group, and one of each groups groups
// of a kind.
type selection struct {
	scripts, groups int
	verbs           bool // all groups of a verb are of one kind
}

// ofEveryType are the verbs that are played with every type, so that each type's blocks are decoded and multiplied.
var ofEveryType = []string{"Embed", "MatMul"}

// named returns the names of the groups that are played, in order. Each kind leaves out other groups, so that all types
// and sizes appear.
func (s selection) named(all []script) (names []string) {
	var groups, kinds []string
	groupsOf, has := map[string][]string{}, map[string]bool{}
	for _, sc := range all {
		group, kind := sc.group(), sc.kind()
		switch {
		case s.verbs:
			kind = sc.verb()
		case slices.Contains(ofEveryType, sc.verb()):
			kind = group
		}
		if has[group] {
			continue
		}
		has[group] = true
		groups = append(groups, group)
		if groupsOf[kind] == nil {
			kinds = append(kinds, kind)
		}
		groupsOf[kind] = append(groupsOf[kind], group)
	}
	taken := map[string]bool{}
	for k, kind := range kinds {
		of := groupsOf[kind]
		for i := k % min(s.groups, len(of)); i < len(of); i += s.groups {
			taken[of[i]] = true
		}
	}
	return slices.DeleteFunc(groups, func(group string) bool { return !taken[group] })
}

// of returns the selected scripts by verb and first variant, and the groups' names. A group is played on one device, so
// that a verb finds what the one before left. The scripts of a group, or of a verb if some scripts are left out, take
// turns with the ways to play them, whatever their types.
func (s selection) of(all []script) (names []string, by map[string][]script) {
	names, by = s.named(all), map[string][]script{}
	count, turns := map[string]int{}, map[string]int{}
	inTurn := (*script).group
	if s.scripts > 1 {
		inTurn = (*script).verb
	}
	for _, sc := range all {
		g := sc.group()
		if !slices.Contains(names, g) {
			continue
		}
		if count[g]%s.scripts == 0 {
			sc.turn = turns[inTurn(&sc)]
			turns[inTurn(&sc)]++
			by[g] = append(by[g], sc)
		}
		count[g]++
	}
	for _, group := range by {
		for i := range group {
			group[i].turns = turns[inTurn(&group[i])]
		}
	}
	return names, by
}

// Family are devices, each opened by a function, that must agree to the byte: they differ in their number of threads,
// say.
type Family []func(t *testing.T) compute.Device

// Promise lists properties of a device beyond the definitions of the verbs.
type Promise struct {
	// Few is the most tokens of a step in which a feed-forward layer by neuron gives every token the bytes of the token
	// alone. Longer steps may use matrix products over the union of their sets. 0 means steps of any length, if the
	// token is of a prompt in both, or of a running sequence in both: see compute.Params.
	Few int
	// Halves says that in longer steps matrix products may also be computed in halves: quantised weights and all
	// activations are rounded to halves with the range of a token, and sums have another order than in steps of fewer
	// tokens.
	Halves bool
	// Bfloats says that prompts' products with quantised weights may be of operands rounded to bfloat16.
	Bfloats bool
	// Slow says that the device takes long, to compile shaders on a processor, say: more is left out than on others,
	// unless the test is exhaustive.
	Slow bool
	// Lacks lists prefixes of the names of groups with operations that the device does not have yet. It serves the time
	// between an operation's definition and its last device, and must not refuse any other script.
	Lacks []string
}

// Run is Promise.Run for the least that a device may promise.
func Run(t *testing.T, families ...Family) {
	t.Helper()
	Promise{Few: 8}.Run(t, families...)
}

// Run compares the first of each family with the scalar device, and the others with the first. It closes what it opens.
// It plays every fourth script of each group, in short tests every eighth, on slow devices every eighth of every fourth
// group of a kind, in quick tests fewer, and in exhaustive tests all.
func (p Promise) Run(t *testing.T, families ...Family) {
	t.Helper()
	s := selection{scripts: 4, groups: 1}
	switch {
	case testenv.Exhaustive(t):
		s.scripts = 1
	case testing.Short():
		s.scripts = 8
	case p.Slow && testenv.Quick(t):
		s = selection{scripts: 16, groups: 12, verbs: true}
	case testenv.Quick(t):
		s = selection{scripts: 12, groups: 4, verbs: true}
	case p.Slow:
		s = selection{scripts: 8, groups: 4}
	}
	p.run(t, s, families...)
}

func (p Promise) run(t *testing.T, s selection, families ...Family) {
	t.Helper()
	names, by := s.of(scripts())
	for _, name := range names {
		if slices.ContainsFunc(p.Lacks, func(lacking string) bool { return strings.HasPrefix(name, lacking) }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference := subject{ref.New(), map[string]any{}}
			devices := opened(t, families)
			for _, sc := range by[name] {
				sc.halves, sc.bfloats = p.Halves && sc.tokens > p.Few, p.Bfloats
				sc.kinds = sc.kinds || sc.bfloats
				if sc.rough || sc.halves {
					sc.few, sc.kinds = p.Few, true
				}
				if err := sc.verify(t, reference, devices); err != nil {
					t.Errorf("%s, seed %d: %v", sc.name, seed, err)
				}
			}
		})
	}
	t.Run("Refusals", func(t *testing.T) {
		t.Parallel()
		for _, family := range opened(t, families) {
			refusals(t, family[0])
		}
	})
}

// subject is a device with the state that scripts leave for later ones.
type subject struct {
	compute.Device
	prepared map[string]any
}

func opened(t *testing.T, families []Family) (all [][]subject) {
	t.Helper()
	for _, f := range families {
		var devices []subject
		for _, open := range f {
			dev := open(t)
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			devices = append(devices, subject{dev, map[string]any{}})
		}
		all = append(all, devices)
	}
	return all
}

// verify plays sc on the scalar device and, in all ways, on every family.
func (sc *script) verify(t testing.TB, reference subject, families [][]subject) error {
	t.Helper()
	m := &material{rng: numbers(sc.name)}
	want, err := sc.on(t, reference, m, &playing{step: everyone(sc.tokens)})
	if err != nil {
		return fmt.Errorf("the scalar device: %w", err)
	}
	bounds := boundsOf(want)
	var failed []error
	for _, family := range families {
		if err := sc.ways(t, family, m, want, bounds); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", family[0].Name(), err))
		}
	}
	return errors.Join(failed...)
}

// playing is the result of a script with some of its tokens.
type playing struct {
	step   []int32
	decode int // the first rows of the step that are single tokens of running sequences
	pinned bool
	kept   []output
}

// ways plays sc on a family in all ways: each must give what the scalar device gave, within bounds, and the same bytes
// as the others.
func (sc *script) ways(t testing.TB, family []subject, m *material, want []output, bounds [][][]float64) error {
	t.Helper()
	var before []playing
	on := func(dev subject, p playing) error {
		var err error
		if p.kept, err = sc.on(t, dev, m, &p); err != nil {
			return err
		}
		if err := sc.compare(p, want, bounds); err != nil {
			return err
		}
		for _, q := range before {
			if err := sc.sameBytes(p, q); err != nil {
				return err
			}
		}
		before = append(before, p)
		return nil
	}
	all := everyone(sc.tokens)
	if err := on(family[0], playing{step: all}); err != nil {
		return err
	}
	for _, twin := range family[1:] {
		if err := on(twin, playing{step: all}); err != nil {
			return fmt.Errorf("%s: %w", twin.Name(), err)
		}
	}
	for _, p := range sc.others() {
		if err := on(family[0], p); err != nil {
			return fmt.Errorf("%s: %w", p.describe(sc.tokens), err)
		}
	}
	return nil
}

// describe says how p differs from the step of all n tokens of a prompt.
func (p *playing) describe(n int) string {
	if p.pinned {
		return "with pinned weights"
	}
	return fmt.Sprintf("a step of tokens %v of %d, %d of them of running sequences", p.step, n, p.decode)
}

func everyone(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// leastPlayed is the least number of scripts, if there are that many, that are played in each of the ways that scripts
// take turns with.
const leastPlayed = 4

// inTurn returns those of all playings whose turn it is for sc.
func (sc *script) inTurn(all ...playing) (own []playing) {
	if sc.turns == 0 || len(all) == 0 {
		return all
	}
	n := min(len(all), (leastPlayed*len(all)+sc.turns-1)/sc.turns)
	for i := range n {
		own = append(own, all[(sc.turn*n+i)%len(all)])
	}
	return own
}

// others returns the further ways to play sc, besides all tokens as a prompt: pinned, and, if it makes a difference,
// with all tokens or some as tokens of running sequences. Steps with only some of the tokens are: one alone, two apart,
// the first nine, the longest that agrees with them, and, if it makes a difference, the last and the first twelve as
// tokens of running sequences. Scripts take turns with these ways, because on some devices long steps of all of them
// take minutes, and each length of a step compiles its own shaders.
func (sc *script) others() []playing {
	n := sc.tokens
	some := func(decode int, step ...int32) playing { return playing{step: step, decode: decode} }
	long := []playing{{step: everyone(n), pinned: true}}
	if sc.whole {
		return sc.inTurn(long...)
	}
	if sc.kinds {
		long = append(long, some(n, everyone(n)...))
	}
	if n == 1 {
		return long
	}
	last := int32(n - 1)
	prompts, running := []playing{some(0, last)}, []playing(nil)
	if n > 2 {
		prompts = append(prompts, some(0, 0, last))
	}
	if n > 9 {
		prompts = append(prompts, some(0, everyone(9)...))
	}
	if 9 < sc.few && sc.few < n {
		prompts = append(prompts, some(0, everyone(sc.few)...))
	}
	if sc.kinds {
		long = append(long, some(2, everyone(n)...))
		running = append(running, some(1, last))
		if n > 12 {
			running = append(running, some(12, everyone(12)...))
		}
	}
	ways := slices.Concat(sc.inTurn(long...), sc.inTurn(prompts...), sc.inTurn(running...))
	for i := range last {
		if sc.each {
			ways = append(ways, some(0, i))
		}
	}
	return ways
}

// on plays sc on dev with p's tokens.
func (sc *script) on(t testing.TB, dev subject, m *material, p *playing) ([]output, error) {
	t.Helper()
	m.rewind()
	s := &stage{t: t, dev: dev, material: m, name: sc.name, all: sc.tokens, few: sc.few, halves: sc.halves, bfloats: sc.bfloats, step: p.step, decode: p.decode, pinned: p.pinned}
	sc.play(s)
	return s.kept, s.untouched()
}

// numbers are random, and the same for the same name.
func numbers(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// boundsOf are by how much others may differ from what the scalar device gave. [output][row][column]
func boundsOf(want []output) [][][]float64 {
	all := make([][][]float64, len(want))
	for i, w := range want {
		for r, row := range w.rows {
			bounds := make([]float64, len(row))
			w.bound(bounds, row, r)
			all[i] = append(all[i], bounds)
		}
	}
	return all
}

// rowOf returns the row of the script's whole step that row r of w, as p gave it, belongs to.
func (sc *script) rowOf(p playing, w output, r int) int {
	if sc.whole || w.total {
		return r
	}
	return int(p.step[r])
}

// compare compares p with the whole step's outputs want, within bounds.
func (sc *script) compare(p playing, want []output, bounds [][][]float64) error {
	for i, w := range want {
		if w.total && len(p.step) < sc.tokens {
			continue
		}
		rows := len(p.step)
		if sc.whole || w.total {
			rows = len(w.rows)
		}
		if len(p.kept[i].rows) != rows {
			return fmt.Errorf("%s has %d rows, want %d", w.label, len(p.kept[i].rows), rows)
		}
		for r, row := range p.kept[i].rows {
			from := sc.rowOf(p, w, r)
			for c, g := range row {
				v := w.rows[from][c]
				if e := math.Abs(float64(g) - float64(v)); !(e <= bounds[i][from][c]) {
					return fmt.Errorf("%s row %d column %d of %d×%d is %g, want %g within %.3g", w.label, from, c, len(w.rows), len(row), g, v, bounds[i][from][c])
				}
			}
		}
	}
	return nil
}

// alike reports whether p and q must have the same bytes for the tokens that they share.
func (sc *script) alike(p, q playing) bool {
	if sc.pinnedApart && p.pinned != q.pinned {
		return false
	}
	return sc.few == 0 || len(p.step) <= sc.few && len(q.step) <= sc.few || len(p.step) == len(q.step) && p.decode == q.decode
}

// shared is a row of a playing and the kind of its token.
type shared struct {
	row    []float32
	decode bool
}

// sameBytes compares p with q where they must agree.
func (sc *script) sameBytes(p, q playing) error {
	if !sc.alike(p, q) {
		return nil
	}
	for i, was := range q.kept {
		if was.total && len(p.step) != len(q.step) {
			continue
		}
		rows := map[int]shared{}
		for r, row := range was.rows {
			rows[sc.rowOf(q, was, r)] = shared{row, r < q.decode}
		}
		for r, row := range p.kept[i].rows {
			from := sc.rowOf(p, was, r)
			old, both := rows[from]
			if !both || sc.few == 0 && sc.kinds && !was.total && old.decode != (r < p.decode) {
				continue
			}
			for c, v := range row {
				if w := old.row[c]; math.Float32bits(v) != math.Float32bits(w) {
					return fmt.Errorf("%s row %d column %d is %g (%#x), and was %g (%#x)", was.label, from, c, v, math.Float32bits(v), w, math.Float32bits(w))
				}
			}
		}
	}
	return nil
}
