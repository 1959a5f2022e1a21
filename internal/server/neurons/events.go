package neurons

import (
	"encoding/base64"
	"math"
	"net/http"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// period is the time between two events; quiet is the time without events after which clients are sent a sign of life.
const (
	period = 250 * time.Millisecond
	quiet  = 10 * time.Second
)

// event says what happened since the previous one.
type event struct {
	Model      string    `json:"model"`
	MS         float64   `json:"ms"`         // since the event before
	Threshold  float32   `json:"threshold"`  // threshold of the predictors' logits
	Generation spent     `json:"generation"` // steps of single tokens
	Prompts    spent     `json:"prompts"`    // steps with parts of prompts
	Computed   []float64 `json:"computed"`   // [layers] share of the neurons that were computed for a token
	Active     []float64 `json:"active"`     // [layers] share of non-zero ones
	Map        []string  `json:"map"`        // [layers] see picture
}

// parts holds the times of a step's parts, in milliseconds.
type parts struct {
	Predictor float64 `json:"predictor_ms"`
	Attention float64 `json:"attention_ms"`
	Neurons   float64 `json:"neurons_ms"`
	Head      float64 `json:"head_ms"`
	Other     float64 `json:"other_ms"`
}

func partsOf(t *compute.Times) parts {
	return parts{
		Predictor: milliseconds(t[compute.PartPredictor]), Attention: milliseconds(t[compute.PartAttention]),
		Neurons: milliseconds(t[compute.PartNeurons]), Head: milliseconds(t[compute.PartHead]), Other: milliseconds(t[compute.PartRest]),
	}
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// spent holds the time that steps took.
type spent struct {
	Steps  int64   `json:"steps"`
	Tokens int64   `json:"tokens"` // evaluated
	Chosen int64   `json:"chosen"`
	MS     float64 `json:"ms"`
	parts          // of MS, the time in which the CPU computed
	GPU    *parts  `json:"gpu"`         // in which GPUs computed, by their own clocks; nil: no GPU takes part, or it has no clock
	Both   float64 `json:"together_ms"` // in which the CPU and a GPU computed at the same time
	Bytes  int64   `json:"bytes"`       // bytes read of feed-forward weights
	RAM    int64   `json:"ram_bytes"`
	Dense  int64   `json:"dense_bytes"` // what a dense model would have read
	Disk   *disk   `json:"disk"`        // nil: nothing stays on disk
}

// disk is what was done with experts or neurons that stay on disk.
type disk struct {
	Kept  int64   `json:"kept"`               // uses of units that were in RAM
	Ahead int64   `json:"ahead"`              // uses of units that were read ahead
	Read  int64   `json:"read"`               // uses of units that were on disk
	Left  int64   `json:"left_out,omitempty"` // uses of experts that were left out instead of read
	Reads int64   `json:"reads"`
	Bytes int64   `json:"bytes"`
	Busy  float64 `json:"reading_ms"` // reads were under way
	Wait  float64 `json:"waiting_ms"` // of the step's time, within the CPU's parts
}

func spentOf(s *engine.Spent, onDisk bool) spent {
	out := spent{
		Steps: s.Steps, Tokens: s.Tokens, Chosen: s.Chosen, MS: milliseconds(s.Time),
		parts: partsOf(&s.Work.CPU), Both: milliseconds(s.Work.Together),
		Bytes: s.Read.All, RAM: s.Read.RAM, Dense: s.Read.Dense,
	}
	if u := &s.Units; onDisk {
		out.Disk = &disk{u.Hits, u.GuessesUsed, u.Misses, u.Left, u.Reads, u.Bytes, milliseconds(u.Busy), milliseconds(u.Wait)}
	}
	if s.Work.GPU.Sum() > 0 {
		gpu := partsOf(&s.Work.GPU)
		out.GPU = &gpu
	}
	return out
}

// A watched is the model that a client watches.
type watched struct {
	model *server.Model
	watch *engine.Watch // nil: no model has been there yet
}

// look begins to watch m, if another model or none was watched.
func (v *watched) look(m *server.Model) {
	if m != v.model {
		v.close()
		v.model, v.watch = m, m.Engine.Watch()
	}
}

func (v *watched) close() {
	if v.watch != nil {
		v.watch.Close()
	}
}

// watch reports the model's work as long as the client listens. A model that is loaded meanwhile is watched from then
// on.
func watch(s *server.Server, w http.ResponseWriter, r *http.Request) error {
	out := server.NewEventStream(w)
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	var v watched
	defer v.close()
	if m, release, err := s.Models.Peek(r.URL.Query().Get("model")); err == nil {
		v.look(m)
		release()
	}
	told := time.Now()
	if err := out.Ping(); err != nil { // from now on the client gets all events
		return nil
	}
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-s.Stopping():
			return nil
		case <-ticks.C:
		}
		var e event
		happened := false
		if m, release, err := s.Models.Peek(r.URL.Query().Get("model")); err == nil {
			v.look(m)
			e, happened = read(m, v.watch)
			release()
		}
		now := time.Now()
		e.MS = float64(now.Sub(told).Milliseconds())
		var err error
		switch {
		case happened:
			err = out.Send(e)
		case now.Sub(told) > quiet:
			err = out.Ping()
		default:
			continue
		}
		if told = now; err != nil {
			return nil // the client has gone
		}
	}
}

