package prepared

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// The keys of uses of experts, as docs/prepared-file.md lists them. A model may have them, and a file of statistics.
const (
	keyExperts       = "powerinfer.experts." // prefix of all of them
	keyExpertVersion = keyExperts + "version"
	keyExpertSHA256  = keyExperts + "sha256"
	keyExpertTexts   = keyExperts + "texts"
	keyExpertTokens  = keyExperts + "tokens"
	keyExpertLayers  = keyExperts + "layers"
	keyExpertPairs   = keyExperts + "pairs"
	keyExpertUses    = keyExperts + "uses.%d"
	keyExpertAgain   = keyExperts + "again.%d"
	keyExpertActive  = keyExperts + "active.%d"
)

// ExpertVersion is the version of these keys that this package reads and writes.
const ExpertVersion = 1

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 12

// ExpertKeys returns the keys of x, which was counted on texts of the given SHA-256. ReadExperts gives x back from
// them.
func ExpertKeys(x *neuron.Experts, sha256 string) ([]gguf.KV, error) {
	if err := (Text{SHA256: sha256, Tokens: x.Tokens()}).check(keyExperts[:len(keyExperts)-1]); err != nil {
		return nil, err
	}
	if err := x.Check(); err != nil {
		return nil, err
	}
	var keys []gguf.KV
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: key, Value: v}) }
	var names []string
	var tokens []uint64
	for _, t := range x.Texts {
		names, tokens = append(names, t.Name), append(tokens, t.Tokens)
	}
	add(keyExpertVersion, uint32(ExpertVersion))
	add(keyExpertSHA256, sha256)
	add(keyExpertTexts, names)
	add(keyExpertTokens, tokens)
	add(keyExpertLayers, uint32(len(x.Layers)))
	add(keyExpertPairs, x.Pairs)
	for l := range x.Layers {
		y := &x.Layers[l]
		if y.Count() == 0 {
			continue
		}
		add(fmt.Sprintf(keyExpertUses, l), slices.Concat(y.Uses...))
		add(fmt.Sprintf(keyExpertAgain, l), y.Again)
		if y.Active != nil {
			add(fmt.Sprintf(keyExpertActive, l), slices.Concat(y.Active...))
		}
	}
	return keys, nil
}

// ReadExperts reads which experts tokens used, in the order in which f has them, and the SHA-256 of the texts; x is nil
// where f does not say it. Errors are one line and name file and key.
func ReadExperts(f *gguf.File) (x *neuron.Experts, sha256 string, err error) {
	r := &reader{f: f}
	if !r.has(keyExpertVersion) {
		return nil, "", nil
	}
	if v := value(r, f.Uint, keyExpertVersion); r.err == nil && v != ExpertVersion {
		r.bad(keyExpertVersion, "%d is not supported, %d is; a newer powerinfer may read the file", v, ExpertVersion)
	}
	names, tokens := value(r, f.Strings, keyExpertTexts), counts[uint64](r, keyExpertTokens)
	if r.err == nil && (len(names) < 1 || len(names) > neuron.MostTexts || len(tokens) != len(names)) {
		r.bad(keyExpertTexts, "%d names of texts and %d numbers of tokens; give as many, up to %d", len(names), len(tokens), neuron.MostTexts)
	}
	sha256 = value(r, f.String, keyExpertSHA256)
	layers := r.count(keyExpertLayers, maxLayers)
	x = &neuron.Experts{Pairs: counts[uint64](r, keyExpertPairs)}
	for i := 0; i < len(names) && r.err == nil; i++ {
		x.Texts = append(x.Texts, neuron.Text{Name: names[i], Tokens: tokens[i]})
	}
	for l := 0; l < layers && r.err == nil; l++ {
		x.Layers = append(x.Layers, r.expertLayer(l, len(names)))
	}
	if r.err != nil {
		return nil, "", r.err
	}
	err = (Text{SHA256: sha256, Tokens: x.Tokens()}).check(keyExperts[:len(keyExperts)-1])
	if err == nil {
		err = x.Check()
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: uses of experts: %w", f.Path, err)
	}
	return x, sha256, nil
}

// expertLayer reads a layer's counts in texts; the zero value if it has no experts.
func (r *reader) expertLayer(l, texts int) (y neuron.ExpertLayer) {
	key := fmt.Sprintf(keyExpertUses, l)
	if !r.has(key) {
		return y
	}
	uses := counts[uint32](r, key)
	n := len(uses) / texts
	if r.err == nil && (n < 1 || n > maxExperts || len(uses) != n*texts) {
		r.bad(key, "%d numbers for %d texts and up to %d experts", len(uses), texts, maxExperts)
	}
	again := counts[uint64](r, fmt.Sprintf(keyExpertAgain, l))
	if r.err != nil {
		return y
	}
	y.Uses, y.Again = slices.Collect(slices.Chunk(uses, n)), again
	if key = fmt.Sprintf(keyExpertActive, l); !r.has(key) {
		return y
	}
	active := counts[uint32](r, key)
	ff := len(active) / n
	if r.err == nil && (ff < 1 || ff > maxWidth || len(active) != n*ff) {
		r.bad(key, "%d numbers for %d experts", len(active), n)
	}
	if r.err == nil {
		y.Active = slices.Collect(slices.Chunk(active, ff))
	}
	return y
}

// counts reads an array of numbers of type T.
func counts[T uint32 | uint64](r *reader, key string) []T {
	return value(r, func(key string) ([]T, bool, error) {
		v, ok := r.f.Lookup(key)
		list, typed := v.([]T)
		if ok && !typed {
			return nil, true, fmt.Errorf("%s: %w", r.f.Path, bad(key, "it is %T, not an array of %T", v, *new(T)))
		}
		return list, ok, nil
	}, key)
}
