package session

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestFileSampling: a file's values replace the defaults, key by key and in any numeric type. Unusable values give
// notes.
func TestFileSampling(t *testing.T) {
	read := func(keys map[string]any) (sample.Options, []string, []string) {
		f := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
		for name, v := range keys {
			f.Set("general.sampling."+name, v)
		}
		return FileSampling(f, 4096)
	}
	if s, said, notes := read(nil); !reflect.DeepEqual(s, sample.DefaultOptions()) || said != nil || notes != nil {
		t.Errorf("%+v, %q, %q", s, said, notes)
	}
	want := sample.DefaultOptions()
	want.Temperature, want.TopK, want.TopP, want.MinP, want.XTC.Probability, want.XTC.Threshold = 0, 20, 0.5, 0.25, 0.125, 0.0625
	want.RepeatPenalty, want.RepeatLastN, want.Mirostat.Version, want.Mirostat.Tau, want.Mirostat.Eta = 1.5, 4096, 2, 4, 0.5
	want.Samplers = []string{"top_k", "temperature"}
	s, said, notes := read(map[string]any{
		"temp": int32(0), "top_k": float32(20), "top_p": float32(0.5), "min_p": 0.25, "xtc_probability": float32(0.125), "xtc_threshold": float32(0.0625),
		"penalty_repeat": float32(1.5), "penalty_last_n": int64(-1), "mirostat": uint8(2), "mirostat_tau": uint32(4), "mirostat_eta": 0.5, "sequence": "top_k;temperature",
	})
	if !reflect.DeepEqual(s, want) || len(said) != 12 || said[1] != "temp 0" || notes != nil {
		t.Errorf("%+v\nwant %+v, said %q, notes %q", s, want, said, notes)
	}
	s, said, notes = read(map[string]any{"temp": "hot", "top_k": 1.5, "top_p": float32(7), "sequence": "wish", "min_p": float32(0.5), "penalty_repeat": float32(0)})
	want = sample.DefaultOptions()
	want.MinP = 0.5
	if !reflect.DeepEqual(s, want) || !slices.Equal(said, []string{"min_p 0.5"}) || len(notes) != 5 || !strings.Contains(notes[0], `"general.sampling.sequence"`) {
		t.Errorf("%+v, said %q, notes %q", s, said, notes)
	}
}
