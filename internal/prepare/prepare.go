// Package prepare turns a ReLU-family model into a prepared file: it counts which neurons are active, sorts them
// hottest first, trains a predictor for each layer, writes the file and measures what prediction costs.
//
// Intermediate results are in a work folder, so a run that was killed at any moment can be resumed. Its result has the
// same bytes as that of an uninterrupted run, and does not depend on the number of threads.
package prepare

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Options are the choices of a run. Zero values mean the defaults that their comments name.
type Options struct {
	Out       string   // the file to write
	Files     []string // calibration text; none: the model generates it
	EvalFiles []string // held-out text; none: documents of Files are held out
	Tokens    int      // of calibration, at most; DefaultTokens, or DefaultGenerated
	Work      string   // folder; Out + ".work"
	KeepWork  bool     // when all went well
	Resume    bool     // go on with the work folder's run

	TraceBudget     int64      // bytes of samples on disk; DefaultTraceBudget
	Recall          float64    // target of activation mass; 0.99
	Accuracy        float64    // target share of right decisions; 0.95
	PredictorType   quant.Type // of fc1 and fc2, with SetType; else the model's own, or Q8_0 if predictors cannot have that
	SetType         bool
	NoPredictors    bool        // order only: every layer runs exact
	Thresholds      bool        // find thresholds of magnitude, for mode threshold, instead of preparing
	Measure         bool        // the model is a prepared file, or one with experts, and only its curve is measured again
	Bound           model.Bound // that thresholds of magnitude are to keep; unset: model.UsualMaxKLD
	Original        bool        // write what the original PowerInfer loads
	Neurons         bool        // also write the file of neurons, for models larger than memory
	AllowRequantize bool        // of a quantised model's down projections
	Activation      string      // overrides the file's
	Seed            uint64
	Threads         int // all physical cores

	Estimate func([]Estimate)                     // called before the work starts; may be nil
	Progress func(s Stage, done, total int64)     // may be nil; bytes, tokens or parts
	Note     func(format string, args ...any)     // gets one line for the user; may be nil
	Layer    func(layer int, round int, y *Layer) // called when a layer is trained; may be nil

	profileOnly bool
	magnitudes  []float32 // [layers] below which activations count as zero; nil: only zeros do
	divergence  float64   // above which training repeats; model.AutoDivergence
	steps       int       // most thresholds of predictors measured each way; mostSteps
}

// Defaults and bounds.
const (
	DefaultTokens      = 64 << 10
	DefaultGenerated   = 32 << 10
	DefaultTraceBudget = 8 << 30
	LeastTokens        = 8 << 10 // of calibration text
	LeastCounted       = 1 << 10 // of it if nothing is trained

	heldOutTokens  = 16 << 10 // wanted
	maxSamples     = 32 << 10 // to learn from
	leastSamples   = 1 << 10
	maxHeldSamples = 4 << 10 // to judge by
	maxRounds      = 3       // of training
	maxDivergence  = model.AutoDivergence
)

// resultOptions are the options that a result depends on.
type resultOptions struct {
	Tokens           int
	TraceBudget      int64
	Recall, Accuracy float64
	PredictorType    quant.Type
	NoPredictors     bool
	Thresholds       bool    `json:",omitempty"`
	Measure          bool    `json:",omitempty"`
	MaxKLD           float64 `json:",omitempty"`
	MinSameTop       float64 `json:",omitempty"`
	ProfileOnly      bool
	Activation       string
	Seed             uint64
}

func (o *Options) result() resultOptions {
	return resultOptions{
		o.Tokens, o.TraceBudget, o.Recall, o.Accuracy, o.PredictorType, o.NoPredictors, o.Thresholds, o.Measure, o.Bound.KLD, o.Bound.SameTop, o.profileOnly, o.Activation, o.Seed,
	}
}

func (o *Options) progress(s Stage, done, total int64) {
	if o.Progress != nil {
		o.Progress(s, done, total)
	}
}

func (o *Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(format, args...)
	}
}

// bytes is progress of one stage.
func (o *Options) bytes(s Stage) func(done, total int64) {
	return func(done, total int64) { o.progress(s, done, total) }
}

