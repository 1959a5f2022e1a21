package prepared

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

var hash = strings.Repeat("0123456789abcdef", 4)

// sample has two layers of four neurons: one predicted, one exact.
func sample() Info {
	return Info{
		Activation: "fatrelu", ActivationThreshold: 0.01, Input: Normed, Threshold: -0.5,
		Calibration: Text{hash, 1000},
		Layers: []Layer{
			{Frequency: []float32{1, 0.5, 0.5, 0.001}, Mode: Predict, Rank: 64, AlwaysOn: 1, Recall: 0.995, Found: 0.97, Precision: 0.6, Accuracy: 0.96},
			{Frequency: []float32{0.75, 0.25, 0, 0}, Mode: Exact, Recall: 1, Found: 1, Precision: 1, Accuracy: 1},
		},
		HeldOut: Text{strings.Repeat("f", 64), 500},
		Quality: &Quality{KLDivergence: 0.004, PerplexityDense: 12.5, PerplexityPredict: 12.55},
	}
}

// modelKeys returns the keys of the model itself that Read needs.
func modelKeys() []gguf.KV {
	return []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(2)},
		{Key: "llama.feed_forward_length", Value: uint32(4)},
	}
}

func write(t *testing.T, keys []gguf.KV) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", keys, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestRoundTrip(t *testing.T) {
	full := sample()
	unmeasured := sample()
	unmeasured.HeldOut, unmeasured.Quality = Text{}, nil
	for l := range unmeasured.Layers {
		for _, v := range unmeasured.Layers[l].measured() {
			*v = 0
		}
	}
	layersOnly := sample()
	layersOnly.Quality = nil
	relu := sample()
	relu.Activation, relu.ActivationThreshold = "relu", 0
	for name, want := range map[string]Info{"full": full, "unmeasured": unmeasured, "figures of layers only": layersOnly, "relu": relu} {
		keys, err := want.Keys()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, ok, err := Read(write(t, append(modelKeys(), keys...)))
		if err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %v\n got %+v\nwant %+v", name, ok, err, got, want)
		}
	}
}

func TestPlainFileIsNotPrepared(t *testing.T) {
	f := write(t, append(modelKeys(), gguf.KV{Key: "powerinfer.activation", Value: "relu"}))
	if _, ok, err := Read(f); ok || err != nil {
		t.Errorf("a converted file: %v %v", ok, err)
	}
}

// Files of others leave the original's defaults out.
func TestDefaults(t *testing.T) {
	i := sample()
	keys, err := i.Keys()
	if err != nil {
		t.Fatal(err)
	}
	keys = slices.DeleteFunc(keys, func(kv gguf.KV) bool { return kv.Key == keyInput || kv.Key == keyThreshold })
	got, _, err := Read(write(t, append(modelKeys(), keys...)))
	if err != nil || got.Input != Residual || got.Threshold != 0 {
		t.Errorf("%v, input %q, threshold %g", err, got.Input, got.Threshold)
	}
}

