package prepared

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// reader reads keys of one file and keeps the first error, so that a list of reads needs one check.
type reader struct {
	f   *gguf.File
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) bad(key, format string, args ...any) {
	r.fail(fmt.Errorf("%s: %w", r.f.Path, bad(key, format, args...)))
}

// value reads a key by one of gguf.File's typed getters; absent is an error.
func value[T any](r *reader, get func(string) (T, bool, error), key string) T {
	v, ok, err := get(key)
	if err != nil {
		r.fail(err)
	} else if !ok {
		r.bad(key, "missing from a prepared file")
	}
	return v
}

// list reads an array of one value per layer.
func list[T any](r *reader, get func(string) ([]T, bool, error), key string, layers int) []T {
	v := value(r, get, key)
	if r.err == nil && len(v) != layers {
		r.bad(key, "%d elements for %d layers", len(v), layers)
	}
	if len(v) != layers {
		return make([]T, layers)
	}
	return v
}

// count reads an integer in 1…most.
func (r *reader) count(key string, most uint64) int {
	v := value(r, r.f.Uint, key)
	if r.err == nil && (v < 1 || v > most) {
		r.bad(key, "%d is outside 1…%d", v, most)
	}
	if v > most {
		return 0
	}
	return int(v)
}

func (r *reader) text(prefix string) Text {
	return Text{SHA256: value(r, r.f.String, prefix+".sha256"), Tokens: value(r, r.f.Uint, prefix+".tokens")}
}

func (r *reader) has(key string) bool { _, ok := r.f.Lookup(key); return ok }

// Read reads and validates the keys of a prepared file; ok is false where f is not prepared (it has no
// powerinfer.version). Errors are one line and name file and key.
func Read(f *gguf.File) (info Info, ok bool, err error) {
	r := &reader{f: f}
	if !r.has(keyVersion) {
		return Info{}, false, nil
	}
	if v := value(r, f.Uint, keyVersion); r.err == nil && v != Version {
		r.bad(keyVersion, "%d is not supported, %d is; a newer powerinfer may read the file", v, Version)
	}
	arch := value(r, f.String, "general.architecture")
	layers := r.count(arch+".block_count", maxLayers)
	ff := r.count(arch+".feed_forward_length", maxWidth)
	if r.err != nil {
		return Info{}, true, r.err
	}
	info = Info{
		Activation:  value(r, f.String, keyActivation),
		Input:       Residual,
		Calibration: r.text(keyCalibration),
	}
	if info.Activation == "fatrelu" {
		info.ActivationThreshold = float32(value(r, f.Float, keyActivationThreshold))
	}
	if r.has(keyThreshold) {
		info.Threshold = float32(value(r, f.Float, keyThreshold))
	}
	if r.has(keyInput) {
		info.Input = Input(value(r, f.String, keyInput))
	}
	info.Layers = r.layers(layers)
	r.measured(&info)
	if r.err != nil {
		return Info{}, true, r.err
	}
	if err := info.check(ff); err != nil {
		return Info{}, true, fmt.Errorf("%s: %w", f.Path, err)
	}
	return info, true, nil
}

func (r *reader) layers(n int) []Layer {
	modes := list(r, r.f.Strings, keyMode, n)
	ranks := list(r, r.f.Int32s, keyRank, n)
	always := list(r, r.f.Int32s, keyAlwaysOn, n)
	out := make([]Layer, n)
	for l := range out {
		y := &out[l]
		y.Mode, y.Rank, y.AlwaysOn = Mode(modes[l]), int(ranks[l]), int(always[l])
		y.Frequency = value(r, r.f.Float32s, keyFrequency(l))
		if r.has(keyOrder(l)) {
			y.Order = value(r, r.f.Int32s, keyOrder(l))
		}
	}
	return out
}

// measured reads what was measured on held-out text: nothing, the layers' figures, or these and the quality.
func (r *reader) measured(info *Info) {
	if r.has(keyHeldOut+".sha256") || r.has(keyHeldOut+".tokens") {
		info.HeldOut = r.text(keyHeldOut)
		for k, key := range measuredKeys() {
			for l, v := range list(r, r.f.Float32s, key, len(info.Layers)) {
				*info.Layers[l].measured()[k] = v
			}
		}
	}
	if r.has(keyKLDivergence) || r.has(keyPerplexityDense) || r.has(keyPerplexityPredict) {
		info.Quality = &Quality{
			KLDivergence:      float32(value(r, r.f.Float, keyKLDivergence)),
			PerplexityDense:   float32(value(r, r.f.Float, keyPerplexityDense)),
			PerplexityPredict: float32(value(r, r.f.Float, keyPerplexityPredict)),
		}
	}
}