// Report describes what a run did.
type Report struct {
	Layers      []Layer
	Stats       *neuron.Stats   // in the model's own order; nil for a model with experts
	Experts     *neuron.Experts // likewise; nil for a model without
	Curve       *prepared.Curve // nil if nothing was measured
	Calibration prepared.Text
	HeldOut     prepared.Text // zero if nothing was held out
	Generated   bool          // the model made its calibration text itself
	Rounds      int           // of training
	Recall      float64       // target of mass of the last round
	Measured    *Measured     // nil if nothing was held out
}

// Bytes returns those that a token reads of all feed-forward layers: dense, in exact and in predict.
func (r *Report) Bytes() (dense, exact, predict float64) {
	for i := range r.Layers {
		y := &r.Layers[i]
		dense, exact, predict = dense+y.Dense, exact+y.Exact, predict+y.Predict
	}
	return dense, exact, predict
}

// run is one preparation.
type run struct {
	f         *gguf.File
	c         model.Config
	o         *Options
	w         *work
	id        identity
	texts     texts
	stats     *neuron.Stats
	experts   *neuron.Experts // instead of stats, for a model with experts
	order     neuron.Order
	quantised bool
}

// Run prepares the model in f. If ctx ends, it returns ctx's error, and a later call with Resume continues.
func Run(ctx context.Context, f *gguf.File, o Options) (*Report, error) {
	r, err := begin(ctx, f, &o)
	if err != nil {
		return nil, err
	}
	defer r.w.release()
	rep, err := r.prepare(ctx)
	if err != nil && ctx.Err() == nil {
		r.w.discard()
	}
	if err != nil {
		return nil, resumable(err)
	}
	return rep, o.writeNeurons(ctx)
}

// writeNeurons writes the file of neurons of the file that was prepared. It does not need the work folder.
func (o *Options) writeNeurons(ctx context.Context) error {
	if !o.Neurons {
		return nil
	}
	f, err := gguf.Open(o.Out)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := bundle.Make(ctx, f, o.Out+bundle.Suffix, bundle.Making{Progress: o.bytes(StageNeurons), Notice: func(line string) { o.note("%s", line) }})
	if err != nil {
		return fmt.Errorf("%s is prepared, but %w", o.Out, err)
	}
	return b.Close()
}

// resumable adds what to do to the error of a disk without room.
func resumable(err error) error {
	if err != nil && hw.DiskFull(err) {
		return fmt.Errorf("%w; make room, then the same command with --resume goes on", err)
	}
	return err
}

// prepare does the work in an open work folder.
func (r *run) prepare(ctx context.Context) (*Report, error) {
	if r.o.Thresholds {
		return r.prepareThresholds(ctx)
	}
	if r.o.Measure {
		return r.measureCurve(ctx)
	}
	if r.c.Experts.Count > 0 {
		return r.prepareExperts(ctx)
	}
	o := r.o
	if err := r.observe(ctx); err != nil {
		return nil, err
	}
	r.order = r.stats.Order()
	rep := &Report{Stats: r.stats, Calibration: r.counted(), HeldOut: r.texts.held(), Generated: r.texts.generate > 0}
	for n := range maxRounds {
		t := round{n, 1 - (1-o.Recall)/float64(int(1)<<n)}
		err := r.round(ctx, t, rep)
		if err != nil {
			return nil, err
		}
		rep.Rounds, rep.Recall = n+1, t.recall
		q := rep.Measured
		if q == nil || q.KLDivergence-q.ExactKLDivergence <= o.divergence || n == maxRounds-1 {
			if q != nil {
				if rep.Curve, err = r.giveCurve(ctx, r.w.path(fileModel), rep.Calibration); err != nil {
					return nil, err
				}
			}
			return rep, r.finish(ctx)
		}
		o.note("the KL divergence is %.4f, above %g: training again for a recall of %.4g", q.KLDivergence, o.divergence, 1-(1-t.recall)/2)
	}
	panic("unreachable")
}