func TestStatsAreTheCounts(t *testing.T) {
	const tokens = 1<<24 - 3
	counts := []uint32{tokens, tokens - 1, 12345677, 3333333, 1, 0}
	i := Info{Calibration: Text{hash, tokens}, Layers: make([]Layer, 1)}
	for _, c := range counts {
		i.Layers[0].Frequency = append(i.Layers[0].Frequency, float32(float64(c)/tokens))
	}
	s := i.Stats()
	if s.Tokens != tokens || !slices.Equal(s.Layers[0], counts) {
		t.Errorf("%d tokens, %v", s.Tokens, s.Layers[0])
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// drop, in place of a value, removes the key.
type drop struct{}

func TestHostileKeys(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	cases := map[string]struct {
		key   string
		value any
		want  string
	}{
		"future version":          {keyVersion, uint32(2), "2 is not supported, 1 is"},
		"version of wrong type":   {keyVersion, "1", "is a string, not an integer"},
		"no architecture":         {"general.architecture", drop{}, "missing"},
		"no block count":          {"llama.block_count", drop{}, "missing"},
		"no blocks":               {"llama.block_count", uint32(0), "0 is outside 1…4096"},
		"endless blocks":          {"llama.block_count", uint64(math.MaxUint64), "18446744073709551615 is outside 1…4096"},
		"other block count":       {"llama.block_count", uint32(3), `key "powerinfer.layer.mode": 2 elements for 3 layers`},
		"endless neurons":         {"llama.feed_forward_length", uint64(1 << 40), "1099511627776 is outside"},
		"other width":             {"llama.feed_forward_length", uint32(5), `key "powerinfer.frequency.0": 4 frequencies for 5 neurons`},
		"no activation":           {keyActivation, drop{}, "missing"},
		"dense activation":        {keyActivation, "silu", `"silu" leaves no neuron at zero`},
		"two-lined activation":    {keyActivation, "a\nb", `"a\nb" leaves`},
		"no FATReLU threshold":    {keyActivationThreshold, drop{}, "missing"},
		"FATReLU threshold":       {keyActivationThreshold, nan, "NaN is not a threshold"},
		"threshold":               {keyThreshold, inf, "+Inf is not a threshold"},
		"threshold beyond f32":    {keyThreshold, 1e300, "+Inf is not a threshold"},
		"threshold of wrong type": {keyThreshold, "0", "is a string, not a number"},
		"input":                   {keyInput, "logits", `"logits" is neither residual nor normed`},
		"input of wrong type":     {keyInput, uint32(1), "is a uint32, not a string"},
		"no hash":                 {keyCalibration + ".sha256", drop{}, "missing"},
		"short hash":              {keyCalibration + ".sha256", hash[1:], "is not a SHA-256"},
		"upper-case hash":         {keyCalibration + ".sha256", strings.ToUpper(hash), "is not a SHA-256"},
		"hash of long text":       {keyCalibration + ".sha256", strings.Repeat("x", 1<<16), "is not a SHA-256"},
		"no tokens":               {keyCalibration + ".tokens", uint64(0), "0 is outside 1…4294967295"},
		"too many tokens":         {keyCalibration + ".tokens", uint64(1 << 32), "4294967296 is outside"},
		"negative tokens":         {keyCalibration + ".tokens", int64(-1), "is negative"},
		"no modes":                {keyMode, drop{}, "missing"},
		"mode":                    {keyMode, []string{"predict", "guess"}, `element 1: "guess" is neither`},
		"modes of wrong type":     {keyMode, []uint32{0, 1}, "not an array of strings"},
		"too many modes":          {keyMode, []string{"exact", "exact", "exact"}, "3 elements for 2 layers"},
		"too few ranks":           {keyRank, []uint32{64}, "1 elements for 2 layers"},
		"odd rank":                {keyRank, []uint32{65, 0}, "element 0: 65 is not a multiple of 32"},
		"rank of 48":              {keyRank, []uint32{48, 0}, "element 0: 48 is not a multiple of 32"},
		"no rank":                 {keyRank, []uint32{0, 0}, "element 0: 0 is not a multiple of 32"},
		"negative rank":           {keyRank, []int32{-32, 0}, "element 0: -32 is not a multiple of 32"},
		"huge rank":               {keyRank, []uint32{1 << 20, 0}, "element 0: 1048576 is not"},
		"rank beyond int32":       {keyRank, []uint32{1 << 31, 0}, "element 0 does not fit"},
		"rank in exact":           {keyRank, []uint32{64, 32}, "element 1: a rank of 32 in a layer that runs exact"},
		"all always on":           {keyAlwaysOn, []uint32{4, 0}, "element 0: all 4 neurons"},
		"more than all always on": {keyAlwaysOn, []uint32{5, 0}, "element 0: 5 of 4 neurons"},
		"negative always on":      {keyAlwaysOn, []int32{-1, 0}, "element 0: -1 of 4 neurons"},
		"always on in exact":      {keyAlwaysOn, []uint32{1, 1}, "element 1: 1 neurons in a layer that runs exact"},
		"no frequencies":          {keyFrequency(1), drop{}, "missing"},
		"frequencies of texts":    {keyFrequency(1), []string{"1", "0", "0", "0"}, "not an array of numbers"},
		"too few frequencies":     {keyFrequency(1), []float32{1, 0, 0}, "3 frequencies for 4 neurons"},
		"frequency above 1":       {keyFrequency(1), []float32{1.5, 1, 0, 0}, "element 0: 1.5 is outside 0…1"},
		"negative frequency":      {keyFrequency(1), []float32{1, 0.5, 0.25, -0.5}, "element 3: -0.5 is outside 0…1"},
		"frequency not a number":  {keyFrequency(1), []float32{1, nan, 0, 0}, "element 1: NaN is outside 0…1"},
		"rising frequencies":      {keyFrequency(1), []float32{0.25, 0.5, 0, 0}, "element 1: 0.5 is above the 0.25 before it"},
		"no held-out hash":        {keyHeldOut + ".sha256", drop{}, "missing"},
		"held-out hash":           {keyHeldOut + ".sha256", "", "is not a SHA-256"},
		"held-out tokens":         {keyHeldOut + ".tokens", uint64(0), "0 is outside"},
		"no recall":               {keyRecall, drop{}, "missing"},
		"too few recalls":         {keyRecall, []float32{1}, "1 elements for 2 layers"},
		"recall above 1":          {keyRecall, []float32{1, 1.01}, "element 1: 1.01 is outside 0…1"},
		"recall by count":         {keyFound, []float32{nan, 1}, "element 0: NaN is outside 0…1"},
		"precision":               {keyPrecision, []float32{-0.1, 1}, "element 0: -0.1 is outside 0…1"},
		"accuracy":                {keyAccuracy, []float32{inf, 1}, "element 0: +Inf is outside 0…1"},
		"no divergence":           {keyKLDivergence, drop{}, "missing"},
		"negative divergence":     {keyKLDivergence, float32(-1), "-1 is not a divergence"},
		"divergence":              {keyKLDivergence, nan, "NaN is not a divergence"},
		"endless divergence":      {keyKLDivergence, inf, "+Inf is not a divergence"},
		"dense perplexity":        {keyPerplexityDense, float32(0.5), "0.5 is not a perplexity"},
		"no dense perplexity":     {keyPerplexityDense, drop{}, "missing"},
		"predict perplexity":      {keyPerplexityPredict, inf, "+Inf is not a perplexity"},
	}
	i := sample()
	good, err := i.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		keys := append(modelKeys(), good...)
		at := slices.IndexFunc(keys, func(kv gguf.KV) bool { return kv.Key == c.key })
		if at < 0 {
			t.Fatalf("%s: %s is not written", name, c.key)
		}
		if c.value == any(drop{}) {
			keys = slices.Delete(keys, at, at+1)
		} else {
			keys[at].Value = c.value
		}
		f := write(t, keys)
		_, _, err := Read(f)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		msg := err.Error()
		wantKey := c.key
		if strings.Contains(c.want, `key "`) { // the damage shows in another key
			wantKey = ""
		}
		if !strings.HasPrefix(msg, f.Path+": ") || !strings.Contains(msg, wantKey) || !strings.Contains(msg, c.want) || strings.Contains(msg, "\n") || len(msg) > len(f.Path)+200 {
			t.Errorf("%s: %q, want %q and key %q", name, msg, c.want, wantKey)
		}
	}
}

// Figures without the text that they were measured on mean nothing, whoever writes them.
func TestFiguresNeedTheirText(t *testing.T) {
	i := sample()
	i.HeldOut = Text{}
	if _, err := i.Keys(); err == nil || !strings.Contains(err.Error(), keyHeldOut) {
		t.Errorf("figures of layers: %v", err)
	}
	i.Layers = i.Layers[:1]
	for _, v := range i.Layers[0].measured() {
		*v = 0
	}
	if _, err := i.Keys(); err == nil || !strings.Contains(err.Error(), keyHeldOut) {
		t.Errorf("quality: %v", err)
	}
	if _, err := (&Info{}).Keys(); err == nil {
		t.Error("no layers are written")
	}
}
