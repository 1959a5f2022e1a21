package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// texts holds the texts that a run reads.
type texts struct {
	calibration, heldOut []document
	generate             int // tokens that the model generates for calibration; 0: calibration was given
}

// calibrationTokens returns their number, also before they exist.
func (t *texts) calibrationTokens() int { return max(t.generate, countTokens(t.calibration)) }

func (t *texts) calibrated() prepared.Text { return identify(t.calibration) }
func (t *texts) held() prepared.Text       { return identify(t.heldOut) }

func identify(docs []document) prepared.Text {
	if len(docs) == 0 {
		return prepared.Text{}
	}
	return prepared.Text{SHA256: hashOf(docs), Tokens: uint64(countTokens(docs))}
}

// leastHeldOut returns what measuring needs: two windows.
func leastHeldOut(c model.Config) int { return 2 * min(windowTokens, c.Context) }

// readTexts reads, encodes and divides the text that was given.
func (r *run) readTexts() error {
	tok, err := model.Tokenizer(r.f)
	if err != nil {
		return err
	}
	if tok.Size() > r.c.Vocab {
		return fmt.Errorf("%s: the tokenizer has %d tokens but the embedding %d rows", r.f.Path, tok.Size(), r.c.Vocab)
	}
	t := &r.texts
	if r.o.Measure && !r.o.profileOnly {
		r.o.EvalFiles = append(r.o.EvalFiles, r.o.Files...)
	} else if len(r.o.Files) == 0 {
		t.generate = r.o.Tokens
		if len(tok.Encode(seeds()[0], false, false)) == 0 {
			return errNoSeed
		}
	} else if err := r.readCalibration(tok); err != nil {
		return err
	}
	if r.o.profileOnly && r.o.Measure { // counting chooses nothing that could fit this text better than others
		docs, _, err := readDocuments(r.o.Files)
		if err != nil {
			return err
		}
		byHash(docs)
		if n := encode(tok, docs); n < leastHeldOut(r.c) {
			return fmt.Errorf("the text has %d tokens, and at least %d are needed to measure on; give more with -f", n, leastHeldOut(r.c))
		}
		t.heldOut, _ = holdOut(docs, heldOutTokens, math.MaxInt)
		return nil
	}
	if len(r.o.EvalFiles) == 0 || r.o.profileOnly {
		return nil
	}
	docs, _, err := readDocuments(r.o.EvalFiles)
	if err != nil {
		return err
	}
	unseen := withoutShared(docs, t.calibration)
	if n := len(docs) - len(unseen); n > 0 {
		r.o.note("%d of %d documents of the evaluation text are in the calibration text too; they are left out", n, len(docs))
	}
	byHash(unseen)
	if n := encode(tok, unseen); n < leastHeldOut(r.c) {
		return fmt.Errorf("the evaluation text has %d tokens that calibration has not, and at least %d are needed; give more with --eval-file", n, leastHeldOut(r.c))
	}
	t.heldOut, _ = holdOut(unseen, heldOutTokens, math.MaxInt)
	return nil
}

// readCalibration reads the calibration text, and holds documents out unless another text is for that.
func (r *run) readCalibration(tok *tokenizer.Tokenizer) error {
	docs, cut, err := readDocuments(r.o.Files)
	if err != nil {
		return err
	}
	if cut && r.c.Experts.Count == 0 {
		r.o.note("large documents are cut into parts, %d in all, which are held out each by itself; mark documents by lines of <|endoftext|>", len(docs))
	}
	t := &r.texts
	least, wanted := leastHeldOut(r.c), heldOutTokens
	if len(r.o.EvalFiles) > 0 || r.o.profileOnly {
		least, wanted = 0, 0
	}
	if r.c.Experts.Count > 0 {
		byHash(docs)
		encode(tok, docs)
		t.calibration, _ = take(takingTurns(docs), r.o.Tokens)
	} else {
		t.calibration, t.heldOut = divide(tok, docs, least, wanted, r.o.Tokens)
	}
	if n := countTokens(t.calibration); n < r.leastTokens() {
		return fmt.Errorf("%d tokens of calibration text are left after holding %d out, and at least %d are needed; give more text with -f, or none for text that the model generates",
			n, countTokens(t.heldOut), r.leastTokens())
	}
	return nil
}

// observer profiles a model and loads it when it is first needed, which may be never in a resumed run.
type observer struct {
	*run
	p   counter
	e   *runner
	tok *tokenizer.Tokenizer
}

func (r *run) observer(p counter) (*observer, error) {
	tok, err := model.Tokenizer(r.f)
	return &observer{run: r, p: p, tok: tok}, err
}

func (v *observer) close() {
	if v.e != nil {
		v.e.Close()
	}
}

func (v *observer) runner(ctx context.Context) (*runner, error) {
	if v.e != nil {
		return v.e, nil
	}
	var err error
	v.e, err = newRunner(ctx, v.f, v.o, v.p, v.id.Mapped)
	return v.e, err
}