// Profile counts the activations of the model in f and writes them to o.Out as a statistics file.
func Profile(ctx context.Context, f *gguf.File, o Options) (*Report, error) {
	o.profileOnly = true
	r, err := begin(ctx, f, &o)
	if err != nil {
		return nil, err
	}
	defer r.w.release()
	if err := r.observe(ctx); err != nil {
		if ctx.Err() == nil {
			r.w.discard()
		}
		return nil, resumable(err)
	}
	text := r.counted()
	var curve *prepared.Curve
	if o.Measure {
		if curve, err = r.expertCurve(ctx); err != nil {
			return nil, resumable(err)
		}
	}
	if r.experts != nil {
		err = prepared.WriteUses(o.Out, f, text.SHA256, r.experts, curve)
	} else {
		err = prepared.WriteStats(o.Out, f, text.SHA256, r.stats)
	}
	if err != nil {
		return nil, err
	}
	return &Report{Stats: r.stats, Experts: r.experts, Curve: curve, Calibration: text, Generated: r.texts.generate > 0}, r.clean()
}

// counted returns the calibration text with the tokens that were counted, BOS of each window among them.
func (r *run) counted() prepared.Text {
	t := r.texts.calibrated()
	if r.experts != nil {
		t.Tokens = r.experts.Tokens()
	} else {
		t.Tokens = r.stats.Tokens
	}
	return t
}

// begin checks everything that can be checked before the work, and opens the work folder.
func begin(ctx context.Context, f *gguf.File, o *Options) (*run, error) {
	r := &run{f: f, o: o}
	var err error
	if r.c, err = model.ReadConfig(f, o.Activation); err != nil {
		return nil, err
	}
	if err := o.complete(r); err != nil {
		return nil, err
	}
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	if err := r.readTexts(); err != nil {
		return nil, err
	}
	r.id = identity{
		Version: workVersion, Model: fingerprint(f), Calibration: r.texts.calibrated().SHA256, HeldOut: r.texts.held().SHA256,
		Options: o.result(), Mapped: mapped(f), Texts: r.division(),
	}
	r.w, r.id, err = openWork(o.Work, r.id, o.Resume)
	return r, err
}

// complete fills defaults in.
func (o *Options) complete(r *run) error {
	if o.Work == "" {
		o.Work = o.Out + ".work"
	}
	if o.Threads == 0 {
		o.Threads = hw.DefaultThreads()
	}
	if o.TraceBudget == 0 {
		o.TraceBudget = DefaultTraceBudget
	}
	if o.Tokens == 0 {
		o.Tokens = DefaultTokens
		switch {
		case o.Thresholds && !o.profileOnly:
			o.Tokens = DefaultThresholdTokens
		case len(o.Files) == 0:
			o.Tokens = DefaultGenerated
		}
	}
	if o.divergence == 0 {
		o.divergence = model.AutoDivergence
	}
	if o.steps == 0 {
		o.steps = mostSteps
	}
	if o.Recall == 0 {
		o.Recall = 0.99
	}
	if o.Accuracy == 0 {
		o.Accuracy = 0.95
	}
	if r.c.Experts.Count > 0 || o.Thresholds || o.Measure {
		o.NoPredictors = true
	}
	if o.Thresholds && !o.Bound.IsSet() {
		o.Bound.KLD = model.UsualMaxKLD
	}
	if !o.SetType {
		o.PredictorType = quant.Q8_0
		if t := r.f.Tensor("blk.0.ffn_up.weight"); t != nil && slices.Contains(quant.BlockTypes(), t.Type) {
			o.PredictorType = t.Type
		}
	}
	switch {
	case o.Tokens < r.leastTokens():
		return fmt.Errorf("%d tokens of calibration: at least %d are needed", o.Tokens, r.leastTokens())
	case !(o.Recall > 0 && o.Recall < 1) || !(o.Accuracy > 0 && o.Accuracy < 1):
		return fmt.Errorf("recall %g and accuracy %g: give numbers between 0 and 1", o.Recall, o.Accuracy)
	case r.sampled() && r.c.Embd%o.PredictorType.BlockElems() != 0:
		return fmt.Errorf("predictors of %d inputs cannot be stored in %s: its blocks do not divide the rows", r.c.Embd, o.PredictorType)
	case o.Neurons && (o.Thresholds || r.c.Experts.Count > 0):
		return fmt.Errorf("%s: there is no file of neurons of such a model: its experts are read from its own file, and thresholds leave its form as it is; leave --neurons out", r.f.Path)
	case o.TraceBudget < 1<<20:
		return fmt.Errorf("a trace budget of %d bytes is less than a MiB", o.TraceBudget)
	}
	return nil
}

// maxFF is the largest number of neurons that traces can name.
const maxFF = 1 << 16

