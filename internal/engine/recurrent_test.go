package engine_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// openRecurrent opens a model with a layer of each kind; the first is recurrent.
func openRecurrent(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	return openRecurrentOf(t, "nemotron_h", o)
}

// openRecurrentOf is openRecurrent for a family.
func openRecurrentOf(t *testing.T, arch string, o engine.Options) *engine.Engine {
	t.Helper()
	f := synthtest.File(t, synth.Spec{Arch: arch, Type: quant.F32, Layers: 3, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5})
	o.Devices, o.Context, o.UBatch = planner.CPU(planner.Processor{Threads: 1}), 2048, 128
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// fromScratch is greedy without the cache.
func fromScratch(t *testing.T, e *engine.Engine, prompt []int32, n int) (out []int32) {
	t.Helper()
	o := sample.DefaultOptions()
	o.Temperature = 0
	s, err := sample.New(o, e.Config().Vocab)
	if err == nil {
		_, err = e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: n, Sampler: s, Reuse: engine.ReuseNone}, func(tok engine.Token) bool {
			out = append(out, tok.ID)
			return true
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func randomTokens(rng *rand.Rand, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = 3 + rng.Int32N(500)
	}
	return list
}

// TestCheckpoints: in a recurrent model, a turn of a conversation, another answer, an edited question and a text that
// differs from some point on evaluate only what comes after the last checkpoint that they share. They give the text
// that they give from scratch.
func TestCheckpoints(t *testing.T) {
	for _, arch := range testenv.Few(t, 2, []string{"nemotron_h", "qwen35", "mamba2", "falcon-h1", "lfm2", "qwen4exp", "mamba", "jamba", "rwkv7"}) { // a state space, a gated delta net, no attention at all, attention parallel to a state space, short convolutions
		t.Run(arch, func(t *testing.T) { checkpoints(t, arch) })
	}
}

func checkpoints(t *testing.T, arch string) {
	const tail = compute.FewTokens // tokens of a prompt after its checkpoint
	rng := rand.New(rand.NewPCG(8, 0))
	e, fresh := openRecurrentOf(t, arch, engine.Options{}), openRecurrentOf(t, arch, engine.Options{})
	const most = 30 // tokens of an answer
	// turn continues a prompt and checks that all its positions except the first known ones are evaluated. It returns
	// the text and how many of its positions were evaluated: if the answer did not end by itself, all but the last
	// token.
	turn := func(what string, prompt []int32, known int) (text []int32, evaluated int) {
		t.Helper()
		got, result := greedy(t, e, prompt, most)
		evaluated = len(prompt) - known
		if result.PromptTokens != evaluated || result.Reused != len(prompt)-evaluated {
			t.Errorf("%s: %d tokens were evaluated and %d reused, want %d and %d", what, result.PromptTokens, result.Reused, evaluated, len(prompt)-evaluated)
		}
		if want := fromScratch(t, fresh, prompt, most); !slices.Equal(got, want) {
			t.Errorf("%s goes on with %v, from scratch with %v", what, got, want)
		}
		text = slices.Concat(prompt, got)
		if len(got) == most {
			return text, len(text) - 1
		}
		return text, len(text)
	}
	question, second := randomTokens(rng, 200), randomTokens(rng, 60)
	first, known := turn("a question", question, 0)
	turn("another answer", question, len(question)-tail)
	next := slices.Concat(first, second)
	all, further := turn("the next turn", next, known)
	turn("the next turn, edited near its end", slices.Concat(next[:len(next)-3], randomTokens(rng, 9)), len(next)-tail)
	turn("the next turn, edited", slices.Concat(first, randomTokens(rng, 50)), known)
	turn("a third turn", slices.Concat(all, randomTokens(rng, 20)), further)
	turn("the first question, edited", slices.Concat(question[:190], randomTokens(rng, 30)), 0)

	long := randomTokens(rng, 1500)
	turn("a long text", long, 0)
	turn("a long text that goes on differently", slices.Concat(long[:1100], randomTokens(rng, 10)), 1024)
}

// TestRecurrentCompany: concurrent requests of a recurrent model give the same text as each alone, also if there are
// more requests than rows of logits.
func TestRecurrentCompany(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	e, alone := openRecurrent(t, engine.Options{Limits: engine.Limits{Sequences: 3}}), openRecurrent(t, engine.Options{})
	var prompts [][]int32
	shared := randomTokens(rng, 90)
	for i := range 6 {
		prompts = append(prompts, slices.Concat(shared[:90*(i%2)], randomTokens(rng, 10+25*i)))
	}
	got := make([][]int32, len(prompts))
	var group sync.WaitGroup
	for i, p := range prompts {
		group.Go(func() { got[i], _ = greedy(t, e, p, 40) })
	}
	group.Wait()
	for i, p := range prompts {
		if want := fromScratch(t, alone, p, 40); !slices.Equal(got[i], want) {
			t.Errorf("request %d says %v, alone %v", i, got[i], want)
		}
	}
}

// TestSavedState: a file of keys and values has the recurrent layers' states, and the text continues from it.
func TestSavedState(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 0))
	first := openRecurrent(t, engine.Options{})
	prompt := randomTokens(rng, 150)
	out, _ := greedy(t, first, prompt, 20)
	text := slices.Concat(prompt, out)
	var file bytes.Buffer
	s, err := first.Save(t.Context(), &file, text)
	if err != nil || len(s.Tokens) != len(text)-1 || s.Bytes != int64(file.Len()) {
		t.Fatalf("%d of %d tokens were saved in %d of %d bytes: %v", len(s.Tokens), len(text), s.Bytes, file.Len(), err)
	}
	second := openRecurrent(t, engine.Options{})
	restore(t, second, file.Bytes())
	want, _ := greedy(t, first, text, 20)
	got, res := greedy(t, second, text, 20)
	if res.PromptTokens != 1 || !slices.Equal(got, want) {
		t.Errorf("after %d evaluated tokens the text goes on with %v, without restoring with %v", res.PromptTokens, got, want)
	}
}

