package eval

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestSharedPrefixOfRecurrent: a recurrent model, too, reads the prefix that choices share once, also for several
// questions at a time. Scores are the same as for each choice alone.
func TestSharedPrefixOfRecurrent(t *testing.T) {
	const endings = "\n0\nThe one.\nAnd so on.\nBut then.\nWe know.\n"
	d, err := task.Parse(task.HellaSwag, "x", []byte("First. "+tale+endings+"Second. "+tale+endings+"Third. "+tale+endings+"Fourth. "+tale+endings), task.ByForm)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"nemotron_h", "mamba2"} {
		f := synthtest.File(t, synth.Spec{Arch: arch, Type: quant.F32, Layers: 3, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5})
		for _, parallel := range []int{1, 4} {
			e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 2048, Sequences: 64}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			all := make([][]task.Likelihood, len(d.Items))
			q := Questions{Data: d, Items: []int{0, 1, 2, 3}, Parallel: parallel, Each: func(i int, l []task.Likelihood) error { all[i] = l; return nil }}
			if err := q.Run(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			stats := e.Stats()
			once, alone := 0, 0
			for i := range d.Items {
				spans, err := spansOf(e.Tokenizer(), d, &d.Items[i])
				if err != nil {
					t.Fatal(err)
				}
				shared := sharedBy(spans)
				once += shared
				for c, span := range spans {
					once += span.to - 1 - shared
					alone += span.to - 1
					s := e.NewSequence()
					want, err := span.evaluate(e, s)
					e.Release(s)
					if err != nil || all[i][c].Tokens != want.Tokens || math.Abs(all[i][c].Sum-want.Sum) > llamaTolerance {
						t.Errorf("%s, question %d: choice %d is %+v, alone %+v: %v", arch, i, c, all[i][c], want, err)
					}
				}
			}
			if read := int(stats.Read + stats.Decoded); read != once {
				t.Errorf("%s, %d questions at a time: %d tokens were read, not %d; each choice from its start is %d", arch, parallel, read, once, alone)
			}
		}
	}
}
