package server

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Kwargs are variables of a chat template.
type Kwargs = map[string]json.RawMessage

// Bounds of lists in a request. Every token pays for each element.
const (
	maxStops    = 64   // texts that end a generation
	maxStop     = 4096 // bytes of one
	maxBreakers = 1024 // texts that end a repetition, each of at most maxStop bytes
	maxTriggers = 1024 // tokens and words at which a grammar begins, each word of at most maxStop bytes
)

// maxLimit bounds the time of a generation, in ms.
const maxLimit = 1 << 40

// ReadGeneration reads the fields that all ways to ask for a text share.
func (m *Model) ReadGeneration(f *Fields) Generation {
	g := Generation{Sampling: m.Sampling, ctx: f.ctx, client: f.client}
	g.Max, g.Text, g.Reuse, g.Context = m.Predict, true, engine.ReuseAny, m.Context()
	for _, name := range []string{"n_predict", "max_tokens", "max_completion_tokens"} {
		if f.Read(name, &g.Max) && (g.Max < -1 || g.Max > math.MaxInt32) {
			f.Fail(Invalid("the field %s is not a number of tokens, or -1 for no limit", name))
		}
	}
	g.StopStrings = ReadStops(f, "stop")
	cache := !m.NoReuse
	if f.Read("cache_prompt", &cache); !cache {
		g.Reuse = engine.ReuseNone
	}
	f.Read("return_progress", &g.ReportProgress)
	m.readSampling(f, &g.Sampling)
	if f.Read("ignore_eos", &g.IgnoreEOG); g.IgnoreEOG {
		biases := map[int32]float32{}
		maps.Copy(biases, g.Sampling.LogitBias)
		for _, id := range m.ends {
			biases[id] = float32(math.Inf(-1))
		}
		g.Sampling.LogitBias = biases
	}
	m.readLimits(f, &g)
	readDrafts(f, &g)
	f.Read("timings_per_token", &g.ReportTimings)
	f.Read("post_sampling_probs", &g.Chances)
	Unused[string](f, "model", "user")
	readUnusedNumber(f, "sse_ping_interval", -1)
	readUnusedNumber(f, "n_cache_reuse", 0) // beginnings of prompts are always found
	if g.Scales = m.ReadScales(f, "lora", nil); len(g.Scales) == 0 {
		g.Scales = nil // there is none to scale
	}
	return g
}

// readUnusedNumber takes a number that changes nothing here.
func readUnusedNumber(f *Fields, name string, least int) {
	n := least
	if f.Read(name, &n); n < least || n > math.MaxInt32 {
		f.Fail(Invalid("the field %s is not a number from %d to %d", name, least, math.MaxInt32))
	}
}

// readLimits reads where texts end early or shift, and the requested slot.
func (m *Model) readLimits(f *Fields, g *Generation) {
	ms, slot, keep, discard := 0, AnySlot, m.Keep, 0
	f.Read("t_max_predict_ms", &ms)
	f.Read("n_indent", &g.Limits.Indent)
	f.Read("id_slot", &slot)
	f.Read("n_keep", &keep)
	f.Read("n_discard", &discard)
	g.Limits.Time = time.Duration(min(ms, maxLimit)) * time.Millisecond
	switch {
	case g.Limits.Indent < 0 || g.Limits.Indent > maxStop:
		f.Fail(Invalid("the field n_indent is not a number from 0 to %d", maxStop))
	case ms < -1:
		f.Fail(Invalid("the field t_max_predict_ms is neither a time in ms nor -1 for no limit"))
	case slot < -1 || slot >= m.Slots:
		f.Fail(Invalid("the field id_slot is not -1 or the number of one of the %d slots", m.Slots))
	case discard < 0:
		f.Fail(Invalid("the field n_discard is not a number of tokens"))
	}
	g.Slot = slot
	if keep < 0 {
		keep = math.MaxInt32 // the whole prompt
	}
	if m.Shift {
		g.Shift = &engine.Shift{Keep: keep, Discard: discard}
	}
}

// readDrafts reads the settings of drafting. The server's options are the defaults.
func readDrafts(f *Fields, g *Generation) {
	most, least := 0, float32(0)
	if f.Read("speculative.n_max", &most) {
		if g.Drafts = most; most == 0 {
			g.Drafts = -1
		}
	}
	f.Read("speculative.n_min", &g.FewestDrafts)
	if f.Read("speculative.p_min", &least) {
		g.LeastDraft = &least
	}
	switch {
	case most < 0 || most > math.MaxInt32:
		f.Fail(Invalid("the field speculative.n_max is not a number from 0 to %d", math.MaxInt32))
	case g.FewestDrafts < 0 || g.FewestDrafts > math.MaxInt32:
		f.Fail(Invalid("the field speculative.n_min is not a number from 0 to %d", math.MaxInt32))
	case least < 0 || least > 1:
		f.Fail(Invalid("the field speculative.p_min is not a number from 0 to 1"))
	}
}

// ReadStops reads a field of texts that end a generation: one or a list.
func ReadStops(f *Fields, name string) []string {
	var stops []string
	raw := f.Raw(name)
	var one string
	switch {
	case raw == nil:
	case json.Unmarshal(raw, &one) == nil:
		stops = []string{one}
	case json.Unmarshal(raw, &stops) != nil || hasNull(raw):
		f.Fail(Invalid("the field %s is not a text or a list of texts", name))
	}
	stops = slices.DeleteFunc(stops, func(s string) bool { return s == "" })
	if len(stops) > maxStops || slices.ContainsFunc(stops, longText) {
		f.Fail(Invalid("the field %s has more than %d texts, or one longer than %d bytes", name, maxStops, maxStop))
	}
	return stops
}

