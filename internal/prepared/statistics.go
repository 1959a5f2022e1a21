package prepared

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// A statistics file is a GGUF file without tensors: general.architecture and general.name of the model, and these keys.
const (
	keyProfileVersion = "powerinfer.profile.version"  // u32, 1
	keyProfileSHA256  = "powerinfer.profile.sha256"   // str, SHA-256 of the calibration text
	keyProfileTokens  = "powerinfer.profile.tokens"   // u64
	keyProfileLayers  = "powerinfer.profile.layers"   // u32
	keyProfileCount   = "powerinfer.profile.count.%d" // u32 array [n_ff], tokens for which each neuron was active
	keyProfileMass    = "powerinfer.profile.mass.%d"  // f32 array [n_ff], Σ|a_i|·‖d_i‖ over the tokens
	profileVersion    = 1
	maxProfileLayers  = 1 << 12
)

// WriteStats writes what was counted on a text of the given SHA-256 with the model in f.
func WriteStats(path string, f *gguf.File, sha256 string, s *neuron.Stats) error {
	if err := s.Check(); err != nil {
		return err
	}
	keys := named(f)
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: key, Value: v}) }
	add(keyProfileVersion, uint32(profileVersion))
	add(keyProfileSHA256, sha256)
	add(keyProfileTokens, s.Tokens)
	add(keyProfileLayers, uint32(len(s.Layers)))
	for l, counts := range s.Layers {
		add(fmt.Sprintf(keyProfileCount, l), counts)
		if s.Mass != nil {
			add(fmt.Sprintf(keyProfileMass, l), s.Mass[l])
		}
	}
	return gguf.Create(context.Background(), path, "GGUF", keys, nil, nil) // without tensors it takes no time that a context could end
}

// WriteUses writes which experts the tokens of texts with the given SHA-256 used, as counted with the model in f, and
// what it costs to leave some of them out; curve may be nil.
func WriteUses(path string, f *gguf.File, sha256 string, x *neuron.Experts, curve *Curve) error {
	counted, err := ExpertKeys(x, sha256)
	if err == nil && curve != nil {
		var keys []gguf.KV
		keys, err = curve.Keys()
		counted = append(counted, keys...)
	}
	if err != nil {
		return err
	}
	return gguf.Create(context.Background(), path, "GGUF", append(named(f), counted...), nil, nil)
}

// named returns the keys that tell which model f is.
func named(f *gguf.File) (keys []gguf.KV) {
	for _, k := range []string{"general.architecture", "general.name"} {
		if v, ok := f.Lookup(k); ok {
			keys = append(keys, gguf.KV{Key: k, Value: v})
		}
	}
	return keys
}

// ReadStats reads the statistics in f; ok is false if it is another kind of file.
func ReadStats(f *gguf.File) (s *neuron.Stats, ok bool, err error) {
	version, ok, err := f.Uint(keyProfileVersion)
	if !ok || err != nil {
		return nil, ok, err
	}
	if version != profileVersion {
		return nil, true, fmt.Errorf("%s: key %q: %d is not supported, %d is", f.Path, keyProfileVersion, version, profileVersion)
	}
	layers, ok, err := f.Uint(keyProfileLayers)
	if err == nil && (!ok || layers < 1 || layers > maxProfileLayers) {
		err = fmt.Errorf("%s: key %q: not a number from 1 to %d", f.Path, keyProfileLayers, maxProfileLayers)
	}
	if err != nil {
		return nil, true, err
	}
	s = &neuron.Stats{}
	if s.Tokens, ok, err = f.Uint(keyProfileTokens); err == nil && !ok {
		err = fmt.Errorf("%s: key %q is missing", f.Path, keyProfileTokens)
	}
	for l := 0; l < int(layers) && err == nil; l++ {
		err = readCounts(f, l, s)
	}
	if err != nil {
		return nil, true, err
	}
	if err := s.Check(); err != nil {
		return nil, true, fmt.Errorf("%s: %w", f.Path, err)
	}
	return s, true, nil
}

// readCounts appends a layer's counts, and its masses if there are any.
func readCounts(f *gguf.File, l int, s *neuron.Stats) error {
	key := fmt.Sprintf(keyProfileCount, l)
	v, _ := f.Lookup(key)
	counts, ok := v.([]uint32)
	if !ok {
		return fmt.Errorf("%s: key %q is missing or no array of u32", f.Path, key)
	}
	s.Layers = append(s.Layers, counts)
	mass, ok, err := f.Float32s(fmt.Sprintf(keyProfileMass, l))
	if ok && err == nil {
		s.Mass = append(s.Mass, mass)
	}
	return err
}