// TestRecurrentDrafts: in recurrent models every token's logits have the same bytes with and without guesses, some
// right and some wrong. The same holds for the continuation of such a text.
func TestRecurrentDrafts(t *testing.T) {
	for _, arch := range testenv.Few(t, 2, []string{"nemotron_h", "qwen35", "mamba2", "falcon-h1", "qwen4exp", "mamba", "rwkv7"}) {
		t.Run(arch, func(t *testing.T) {
			guessedRecurrent(t, openRecurrentOf(t, arch, engine.Options{}), openRecurrentOf(t, arch, engine.Options{Drafts: engine.Drafts{Most: 6}}), 40)
		})
	}
}

// TestRecurrentDraftsOnGPU is TestRecurrentDrafts where a GPU has the states.
func TestRecurrentDraftsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.File(t, synth.Spec{Arch: "qwen35", Type: quant.F32, Layers: 3, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5})
	on := func(drafts int) *engine.Engine {
		return openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 192, UBatch: 32}, Drafts: engine.Drafts{Most: drafts}}, gigabyte(share(3, 128))).Engine
	}
	guessedRecurrent(t, on(0), on(3), 8)
}

// guessedRecurrent checks that two engines of a model give the same logits for a text of this many tokens with
// repetitions and changes. One of the engines guesses.
func guessedRecurrent(t *testing.T, plain, guessing *engine.Engine, tokens int) {
	t.Helper()
	engine.SetTimes(guessing, cheapGuesses)
	rng := rand.New(rand.NewPCG(9, 0))
	line := randomTokens(rng, tokens)
	edited := slices.Clone(line)
	edited[tokens/2], edited[tokens-tokens/6] = 1, 2 // where the text goes on otherwise than before
	prompt, text := slices.Concat(line, line), slices.Concat(line, edited, line[:tokens-tokens/4], edited)
	dictate := func(e *engine.Engine) ([]uint64, engine.Result) {
		d := &dictation{text: text, prompt: len(prompt)}
		res, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: len(text), Sampler: d, IgnoreEOG: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d.sums, res
	}
	accepted, drafted := 0, 0
	for turn := range 2 { // the second continues the first
		want, _ := dictate(plain)
		got, res := dictate(guessing)
		if !slices.Equal(got, want) {
			t.Errorf("turn %d: logits with guesses are not those without", turn)
		}
		accepted, drafted = accepted+res.Accepted, drafted+res.Drafted
		prompt = slices.Concat(prompt, text, randomTokens(rng, tokens/3))
	}
	if accepted == 0 || accepted == drafted {
		t.Errorf("%d of %d guesses came, too many or too few to tell", accepted, drafted)
	}
}