func longText(s string) bool { return len(s) > maxStop }

// readSampling reads the fields that choose how tokens are drawn.
func (m *Model) readSampling(f *Fields, o *sample.Options) {
	for _, n := range sample.Numbers() {
		f.Read(n.JSON, n.Of(o))
		if v := n.Get(o); n.Context && (v == -1 || v > float64(m.Context())) {
			n.Set(o, -1, m.Context())
		}
	}
	var seed int64
	if f.Read("seed", &seed) {
		if o.Seed = uint64(seed); seed < 0 {
			o.Seed = sample.RandomSeed
		}
	}
	if raw := f.Raw("samplers"); raw != nil {
		var err error
		if o.Samplers, err = sample.ReadSamplers(raw); err != nil {
			f.Fail(Invalid("the field samplers cannot be read: %s", err))
		}
	}
	m.readBias(f, o)
	var texts []string
	if f.Read("dry_sequence_breakers", &texts) {
		o.DRY.Breakers = texts
	}
	if len(texts) > maxBreakers || slices.ContainsFunc(texts, longText) {
		f.Fail(Invalid("the field dry_sequence_breakers has more than %d texts, or one longer than %d bytes", maxBreakers, maxStop))
	}
}

// readBias adds the field logit_bias to the biases that the server was started with.
func (m *Model) readBias(f *Fields, o *sample.Options) {
	raw := f.Raw("logit_bias")
	if raw == nil {
		return
	}
	biases := map[int32]float32{}
	maps.Copy(biases, o.LogitBias)
	err := sample.AddBiases(biases, raw, func(text string) []int32 { return m.Engine.Tokenizer().Encode(text, false, true) })
	if err != nil {
		f.Fail(Invalid("the field logit_bias cannot be read: %s", err))
	}
	o.LogitBias = biases
}

// ReadConstraint reads the fields grammar and json_schema, and where the grammar begins.
func (m *Model) ReadConstraint(f *Fields, g *Generation) {
	var text string
	schema := f.Raw("json_schema")
	triggers := readTriggers(f)
	if f.Read("grammar", &text); text == "" && schema == nil {
		return
	}
	if text != "" && schema != nil {
		f.Fail(Invalid("the fields grammar and json_schema each name a grammar; give one"))
		return
	}
	h, err := m.hold(g, grammar.Text{GBNF: text, Schema: schema, Loose: true})
	if err != nil {
		f.Fail(Unusable(err, "the grammar or the JSON Schema cannot be used"))
		return
	}
	if triggers != nil { // which may be in thoughts, too
		g.Form, g.Constrain = grammar.Text{}, func() sample.Constraint { return h.compiled.NewLazyState(g.context(), *triggers) }
	}
}

// Types of what a lazy grammar begins at, by llama.cpp's numbers. The others are regular expressions.
const (
	triggerToken = 0
	triggerWord  = 1
)

// readTriggers returns the triggers of a lazy grammar, or nil.
func readTriggers(f *Fields) *grammar.Triggers {
	var lazy bool
	var all []struct {
		Type  int
		Value string
		Token int32
	}
	f.Read("grammar_lazy", &lazy)
	f.Read("grammar_triggers", &all)
	Unused[[]any](f, "preserved_tokens") // special tokens are always told apart
	if !lazy {
		return nil
	}
	if len(all) > maxTriggers {
		f.Fail(Invalid("the field grammar_triggers has %d elements, more than %d", len(all), maxTriggers))
		return nil
	}
	t := &grammar.Triggers{}
	for i, one := range all {
		switch {
		case len(one.Value) > maxStop:
			f.Fail(Invalid("grammar_triggers.%d has %d bytes, more than %d", i, len(one.Value), maxStop))
		case one.Type == triggerToken:
			t.Tokens = append(t.Tokens, one.Token)
		case one.Type == triggerWord && one.Value != "":
			t.Words = append(t.Words, one.Value)
		default:
			f.Fail(Invalid("grammar_triggers.%d is neither a token (type 0) nor a word (type 1); patterns are not supported", i))
		}
	}
	if len(all) == 0 {
		f.Fail(Invalid("the field grammar_lazy is true, and grammar_triggers does not say where the grammar begins"))
	}
	return t
}

// HoldSchema restricts g to JSON that is valid by a schema. What the schema says and is not supported constrains
// nothing, and is named in the log, or an error where the schema is strict.
func (m *Model) HoldSchema(g *Generation, schema json.RawMessage, strict bool) error {
	_, err := m.hold(g, grammar.Text{Schema: schema, Loose: !strict})
	return err
}

// hold restricts g to texts of a form, from their beginning.
func (m *Model) hold(g *Generation, form grammar.Text) (*held, error) {
	g.Form = form
	h, err := m.grammar(g, key("text", form), func(ctx context.Context) (*held, error) {
		parsed, loose, err := form.Read(ctx)
		if err != nil {
			return nil, err
		}
		for _, reason := range loose {
			m.Log.Warn("an answer is not held to a part of its JSON Schema", "reason", reason)
		}
		compiled, err := m.compile(parsed)
		return &held{compiled: compiled}, err
	})
	if err == nil {
		g.Constrain = func() sample.Constraint { return h.compiled.NewState(g.context()) }
	}
	return h, err
}

// compile joins a grammar with the model's vocabulary.
func (m *Model) compile(g *grammar.Grammar) (*grammar.Compiled, error) {
	v, err := m.vocabulary()
	if err != nil {
		return nil, err
	}
	return g.Compile(v)
}