// check refuses models that cannot be prepared.
func (r *run) check(ctx context.Context) error {
	path := r.f.Path
	switch {
	case r.o.Thresholds:
		return r.checkThresholds()
	case r.o.Measure:
		return r.checkMeasure()
	case r.c.Experts.Count > 0:
		return r.checkExperts()
	case r.c.Prepared != nil:
		return fmt.Errorf("%s is prepared already; give the model that it was made from, or --measure to measure it anew", path)
	case r.c.Transposed:
		return fmt.Errorf("%s is an original PowerInfer file with predictors; give the model that it was made from", path)
	case !r.c.Act.Sparse():
		return r.dense(ctx)
	case r.c.FF > maxFF:
		return fmt.Errorf("%s: layers of %d neurons; up to %d can be prepared", path, r.c.FF, maxFF)
	}
	for l := range r.c.Layers {
		t := r.f.Tensor(fmt.Sprintf("blk.%d.ffn_down.weight", l))
		if t == nil || t.Type.BlockElems() == 1 {
			continue
		}
		r.quantised = true
		if !r.o.AllowRequantize {
			return fmt.Errorf("%s: tensor %q is %s, and its transposition must be quantised again; give an F32, F16 or BF16 model, or --allow-requantize", path, t.Name, t.Type)
		}
	}
	if r.o.Original && !r.quantised {
		return prepared.CheckOriginal(r.f, &prepared.Info{Activation: r.c.Act.Kind.String(), Input: prepared.Normed})
	}
	return nil
}

// checkMeasure refuses files without a curve to measure.
func (r *run) checkMeasure() error {
	path := r.f.Path
	switch {
	case r.c.Experts.Count > 0:
		return r.checkExpertCurve()
	case r.o.profileOnly:
		return fmt.Errorf("%s has no experts, which alone are measured while uses are counted", path)
	case r.c.Prepared == nil || !r.c.Predictors:
		return fmt.Errorf("%s: --measure is for files that prepare made, with predictors, and for models with experts", path)
	case r.o.Original:
		return fmt.Errorf("%s: the original PowerInfer reads no measured settings; leave --format out", path)
	case len(r.o.Files)+len(r.o.EvalFiles) == 0:
		return fmt.Errorf("%s: give text to measure on, other than what the file was prepared with, with -f", path)
	}
	return nil
}

// dense says how near to zero a model's activations are that never are zero.
func (r *run) dense(ctx context.Context) error {
	var z nearZero
	e, err := newRunner(ctx, r.f, r.o, &z, mapped(r.f))
	if err != nil {
		return err
	}
	defer e.Close()
	tok, err := model.Tokenizer(r.f)
	if err != nil {
		return err
	}
	for _, s := range seeds() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ids := tok.Encode(s, true, false); len(ids) > 0 {
			if err := e.run([]window{{0, ids[:min(len(ids), e.window)]}}); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%s: its activation is %s: %.1f %% of activations are within %g %% of their token's largest, but %w; if it was trained with ReLU, which the file does not say, give --activation relu",
		r.f.Path, r.c.Act.Kind, 100*z.near/max(1, z.all), 100*nearZeroShare, errNoZeros)
}

