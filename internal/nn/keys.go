package nn

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Keys reads the metadata of one file. It keeps the first error, so that a list of reads needs one check. A key that
// begins with a dot belongs to the architecture, and files have the architecture's name before the dot.
type Keys struct {
	File  *gguf.File
	Arch  string // general.architecture
	Act   string // the user's choice of an activation; empty: none
	Extra int    // MTP layers; arrays may have their numbers after the model's layers
	Err   error

	AllDraft bool // the file is a draft model with layers that other files call MTP layers

	layers int // the model's layers, after Layers
}

// MaxWidth and MaxLayers bound numbers from outside: a file with larger ones is taken for damaged.
const (
	MaxWidth  = 1 << 20
	MaxLayers = 1 << 12
)

// name returns a key as files have it.
func (k *Keys) name(key string) string {
	if key[0] == '.' {
		return k.Arch + key
	}
	return key
}

// Fail records an error with the file's path, unless there is one already.
func (k *Keys) Fail(format string, args ...any) {
	if k.Err == nil {
		k.Err = fmt.Errorf("%s: %s", k.File.Path, fmt.Sprintf(format, args...))
	}
}

// Count reads an integer in [1, max]. If it is absent or 0, which means absent in some files, Count returns def; if def
// is 0, too, that is an error.
func (k *Keys) Count(key string, def, max int) int {
	v, ok, err := k.File.Uint(k.name(key))
	ok = ok && (v > 0 || def == 0)
	switch {
	case err != nil:
		if k.Err == nil {
			k.Err = err
		}
	case !ok && def == 0:
		k.Fail("key %q is missing", k.name(key))
	case !ok:
		return def
	case v < 1 || v > uint64(max):
		k.Fail("key %q: %d is outside 1…%d", k.name(key), v, max)
	default:
		return int(v)
	}
	return 1
}

// RequiredCount reads an integer in [1, max] of a key that files must have.
func (k *Keys) RequiredCount(key string, max int) int { return k.Count(key, 0, max) }

// Same is Count for a key that may have an array with a number for each layer. All must be equal, except that 0 says
// nothing, as in layers without experts.
func (k *Keys) Same(key string, def, max int) int {
	if v, ok := k.File.Lookup(k.name(key)); !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		return k.Count(key, def, max)
	}
	list, _, err := k.File.Int32s(k.name(key))
	if err != nil {
		k.Err = cmp.Or(k.Err, err)
		return 1
	}
	if k.layers > 0 && !k.fits(len(list), k.layers) {
		k.Fail("key %q: %d numbers for %d layers", k.name(key), len(list), k.layers)
		return 1
	}
	same := 0
	for l, v := range list {
		switch n := int(v); {
		case n < 0 || n > max:
			k.Fail("key %q: %d of layer %d is outside 1…%d", k.name(key), n, l, max)
			return 1
		case same > 0 && n > 0 && n != same:
			k.Fail("key %q: layers with %d and with %d are not supported in one model; all with the same number are", k.name(key), same, n)
			return 1
		default:
			same = cmp.Or(same, n)
		}
	}
	if same = cmp.Or(same, def); same == 0 {
		k.Fail("key %q is missing", k.name(key))
	}
	return cmp.Or(same, 1)
}

// Layers reads the number of the model's layers. MTP layers, which files count among them, are Extra.
func (k *Keys) Layers() int {
	const key = ".nextn_predict_layers"
	layers := k.RequiredCount(".block_count", MaxLayers)
	n, _, err := k.File.Uint(k.name(key))
	switch {
	case k.Err != nil:
	case err != nil:
		k.Err = err
	case k.AllDraft && n == uint64(layers):
	case n >= uint64(layers):
		k.Fail("key %q: %d of %d layers predict further tokens, which leaves none that predict the next", k.name(key), n, layers)
	default:
		k.Extra = int(n)
	}
	k.layers = layers - k.Extra
	return k.layers
}

// fits reports whether an array of that length may have a number for each of n layers: one for each, or for each of the
// model's layers and of the MTP layers. Where it ends before the first MTP layer, that has the last layer's number.
func (k *Keys) fits(length, n int) bool {
	return length == n || length == n+k.Extra || k.layers > 0 && (length == k.layers || length == k.layers+k.Extra)
}

// Context reads the number of positions that the model was trained for.
func (k *Keys) Context() int { return k.RequiredCount(".context_length", 1<<30) }

// RMSEpsilon reads the epsilon of RMSNorms. def is for files that do not say it.
func (k *Keys) RMSEpsilon(def float64) float32 {
	return float32(k.Within(".attention.layer_norm_rms_epsilon", def, 0, 1))
}

