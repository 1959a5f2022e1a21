package server_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/server/metrics"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

const (
	diskLayers = 2
	diskUsed   = 4
)

// expertsFile writes a model that consists mostly of experts.
func expertsFile(t *testing.T) *gguf.File {
	path := filepath.Join(t.TempDir(), "experts.gguf")
	if err := synth.Write(t.Context(), path, synth.Spec{
		Arch: "qwen3moe", Type: quant.Q4_0, Layers: diskLayers, Embd: 256, FF: 256, Experts: 64, Used: diskUsed, Heads: 2,
		Vocab: 512, Context: 512, Mixing: synth.Mixing{ExpertLaw: 1}, Activation: "silu", Seed: 5,
	}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// onDisk starts a server of f with experts on disk, with the least RAM and more bytes in addition.
func onDisk(t *testing.T, f *gguf.File, more int64) *live {
	m := metrics.New(false)
	l := start(t, func(o *choices) {
		o.file, o.Meter, o.model.Meter = f, m, m
		o.engine = func(e *engine.Options) {
			least, err := e.Least(f, placement.Layout{})
			if err != nil || least.OnDisk == 0 {
				t.Fatalf("the model does not stay on disk: %+v, %v", least, err)
			}
			ram := least.Need + more
			e.RAM = &ram
		}
	})
	m.Register(l.s)
	return l
}

// TestDisk: the server's figures of experts on disk add up, and its answers are the same as with everything in RAM.
func TestDisk(t *testing.T) {
	f := expertsFile(t)
	whole := start(t, func(o *choices) { o.file = f })
	l := onDisk(t, f, 2<<20)
	var kept, ahead, read, waited float64
	const n = 30
	for i := range 3 {
		body := fmt.Sprintf(`{"prompt":"%d tales of a fox","n_predict":%d,"ignore_eos":true,"temperature":0}`, i, n)
		answer := l.good("/completion", body)
		if want := whole.good("/completion", body)["content"]; answer["content"] != want {
			t.Errorf("with experts on disk the answer is %q, in RAM %q", answer["content"], want)
		}
		timings := answer["timings"].(map[string]any)
		of := func(key string) float64 { v, _ := timings[key].(float64); return v }
		if sum := of("units_ram_n") + of("units_ahead_n") + of("units_disk_n"); sum != (n-1)*diskLayers*diskUsed {
			t.Errorf("%v uses of experts by %d steps: %v", sum, n-1, timings)
		}
		if of("disk_wait_ms") > of("predicted_ms") || of("units_disk_n") > 0 && of("disk_bytes") == 0 {
			t.Errorf("the disk's part is more than the whole: %v", timings)
		}
		kept, ahead, read, waited = kept+of("units_ram_n"), ahead+of("units_ahead_n"), read+of("units_disk_n"), waited+of("disk_wait_ms")/1000
	}
	if kept == 0 || read == 0 {
		t.Errorf("%v uses in RAM and %v on disk", kept, read)
	}
	all := l.scrape()
	for tier, least := range map[string]float64{"ram": kept, "ahead": ahead, "disk": read} { // prompts use experts, too
		if got := value(all, "powerinfer_unit_uses_total", "tier="+tier); got < least {
			t.Errorf("%v uses with the tier %s are counted, answers tell of %v", got, tier, least)
		}
	}
	if got := value(all, "powerinfer_disk_waiting_seconds_total"); got < waited || got > value(all, "powerinfer_step_seconds_total") {
		t.Errorf("steps waited for %v s of %v; answers tell of %v", got, value(all, "powerinfer_step_seconds_total"), waited)
	}
	units, slots := value(all, "powerinfer_units", "tier=disk"), value(all, "powerinfer_units", "tier=ram")
	if units != 64*diskLayers || slots < diskLayers*diskUsed || slots >= units {
		t.Errorf("RAM has room for %v of %v units", slots, units)
	}
	for _, name := range []string{"powerinfer_disk_reads_total", "powerinfer_disk_read_bytes_total", "powerinfer_disk_reading_seconds_total"} {
		if value(all, name) <= 0 {
			t.Errorf("%s is %v", name, value(all, name))
		}
	}
	props, _ := l.get("/props")
	if got := at(t, props, "disk", "kept_units"); got != slots {
		t.Errorf("/props tells of %v units in RAM, metrics of %v", got, slots)
	}
	if props, _ := whole.get("/props"); props["disk"] != nil {
		t.Errorf("all is in RAM, and /props tells of %v", props["disk"])
	}
}