// read returns what happened since the last reading, and whether anything did.
func read(m *server.Model, look *engine.Watch) (e event, happened bool) {
	a := look.Read()
	if a.Single.Steps+a.Prompts.Steps == 0 {
		return e, false
	}
	onDisk := m.Engine.UnitUse().Units > 0
	e = event{Model: m.Name, Threshold: m.Engine.Threshold(), Generation: spentOf(&a.Single, onDisk), Prompts: spentOf(&a.Prompts, onDisk)}
	for l := range a.Neurons {
		u := &a.Neurons[l]
		share := func(n int64) float64 {
			if u.Mode == model.Off {
				return 1
			}
			return math.Round(1e4*float64(n)/float64(max(1, u.Tokens*int64(u.Neurons)))) / 1e4
		}
		e.Computed, e.Active = append(e.Computed, share(u.Predicted)), append(e.Active, share(u.Active))
		e.Map = append(e.Map, picture(a.Bins[l], u, m.Engine.Placed(l)))
	}
	return e, true
}

// picture returns a layer's bins, a byte each in base64: 255·√s for neurons that a share s of the tokens needed, or
// experts that a share s of the tokens used. For neurons on a GPU that computes without a set only the sum is known,
// and each has the mean.
func picture(bins []uint32, u *model.NeuronUse, at compute.Place) string {
	shades := make([]byte, len(bins))
	units := u.Neurons
	if u.Experts > 0 {
		units = u.Experts
	}
	perBin := float64(u.Tokens) * float64(units) / float64(len(bins))
	hot := 0 // bins of neurons on a GPU
	if at.Tier >= 0 && u.Neurons > 0 && u.Experts == 0 {
		hot = at.Bound * len(bins) / u.Neurons
	}
	sum, counted := int64(0), int64(0)
	for i, n := range bins {
		sum += int64(n)
		if i < hot {
			counted += int64(n)
		}
	}
	mean := 0.0
	if hot > 0 && counted == 0 {
		mean = float64(u.Gated-sum) / float64(hot)
	}
	for i, n := range bins {
		v := float64(n)
		if i < hot && counted == 0 {
			v = mean
		}
		share := 1.0 // a dense layer counts nothing
		if u.Mode != model.Off || u.Experts > 0 {
			share = min(1, max(0, v)/max(perBin, 1))
		}
		shades[i] = byte(math.Round(255 * math.Sqrt(share)))
	}
	return base64.StdEncoding.EncodeToString(shades)
}
