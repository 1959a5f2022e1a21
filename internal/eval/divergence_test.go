package eval

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// halfStep is the largest distance of a stored log-probability from the true one: half of one of 65,535 steps over a
// range of 16, and the rounding of float32 at that magnitude.
const halfStep = 16.0/65535/2 + 4e-6

// raw builds base files byte by byte from the form's description, independently of the writer.
type raw []byte

func (r raw) i32(v ...int32) raw {
	for _, x := range v {
		r = binary.LittleEndian.AppendUint32(r, uint32(x))
	}
	return r
}

func (r raw) row(scale, least float32, steps ...uint16) raw {
	r = r.i32(int32(math.Float32bits(scale)), int32(math.Float32bits(least)))
	for _, s := range steps {
		r = binary.LittleEndian.AppendUint16(r, s)
	}
	return r
}

// smallBase returns one chunk of 5 tokens, a vocabulary of 3 and so 5-1-2 = 2 rows, padded to 4 steps.
func smallBase() raw {
	return raw("_logits_").i32(5, 3, 1).i32(0, 1, 2, 1, 0).
		row(1.0/16384, -4, 0, 16384, 32768, 0).row(0, -1.0986123, 0, 0, 0, 0)
}

func saved(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.kld")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBaseReadsTheForm(t *testing.T) {
	b, err := OpenBase(saved(t, smallBase()))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Context != 5 || b.Vocab != 3 || b.Chunks != 1 || !slices.Equal(b.Tokens, []int32{0, 1, 2, 1, 0}) {
		t.Errorf("%+v", b)
	}
	row := make([]float32, 3)
	for _, want := range [][]float32{{-4, -3, -2}, {-1.0986123, -1.0986123, -1.0986123}} {
		if err := b.next(row); err != nil || !slices.Equal(row, want) {
			t.Errorf("row %v, %v; want %v", row, err, want)
		}
	}
	if err := b.next(row); err == nil {
		t.Error("a third row of two")
	}
}

func TestBaseWritesTheForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "base.kld")
	w, err := createBase(path, 5, 3, []int32{0, 1, 2, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	defer w.abort()
	// 65535 steps of 1/8192 from -8+1/8192 up to 0; then all equal.
	const scale = float32(1.0 / 8192)
	for _, logits := range [][]float32{{0, -8 + scale, -4}, {7, 7, 7}} {
		if err := w.add(logits); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file has its name before it is complete")
	}
	if err := w.commit(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	least := float32(-8 + 1.0/8192 - math.Log(1+math.Exp(-8+1.0/8192)+math.Exp(-4)))
	want := raw("_logits_").i32(5, 3, 1).i32(0, 1, 2, 1, 0).
		row(scale, least, 65535, 0, 32767, 0).row(0, float32(-math.Log(3)), 0, 0, 0, 0)
	if !bytes.Equal(got, want) {
		t.Errorf("wrote\n% x\nnot\n% x", got, want)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestBaseWriterRefusesNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, logits := range [][]float32{{0, nan}, {nan, 0}, {inf, 0}, {-inf, -inf}} {
		path := filepath.Join(t.TempDir(), "base.kld")
		w, err := createBase(path, 3, 2, []int32{0, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.add(logits); err == nil {
			t.Errorf("%v were written", logits)
		}
		w.abort()
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			t.Error("an aborted file is left")
		}
	}
}

// hostile are damaged files, each with what its error must say.
func hostile() map[string]struct {
	file raw
	want string
} {
	type entry = struct {
		file raw
		want string
	}
	head := func(context, vocab, chunks int32) raw { return raw("_logits_").i32(context, vocab, chunks) }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	rows := func(scale, least float32) raw {
		return head(3, 2, 1).i32(0, 1, 0).row(scale, least, 0, 0)
	}
	return map[string]entry{
		"empty":              {raw{}, "offset 0: not a file of log-probabilities"},
		"foreign magic":      {append(raw("GGUF"), make([]byte, 100)...), "offset 0: not a file"},
		"only magic":         {raw("_logits_"), "offset 0: not a file"},
		"no counts":          {raw("_logits_").i32(5, 3), "offset 0: not a file"},
		"context of 2":       {head(2, 3, 1), "offset 8: a context of 2 tokens"},
		"negative context":   {head(-1, 3, 1), "offset 8: a context of -1 tokens"},
		"endless context":    {head(math.MaxInt32, 3, 1), "offset 8: a context of 2147483647"},
		"empty vocabulary":   {head(5, 0, 1), "offset 12: a vocabulary of 0"},
		"endless vocabulary": {head(5, math.MaxInt32, 1), "offset 12: a vocabulary of 2147483647"},
		"no chunks":          {head(5, 3, 0), "offset 16: 0 chunks"},
		"negative chunks":    {head(5, 3, math.MinInt32), "offset 16: -2147483648 chunks"},
		"endless chunks":     {head(5, 3, math.MaxInt32), "offset 16: 2147483647 chunks of 52 bytes do not fill the 0 bytes that follow"},
		"largest counts":     {head(maxContext, maxVocab, math.MaxInt32), "do not fill"},
		"truncated":          {smallBase()[:len(smallBase())-1], "do not fill the 51 bytes"},
		"surplus":            {append(smallBase(), 0), "do not fill the 53 bytes"},
		"token too large":    {head(3, 2, 1).i32(0, 2, 0).row(1, -1, 0, 0), "offset 24: token 2 is not in the vocabulary of 2"},
		"negative token":     {head(3, 2, 1).i32(-1, 0, 0).row(1, -1, 0, 0), "offset 20: token -1"},
		"scale":              {rows(nan, -1), "offset 32: row 0: scale NaN"},
		"negative scale":     {rows(-1, -1), "scale -1 and minimum -1"},
		"endless scale":      {rows(inf, -1), "scale +Inf"},
		"minimum":            {rows(0, nan), "minimum NaN"},
		"endless minimum":    {rows(0, -inf), "minimum -Inf"},
		"probability of 2":   {rows(0, 0.7), "give no log-probabilities"},
		"top above 1":        {rows(0.001, -16), "scale 0.001 and minimum -16 give no log-probabilities"},
	}
}

// readAll reads a base to its end.
func readAll(path string) error {
	b, err := OpenBase(path)
	if err != nil {
		return err
	}
	defer b.Close()
	row := make([]float32, b.Vocab)
	for range b.Chunks * predictions(b.Context) {
		if err := b.next(row); err != nil {
			return err
		}
	}
	return nil
}

func TestHostileBase(t *testing.T) {
	for name, c := range hostile() {
		path := saved(t, c.file)
		err := readAll(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := OpenBase(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := OpenBase(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file")
	}
}

// FuzzBase: no input panics; errors are one line with the file's name; accepted files contain log-probabilities.
func FuzzBase(f *testing.F) {
	f.Add([]byte(smallBase()))
	for _, c := range hostile() {
		f.Add([]byte(c.file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := saved(t, data)
		if err := readAll(path); err != nil && (!strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("error %q", err)
		}
	})
}

func logSoftmax(logits []float32) []float64 {
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	out := make([]float64, len(logits))
	for i, v := range logits {
		out[i] = float64(v) - math.Log(sum)
	}
	return out
}

// Figures of random models against their definitions in float64, through a saved file.
func TestFiguresByDefinition(t *testing.T) {
	const vocab, context, chunks = 37, 64, 3
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 1))
	tokens := make([]int32, chunks*context)
	for i := range tokens {
		tokens[i] = r.Int32N(vocab)
	}
	path := filepath.Join(t.TempDir(), "base.kld")
	w, err := createBase(path, context, vocab, tokens)
	if err != nil {
		t.Fatal(err)
	}
	n := chunks * predictions(context)
	p, q := make([][]float32, n), make([][]float32, n)
	for i := range n {
		p[i], q[i] = make([]float32, vocab), make([]float32, vocab)
		for v := range vocab {
			p[i][v] = 4 * (2*r.Float32() - 1) // within the range that a file keeps
			q[i][v] = p[i][v] + float32(0.3*r.NormFloat64())
		}
		if err := w.add(p[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.commit(); err != nil {
		t.Fatal(err)
	}
	b, err := OpenBase(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var sums divergenceSums
	row := make([]float32, vocab)
	var kld, nllP, nllQ, square float64
	var ratios, squares []float32 // a prediction each
	same, ties := 0, 0
	for i := range n {
		next := int(tokens[i%vocab])
		if err := b.next(row); err != nil {
			t.Fatal(err)
		}
		sums.add(q[i], row, next)
		lp, lq := logSoftmax(p[i]), logSoftmax(q[i])
		for v := range vocab {
			kld += math.Exp(lp[v]) * (lp[v] - lq[v]) / float64(n)
		}
		nllP -= lp[next] / float64(n)
		nllQ -= lq[next] / float64(n)
		delta := math.Exp(lq[next]) - math.Exp(lp[next])
		square += delta * delta / float64(n)
		ratios, squares = append(ratios, float32(lp[next]-lq[next])), append(squares, float32(delta*delta))
		if slices.Index(lp, slices.Max(lp)) == slices.Index(lq, slices.Max(lq)) {
			same++
		}
		if ranked := slices.Sorted(slices.Values(lp)); ranked[vocab-1]-ranked[vocab-2] <= 2*halfStep {
			ties++ // either may be the likeliest of the stored ones
		}
	}
	d := sums.figures()
	for name, v := range map[string]struct{ got, want, tolerance float64 }{
		"KLD":       {d.KLD.Value, kld, halfStep},
		"ln PPL":    {math.Log(d.PPL.Value), nllQ, 1e-6},
		"ln base":   {math.Log(d.BasePPL.Value), nllP, halfStep},
		"ln ratio":  {d.LogRatio.Value, nllQ - nllP, halfStep},
		"ratio":     {d.Ratio.Value, math.Exp(nllQ - nllP), 2 * halfStep},
		"RMS Δp":    {d.RMSDeltaP.Value, math.Sqrt(square), halfStep},
		"same top":  {d.SameTop.Value, float64(same) / float64(n), (float64(ties) + 0.5) / float64(n)},
		"count":     {float64(d.Count), float64(n), 0},
		"PPL by Q":  {d.Difference.Value, math.Exp(nllQ) - math.Exp(nllP), 100 * halfStep},
		"positive":  {math.Min(d.KLD.Value, 0), 0, 0},
		"KLD error": {d.KLD.Error, deviation(sums.klds), 1e-6},
		// The error of a difference of means over the same tokens is that of the mean of differences.
		"ratio error": {d.LogRatio.Error, deviation(ratios), halfStep},
		"RMS error":   {d.RMSDeltaP.Error, deviation(squares) / (2 * math.Sqrt(square)), halfStep},
	} {
		if !(math.Abs(v.got-v.want) <= v.tolerance) {
			t.Errorf("seed %d: %s is %g, want %g ± %g", seed, name, v.got, v.want, v.tolerance)
		}
	}
	if !(d.Correlation > 0.5 && d.Correlation <= 1+1e-9) { // Q is P with little noise
		t.Errorf("seed %d: correlation %g", seed, d.Correlation)
	}
}

// deviation returns the standard error of the mean of v, by definition.
func deviation(v []float32) float64 {
	mean, square := 0.0, 0.0
	for _, x := range v {
		mean += float64(x) / float64(len(v))
	}
	for _, x := range v {
		square += (float64(x) - mean) * (float64(x) - mean)
	}
	return math.Sqrt(square / float64(len(v)) / float64(len(v)-1))
}

// Two predictions over two tokens, worked out by hand: P is (3/4, 1/4) twice, Q is (1/2, 1/2), then (1/4, 3/4).
func TestFiguresByHand(t *testing.T) {
	ln := func(v float64) float32 { return float32(math.Log(v)) }
	var s divergenceSums
	s.add([]float32{5, 5}, []float32{ln(0.75), ln(0.25)}, 0)
	s.add([]float32{0, ln(3)}, []float32{ln(0.75), ln(0.25)}, 1)
	d := s.figures()
	first := 0.75*math.Log(1.5) + 0.25*math.Log(0.5)
	second := 0.75*math.Log(3) - 0.25*math.Log(3)
	for name, v := range map[string][2]float64{
		"KLD":      {d.KLD.Value, (first + second) / 2},
		"PPL":      {d.PPL.Value, math.Sqrt(2 / 0.75)},     // 1/√(1/2·3/4)
		"base PPL": {d.BasePPL.Value, math.Sqrt(16.0 / 3)}, // 1/√(3/4·1/4)
		"Δp":       {d.DeltaP.Value, (-0.25 + 0.5) / 2},
		"RMS Δp":   {d.RMSDeltaP.Value, math.Sqrt((0.0625 + 0.25) / 2)},
		"same top": {d.SameTop.Value, 0.5}, // equal logits: the first counts
		"ratio":    {d.Ratio.Value, math.Sqrt(0.5)},
	} {
		if math.Abs(v[0]-v[1]) > 1e-6 {
			t.Errorf("%s is %g, want %g", name, v[0], v[1])
		}
	}
}

func TestPercentile(t *testing.T) {
	v := []float32{1, 2, 4, 8}
	for fraction, want := range map[float64]float64{0: 1, 1: 8, 0.5: 3, 1.0 / 3: 2, 0.9: 4 + 0.7*4, -1: 1, 2: 8} {
		if got := Percentile(v, fraction); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g: %g, want %g", fraction, got, want)
		}
	}
	if got := Percentile([]float32{3}, 0.9); got != 3 {
		t.Errorf("of one value: %g", got)
	}
}

// openDemo loads the embedded model.
func openDemo(t *testing.T, activation string) *engine.Engine {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{}), Limits: engine.Limits{Context: 64, Sequences: 16}, Neurons: engine.Neurons{Activation: activation, Sparse: model.Off}}) // the reference is dense
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

const tale = "Once upon a time there was a king who had three sons. The eldest went out into the wood, and there he met an old man, " +
	"who bade him good day. \"Give me a piece of the cake in your pocket,\" said he, \"and let me drink of your wine.\" But the son answered: " +
	"\"If I give you my cake and wine I shall have none left for myself; you just go your own way.\" Then he began to hew down a tree, and before " +
	"long he made a wrong stroke, and the axe cut him in the arm, so that he had to go home and have it bound up. And this was the old man's doing."

// A model diverges from its own saved predictions by their rounding only, and from another's by more.
func TestDemoAgainstItself(t *testing.T) {
	e := openDemo(t, "")
	tok := e.Tokenizer()
	path := filepath.Join(t.TempDir(), "base.kld")
	p := Perplexity{Tokens: tok.Encode(tale, true, false), Context: 64, Chunks: 2, BOS: tok.BOS(), Base: path}
	est, err := p.Run(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	run := func(e *engine.Engine) Divergence {
		t.Helper()
		b, err := OpenBase(path)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		lines := 0
		k := KLDivergence{Base: b, Chunks: -1, BOS: tok.BOS(), Chunk: func(done, total int, d Divergence) {
			lines++
			if done != lines || total != 2 || d.Count != done*predictions(64) {
				t.Errorf("chunk %d/%d: %d predictions", done, total, d.Count)
			}
		}}
		d, err := k.Run(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := run(e)
	if !slices.IsSorted(d.KLDs) || !slices.IsSorted(d.DeltaPs) || len(d.KLDs) != d.Count {
		t.Error("values for percentiles are not sorted")
	}
	if d.Count != est.Count || math.Abs(d.PPL.Value-est.PPL) > 1e-9*est.PPL || math.Abs(d.PPL.Error-est.Error) > 1e-6*est.PPL {
		t.Errorf("%+v beside perplexity %+v", d, est)
	}
	if !(math.Abs(d.KLD.Value) < halfStep) || math.Abs(d.LogRatio.Value) > halfStep || d.SameTop.Value < 1-1.5/float64(d.Count) {
		t.Errorf("a model diverges from itself: %+v", d)
	}
	if other := run(openDemo(t, "fatrelu:0.2")); other.KLD.Value < 10*halfStep || other.PPL.Value == d.PPL.Value || other.BasePPL != d.BasePPL {
		t.Errorf("a model with another activation: %+v", other)
	}
	var report strings.Builder
	if err := d.Report(&report); err != nil || strings.Count(report.String(), "±") != 9 || !strings.Contains(report.String(), "\nMean    KLD: ") {
		t.Errorf("%v\n%s", err, &report)
	}
}

// TestNotFinite: a model with NaN logits has neither a perplexity nor a divergence; the message names its file.
func TestNotFinite(t *testing.T) {
	data := slices.Clone(demo.Model())
	f, err := gguf.Parse("damaged.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	f.Tensor("output_norm.weight").Data[3] = 0xff // with what follows an infinite or no number in float32
	f.Tensor("output_norm.weight").Data[2] = 0xff
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 16, Sequences: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tokens := e.Tokenizer().Encode(strings.Repeat("Once upon a time there was a king. ", 8), true, true)
	p := Perplexity{Tokens: tokens, Context: 16, Chunks: -1, BOS: -1}
	if est, err := p.Run(t.Context(), e); err == nil || !strings.Contains(err.Error(), "damaged.gguf: the model's outputs are not finite") {
		t.Errorf("a perplexity of %g, %v", est.PPL, err)
	}
	good := openDemo(t, "")
	p = Perplexity{Tokens: tokens, Context: 16, Chunks: 2, BOS: -1, Base: filepath.Join(t.TempDir(), "base")}
	if _, err := p.Run(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	base, err := OpenBase(p.Base)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if d, err := (&KLDivergence{Base: base, Chunks: -1, BOS: -1}).Run(t.Context(), e); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("a divergence of %g, %v", d.KLD.Value, err)
	}
}

func TestRefusals(t *testing.T) {
	e := openDemo(t, "")
	tokens := make([]int32, 256)
	refused := func(name, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	_, err := (&Perplexity{Tokens: tokens, Context: 64, Chunks: -1, Stride: 8, BOS: -1, Base: filepath.Join(t.TempDir(), "b")}).Run(context.Background(), e)
	refused("strided", "--ppl-stride", err)
	_, err = (&Perplexity{Tokens: tokens, Context: 2, Chunks: -1, BOS: -1}).Run(context.Background(), e)
	refused("context of 2", "at least -c 3", err)
	_, err = (&Perplexity{Tokens: tokens, Context: 64, Chunks: -1, BOS: -1, Base: filepath.Join(t.TempDir(), "absent", "b")}).Run(context.Background(), e)
	refused("no such folder", filepath.Join("absent", "b")+" cannot be written: ", err)
	run := func(file raw) error {
		b, err := OpenBase(saved(t, file))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = (&KLDivergence{Base: b, Chunks: -1, BOS: -1}).Run(context.Background(), e)
		return err
	}
	refused("another vocabulary", "vocabulary of 3, not this one's", run(smallBase()))
	vocab := e.Config().Vocab
	wide := raw("_logits_").i32(65, int32(vocab), 1).i32(make([]int32, 65)...)
	wide = append(wide, make([]byte, predictions(65)*rowBytes(vocab))...)
	refused("a longer context", "use -c 65", run(wide))

	path := filepath.Join(t.TempDir(), "base.kld")
	ctx, cancel := context.WithCancel(context.Background())
	p := Perplexity{Tokens: tokens, Context: 64, Chunks: -1, BOS: -1, Base: path, Chunk: func(int, int, float64) { cancel() }}
	if _, err := p.Run(ctx, e); err == nil {
		t.Error("a cancelled run finished")
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Error("a cancelled run leaves a file")
	}
}
