package session

import (
	"fmt"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// FileSampling returns the sampling that f's publisher recommends: the defaults with the values of the keys
// general.sampling.*, for a context of this many tokens. said lists these values, as in "temp 0.6". notes has a line
// for each key that cannot be used.
func FileSampling(f *gguf.File, context int) (o sample.Options, said, notes []string) {
	o = sample.DefaultOptions()
	read := func(name string, set func(o *sample.Options, key string) error) {
		key := "general.sampling." + name
		v, ok := f.Lookup(key)
		if !ok {
			return
		}
		changed := o
		err := set(&changed, key)
		if err == nil {
			err = changed.Check(1) // no token is named
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("key %q of the file is not used: %s", key, strings.TrimPrefix(err.Error(), "sample: ")))
			return
		}
		o, said = changed, append(said, fmt.Sprintf("%s %v", name, v))
	}
	read("sequence", func(o *sample.Options, key string) error {
		text, _, err := f.String(key)
		if err == nil {
			o.Samplers, err = sample.ParseSamplers(text)
		}
		return err
	})
	for _, n := range sample.Numbers() {
		if n.File == "" {
			continue
		}
		read(n.File, func(o *sample.Options, key string) error {
			v, _, err := f.Float(key)
			if err == nil && n.Whole() && (v != math.Trunc(v) || math.Abs(v) > math.MaxInt32) {
				err = fmt.Errorf("%v is not a whole number", v)
			}
			if err == nil {
				n.Set(o, v, context)
			}
			return err
		})
	}
	return o, said, notes
}