// LayerNormEpsilon reads the epsilon of LayerNorms. def is for files that do not say it.
func (k *Keys) LayerNormEpsilon(def float64) float32 {
	return float32(k.Within(".attention.layer_norm_epsilon", def, 0, 1))
}

// OwnKV reads how many of n layers, the first ones, have their own keys and values; the others read an earlier layer's.
// usual is for files that do not say it; 0: all have.
func (k *Keys) OwnKV(n, usual int) int {
	const key = ".attention.shared_kv_layers"
	shared, ok, err := k.File.Uint(k.name(key))
	if !ok && usual > 0 {
		shared = uint64(max(0, n-usual))
	}
	if err != nil || shared > uint64(n) {
		k.Fail("key %q: it is not a number of layers up to %d", k.name(key), n)
		return n
	}
	return n - int(shared)
}

// LastOfKind returns the layer with the keys and values that layer i reads: the last of the first own layers that has a
// window exactly if layer i has one. It is -1 if there is none.
func LastOfKind(windowed []bool, own, i int) int {
	for l := own - 1; l >= 0; l-- {
		if windowed[l] == windowed[i] {
			return l
		}
	}
	return -1
}

// maxDeviations bounds FFN.TopK in magnitude: beyond it all gates become zero, or all stay positive.
const maxDeviations = 10

// TopK reads FFN.TopK of each of n layers; nil: gates stay as they are.
func (k *Keys) TopK(n int) []*float32 {
	const key = ".activation_sparsity_scale"
	out := make([]*float32, n)
	scales, _, err := k.File.Float32s(k.name(key))
	if err != nil || scales != nil && len(scales) != n {
		k.Fail("key %q: it is not a list of %d numbers", k.name(key), n)
		return out
	}
	for l, v := range scales {
		switch {
		case math.IsNaN(float64(v)) || v > maxDeviations:
			k.Fail("key %q: %g of layer %d is not a number up to %d", k.name(key), v, l, maxDeviations)
			return out
		case v > -maxDeviations: // minus infinity: they stay
			out[l] = &scales[l]
		}
	}
	return out
}

// Optional reads an integer in [1, max]; absent and 0 are 0.
func (k *Keys) Optional(key string, max int) int {
	if v, ok, err := k.File.Uint(k.name(key)); err == nil && (!ok || v == 0) {
		return 0
	}
	return k.RequiredCount(key, max)
}

// Says reports whether the file has key with a number other than 0, or an array.
func (k *Keys) Says(key string) bool {
	v, ok := k.File.Lookup(k.name(key))
	return ok && !reflect.ValueOf(v).IsZero()
}

// Counts reads an integer in [1, MaxWidth] for each of n layers: one for all of them, or an array. def replaces absent
// numbers and 0; if def is nil, they are an error.
func (k *Keys) Counts(key string, n int, def func(layer int) int) []int {
	return k.CountsFrom(1, key, n, def)
}

// CountsFrom is Counts with integers from least on. If least is 0, a 0 in the file means 0 and not def.
func (k *Keys) CountsFrom(least int32, key string, n int, def func(layer int) int) []int {
	out := make([]int, n)
	if v, ok := k.File.Lookup(k.name(key)); ok && reflect.ValueOf(v).Kind() == reflect.Slice {
		list, _, err := k.File.Int32s(k.name(key))
		switch {
		case err != nil && k.Err == nil:
			k.Err = err
		case err == nil && !k.fits(len(list), n):
			k.Fail("key %q: %d numbers for %d layers", k.name(key), len(list), n)
		}
		for l := range out {
			out[l] = 1
			if k.Err != nil {
				continue
			}
			switch v := list[min(l, len(list)-1)]; {
			case v == 0 && least > 0 && def != nil:
				out[l] = def(l)
			case v < least || v > MaxWidth:
				k.Fail("key %q: %d of layer %d is outside %d…%d", k.name(key), v, l, least, MaxWidth)
			default:
				out[l] = int(v)
			}
		}
		return out
	}
	v, ok, err := k.File.Uint(k.name(key))
	if none := ok && err == nil && v == 0; none && least == 0 {
		return out
	} else if ok && !(none && def != nil) || def == nil {
		return slices.Repeat([]int{k.RequiredCount(key, MaxWidth)}, n)
	}
	for l := range out {
		out[l] = def(l)
	}
	return out
}