// round trains every layer, writes the file and measures it.
func (r *run) round(ctx context.Context, t round, rep *Report) error {
	predictors, err := r.train(ctx, t, rep)
	if err != nil {
		return err
	}
	info, err := r.info(rep)
	if err != nil {
		return err
	}
	candidate := r.w.path(fileModel)
	plan := prepared.Plan{Info: info, Order: r.order, Predictors: predictors, PredictorType: r.o.PredictorType}
	if err := prepared.Write(ctx, candidate, r.f, plan, r.o.bytes(StageWrite)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil || len(r.texts.heldOut) == 0 || r.o.NoPredictors {
		return err
	}
	m := &measurer{f: r.f, w: r.w, o: r.o, text: r.texts.heldOut, mapped: r.id.Mapped}
	q, err := m.measure(ctx, candidate, t, r.quantised)
	if err != nil {
		return err
	}
	rep.Measured = &q
	info.Quality = &prepared.Quality{
		KLDivergence: float32(q.KLDivergence), PerplexityDense: float32(q.PerplexityDense), PerplexityPredict: float32(q.PerplexityPredict),
	}
	return prepared.SetInfo(ctx, candidate, info, nil)
}

// parts is the number of steps in which the progress of a layer's training is reported.
const parts = 100

func (r *run) train(ctx context.Context, t round, rep *Report) ([]prepared.Predictor, error) {
	workers := pool.New(r.o.Threads)
	defer workers.Close()
	tr := &trainer{f: r.f, c: r.c, w: r.w, o: r.o, stats: r.stats, order: r.order, pool: workers, heldOut: len(r.texts.heldOut) > 0}
	rep.Layers = make([]Layer, r.c.Layers)
	predictors := make([]prepared.Predictor, r.c.Layers)
	for l := range rep.Layers {
		var err error
		rep.Layers[l], predictors[l], err = tr.layer(ctx, l, t, func(share float64) {
			r.o.progress(StageTrain, int64(parts*(float64(l)+share)), int64(parts*r.c.Layers))
		})
		if err != nil {
			return nil, err
		}
		if r.o.Layer != nil {
			r.o.Layer(l, t.number, &rep.Layers[l])
		}
	}
	r.o.progress(StageTrain, int64(parts*r.c.Layers), int64(parts*r.c.Layers))
	return predictors, nil
}

// info returns the file's keys.
func (r *run) info(rep *Report) (prepared.Info, error) {
	info := prepared.Info{
		Activation: r.c.Act.Kind.String(), Input: prepared.Normed, Calibration: rep.Calibration, HeldOut: rep.HeldOut,
	}
	if r.c.Act.Kind == compute.FATReLU {
		info.ActivationThreshold = r.c.Act.Threshold
	}
	sorted, err := r.stats.Permute(r.order)
	if err != nil {
		return info, err
	}
	for l := range rep.Layers {
		y := &rep.Layers[l]
		p := prepared.Layer{Frequency: sorted.Frequencies(l), Mode: y.Mode, Rank: y.Rank, AlwaysOn: y.AlwaysOn}
		if rep.HeldOut != (prepared.Text{}) {
			q := y.HeldOut
			p.Recall, p.Found, p.Precision, p.Accuracy = float32(q.MassRecall), float32(q.Recall), float32(q.Precision), float32(q.Accuracy)
			if y.Mode == prepared.Exact {
				p.Recall, p.Found, p.Precision, p.Accuracy = 1, 1, 1, 1
			}
		}
		info.Layers = append(info.Layers, p)
	}
	return info, nil
}

// finish gives the file its name.
func (r *run) finish(ctx context.Context) error {
	from := r.w.path(fileModel)
	if err := r.place(ctx, from); err != nil {
		return err
	}
	return r.clean()
}

func (r *run) place(ctx context.Context, from string) error {
	if r.o.Original {
		f, err := gguf.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		return prepared.WriteOriginal(ctx, r.o.Out, f, r.o.bytes(StageWrite))
	}
	if err := atomicfile.Check(r.o.Out, gguf.ModelKind()); err != nil {
		return fmt.Errorf("%w; the file is in %s", err, from)
	}
	var kept error
	if older, err := os.Stat(r.o.Out); err == nil {
		kept = os.Chmod(from, older.Mode().Perm())
	}
	if kept == nil && os.Rename(from, r.o.Out) == nil {
		return nil
	}
	// Another file system.
	return atomicfile.Write(r.o.Out, gguf.ModelKind(), func(to *atomicfile.File) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(to, endingReader{ctx, in})
		return err
	})
}

// endingReader reads until its context ends.
type endingReader struct {
	ctx context.Context
	io.Reader
}

func (r endingReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// clean removes the work folder. It holds only this package's files.
func (r *run) clean() error {
	if r.o.KeepWork {
		return nil
	}
	r.w.release() // Windows removes no locked file
	return os.RemoveAll(r.w.dir)
}

// PredictorTypes lists the names of the types that predictors may have, for help and errors.
func PredictorTypes() string { return strings.ToLower(quant.Names(quant.BlockTypes())) }

// SetPredictorType sets the type of the predictors by its name.
func (o *Options) SetPredictorType(name string) error {
	t, ok := quant.Named(name, quant.BlockTypes())
	if !ok {
		return fmt.Errorf("%q is none of %s", name, PredictorTypes())
	}
	o.PredictorType, o.SetType = t, true
	return nil
}