// observe generates the calibration text if none was given, and profiles.
func (r *run) observe(ctx context.Context) error {
	if r.c.Experts.Count > 0 {
		return r.observeExperts(ctx)
	}
	p, err := newProfiler(r.f, r.c, r.o.Threads)
	if err != nil {
		return err
	}
	v, err := r.observer(p)
	if err != nil {
		return err
	}
	defer v.close()
	plan, err := v.plan(ctx, p)
	if err != nil {
		return err
	}
	if err := v.generate(ctx); err != nil {
		return err
	}
	steps := v.steps()
	for to, s := range steps {
		p.plan[to] = sampling{want: plan.want[to]}
		for _, ws := range s {
			p.plan[to].total += tokensOf(ws)
		}
	}
	if r.sampled() {
		p.traces = &traces{left: plan.budget}
	}
	if err := v.profile(ctx, steps); err != nil {
		return err
	}
	r.stats, err = p.stats()
	return err
}

// generate makes the model generate the calibration text if none was given.
func (v *observer) generate(ctx context.Context) error {
	t := &v.texts
	if t.generate == 0 {
		return nil
	}
	v.p.pause(true)
	defer v.p.pause(false)
	g := &generator{load: v.loader(ctx), tok: v.tok, seed: v.o.Seed}
	var err error
	t.calibration, err = g.generate(ctx, v.w, t.generate, v.o.bytes(StageGenerate))
	return err
}

func (v *observer) loader(ctx context.Context) func() (*runner, error) {
	return func() (*runner, error) { return v.runner(ctx) }
}

// steps cuts both texts into steps of the model.
func (v *observer) steps() (steps [roles][][]window) {
	bos := int32(-1)
	if v.tok.AddsBOS() {
		bos = v.tok.BOS()
	}
	for to, docs := range [roles][]document{v.texts.calibration, v.texts.heldOut} {
		steps[to] = packs(windows(docs, min(windowTokens, v.c.Context), bos))
	}
	return steps
}

func (v *observer) profile(ctx context.Context, steps [roles][][]window) error {
	return profile(ctx, v.p, v.loader(ctx), v.w, steps, v.o.bytes(StageProfile))
}

// sampled reports whether there will be predictors to train.
func (r *run) sampled() bool { return !r.o.profileOnly && !r.o.NoPredictors }

// leastTokens returns how much calibration text is needed.
func (r *run) leastTokens() int {
	if r.sampled() {
		return LeastTokens
	}
	return LeastCounted
}

// samplingPlan says how much is sampled of either text.
type samplingPlan struct {
	want   [roles]int
	budget [roles]int64 // bytes
}

// heldShare is the part of the trace budget that the text held out gets.
const heldShare = 8

// traceSlack is the factor by which traces may exceed their expected size before they are cut short.
const traceSlack = 1.25

// plan decides how much is sampled, from the model's sparsity in a first step, and reports the estimate. A resumed run
// keeps its plan.
func (r *observer) plan(ctx context.Context, p *profiler) (samplingPlan, error) {
	plan := samplingPlan{budget: [roles]int64{calibrating: r.o.TraceBudget - r.o.TraceBudget/heldShare, holdingOut: r.o.TraceBudget / heldShare}}
	b, ok, err := r.w.read(filePlan)
	if err != nil {
		return plan, err
	}
	if ok {
		if json.Unmarshal(b, &plan.want) != nil {
			return plan, r.w.damaged(filePlan)
		}
		return plan, nil
	}
	e, err := r.runner(ctx)
	if err != nil {
		return plan, err
	}
	bytes, err := r.sampleBytes(e, p)
	if err != nil {
		return plan, err
	}
	fit := func(to role, most, tokens int) int {
		return int(min(float64(most), float64(tokens), float64(plan.budget[to])/(bytes*traceSlack)))
	}
	plan.want[calibrating] = fit(calibrating, maxSamples, r.texts.calibrationTokens())
	plan.want[holdingOut] = fit(holdingOut, maxHeldSamples, countTokens(r.texts.heldOut))
	if n := plan.want[calibrating]; n < leastSamples && r.sampled() {
		return plan, fmt.Errorf("a trace budget of %d MiB holds %d samples of this model, and at least %d are needed; raise --trace-budget to %.0f MiB",
			r.o.TraceBudget>>20, n, leastSamples, bytes*traceSlack*leastSamples/(1<<20)*heldShare/(heldShare-1)+1)
	}
	if err := r.checkSpace(bytes * traceSlack * float64(plan.want[calibrating]+plan.want[holdingOut])); err != nil {
		return plan, err
	}
	if r.o.Estimate != nil {
		est, err := r.estimate(e, plan.want[calibrating])
		if err != nil {
			return plan, err
		}
		r.o.Estimate(est)
	}
	b, err = json.Marshal(plan.want)
	if err != nil {
		return plan, err
	}
	return plan, r.w.write(filePlan, b)
}

// sampleBytes returns the bytes of one token in all layers' traces, from the share of active neurons in a step of the
// seeds.
func (r *observer) sampleBytes(e *runner, p *profiler) (float64, error) {
	var ws []window
	tokens := 0
	for _, s := range seeds()[:maxSequences] {
		ids := r.tok.Encode(s, true, false)
		if n := min(len(ids), stepTokens/maxSequences); n > 0 {
			ws = append(ws, window{tokens: ids[:n]})
			tokens += n
		}
	}
	if len(ws) == 0 {
		return 0, errNoSeed
	}
	if err := p.step(e, calibrating, ws); err != nil {
		return 0, err
	}
	active := 0
	for _, counts := range p.counts {
		for _, n := range counts {
			active += int(n)
		}
	}
	p.reset()
	return float64(r.c.Layers)*float64(recordBytes(r.c.Embd, 0)) + 4*float64(active)/float64(tokens), nil
}