// PerLayer reads an array that says yes or no of each of n layers. It returns false where the key has no array.
func (k *Keys) PerLayer(key string, n int) (yes []bool, said bool) {
	if v, ok := k.File.Lookup(k.name(key)); !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		return nil, false
	}
	yes, _, err := k.File.Bools(k.name(key))
	switch {
	case err != nil:
		k.Err = cmp.Or(k.Err, err)
	case !k.fits(len(yes), n):
		k.Fail("key %q: %d values for %d layers", k.name(key), len(yes), n)
	default:
		for len(yes) < n {
			yes = append(yes, yes[len(yes)-1])
		}
		return yes[:n:n], true
	}
	return nil, false
}

// Numbers reads a number for each of n layers, and for each MTP layer: one for all of them, or an array. Absent numbers
// are 0.
func (k *Keys) Numbers(key string, n int) []float32 {
	out := make([]float32, n+k.Extra)
	v, ok := k.File.Lookup(k.name(key))
	if !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		one := float32(k.Within(key, 0, -math.MaxFloat32, math.MaxFloat32))
		for i := range out {
			out[i] = one
		}
		return out
	}
	list, _, err := k.File.Float32s(k.name(key))
	switch {
	case err != nil:
		k.Err = cmp.Or(k.Err, err)
	case len(list) != n && len(list) != len(out):
		k.Fail("key %q: %d numbers for %d layers", k.name(key), len(list), n)
	case slices.ContainsFunc(list, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }):
		k.Fail("key %q: not all of its elements are numbers", k.name(key))
	default:
		copy(out, list)
	}
	return out
}

// Float reads a number; absent is def.
func (k *Keys) Float(key string, def float64) float64 {
	v, ok, err := k.File.Float(k.name(key))
	if err != nil && k.Err == nil {
		k.Err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// Colour reads a number of red, of green and of blue.
func (k *Keys) Colour(key string) (rgb [3]float32) {
	list, _, err := k.File.Float32s(k.name(key))
	if err != nil || len(list) != len(rgb) || slices.ContainsFunc(list, func(x float32) bool { return !(x >= -MaxScale && x <= MaxScale) }) {
		k.Fail("key %q: it is not a list of %d numbers", k.name(key), len(rgb))
		return [3]float32{1, 1, 1}
	}
	return [3]float32(list)
}

// RequiredNumbers reads a number of each of n layers: an array, or one for all.
func (k *Keys) RequiredNumbers(key string, n int) []float32 {
	if v, ok := k.File.Lookup(k.name(key)); !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		if !ok {
			k.Fail("key %q is missing", k.name(key))
		}
		return slices.Repeat([]float32{float32(k.Within(key, 0, -MaxScale, MaxScale))}, n)
	}
	list, _, err := k.File.Float32s(k.name(key))
	if err != nil || len(list) != n || slices.ContainsFunc(list, func(x float32) bool { return !(x >= -MaxScale && x <= MaxScale) }) {
		k.Fail("key %q: it is not a list of %d numbers", k.name(key), n)
		return make([]float32, n)
	}
	return list
}

// Within reads a number from low to high, and not NaN. If it is absent, Within returns def. A 0 below low means absent,
// too.
func (k *Keys) Within(key string, def, low, high float64) float64 {
	v := k.Float(key, def)
	if v == 0 && low > 0 {
		v = def
	}
	if !(v >= low && v <= high) {
		k.Fail("key %q: %g is not a number from %g to %g", k.name(key), v, low, high)
	}
	return v
}

// Factor reads a factor; absent is def, and 0 is 1.
func (k *Keys) Factor(key string, def float64) float32 {
	return cmp.Or(float32(k.Within(key, def, 0, MaxScale)), 1)
}

// Flag reads a truth value; absent is def.
func (k *Keys) Flag(key string, def bool) bool {
	v, ok, err := k.File.Bool(k.name(key))
	if err != nil && k.Err == nil {
		k.Err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// Divided reports whether key has an array with a number other than 0: rope.dimension_sections, which divides the
// rotated pairs of a head among the coordinates of a picture.
func (k *Keys) Divided(key string) bool {
	v, _, err := k.File.Int32s(k.name(key))
	if err != nil && k.Err == nil {
		k.Err = err
	}
	return slices.ContainsFunc(v, func(n int32) bool { return n != 0 })
}

// Text reads a text; absent and empty are def.
func (k *Keys) Text(key, def string) string {
	v, _, err := k.File.String(k.name(key))
	if err != nil && k.Err == nil {
		k.Err = err
	}
	return cmp.Or(v, def)
}
