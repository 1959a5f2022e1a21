package planreport

import (
	"encoding/json"
	"io"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// number is null in JSON if it has no meaning.
type number float64

func (f number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// planJSON is the output of plan --json; bytes, seconds and bytes per second throughout. Figures are null where no
// speed is predicted.
type planJSON struct {
	Model        string            `json:"model"`
	Type         string            `json:"type"`
	Sparse       string            `json:"sparse"`
	Context      int               `json:"context"`
	Active       float64           `json:"active"`                 // share of the neurons, outside of experts
	ExpertsUsed  int               `json:"experts_used,omitempty"` // by a token in each layer with experts
	Notes        []string          `json:"notes"`
	Machine      placement.Machine `json:"machine"`
	Layers       []layerJSON       `json:"layers"` // the head is the last
	MTP          *mtpJSON          `json:"mtp,omitempty"`
	Draft        *mtpJSON          `json:"draft,omitempty"`
	VRAM         []int64           `json:"vram"` // bytes of each GPU
	RAM          int64             `json:"ram"`
	Disk         *diskJSON         `json:"disk,omitempty"`
	Seconds      number            `json:"seconds"`
	TokensPerSec number            `json:"tokens_per_second"`
	RAMOnly      float64           `json:"ram_only_tokens_per_second"`
	WholeLayers  int               `json:"whole_layers"`
	WholeSpeed   number            `json:"whole_layers_tokens_per_second"`
	Ways         []wayJSON         `json:"ways,omitempty"` // to compute a model with experts
}

type wayJSON struct {
	Name         string  `json:"name"`
	TokensPerSec number  `json:"tokens_per_second"`
	Hits         float64 `json:"hits"` // share of the uses of experts that find them on a GPU
	VRAM         int64   `json:"vram"`
	RAM          int64   `json:"ram"`
	ReadVRAM     float64 `json:"read_vram"` // bytes that a token reads
	ReadRAM      float64 `json:"read_ram"`
	ReadDisk     float64 `json:"read_disk"` // bytes read from disk, because the machine has too little RAM
}

// mtpJSON is the MTP layer, if --spec-type makes it draft, or a draft model that computes with the model's states.
type mtpJSON struct {
	GPU  int   `json:"gpu"` // -1: none
	VRAM int64 `json:"vram"`
	RAM  int64 `json:"ram"`
}

type layerJSON struct {
	GPU       int    `json:"gpu"` // -1: none
	Attention bool   `json:"attention_on_gpu"`
	Predictor bool   `json:"predictor_on_gpu"`
	Hot       int    `json:"hot"`               // neurons or experts on the GPU
	Experts   int    `json:"experts,omitempty"` // 0: the layer has none, or is the head
	VRAM      int64  `json:"vram"`
	RAM       int64  `json:"ram"`
	Disk      int64  `json:"disk,omitempty"`
	Dense     number `json:"dense_seconds"`
	HotTime   number `json:"hot_seconds"`
	ColdTime  number `json:"cold_seconds"`
	Wait      number `json:"wait_seconds"`
	Seconds   number `json:"seconds"`
}

// JSON writes the plan for machines.
func (d *Report) JSON(out io.Writer) error {
	of := func(v float64) number {
		if !d.timed {
			v = math.NaN()
		}
		return number(v)
	}
	j := planJSON{
		Model: d.b.Name, Type: d.b.Type, Sparse: d.b.Mode.String(), Context: d.b.Context, Active: d.b.Active, ExpertsUsed: d.b.ExpertsUsed, Notes: d.notes(), Machine: d.on,
		VRAM: d.plan.VRAM, RAM: d.ram(), Disk: d.diskJSON(), Seconds: of(d.plan.Seconds), TokensPerSec: of(1 / d.plan.Seconds),
		RAMOnly: 1 / d.inRAM.Seconds, WholeLayers: d.whole, WholeSpeed: of(1 / d.byLayers.Seconds),
	}
	for l, y := range d.plan.Layers {
		experts := 0
		if l < len(d.layers()) && d.b.Model.Layers[l].Experts {
			experts = len(d.b.Model.Layers[l].Units.Sometimes)
		}
		j.Layers = append(j.Layers, layerJSON{
			int(y.Tier), y.Attention, y.Predictor, y.Bound, experts, y.VRAM, y.RAM, y.Disk, of(y.Dense), of(y.HotTime), of(y.ColdTime), of(y.Wait), of(y.Seconds),
		})
	}
	if _, vram, ram, ok := d.guessing(); ok {
		if at := (&mtpJSON{d.further, vram, ram}); d.b.DraftHead != nil {
			j.Draft = at
		} else {
			j.MTP = at
		}
	}
	for _, y := range d.ways {
		rate := number(1 / y.Seconds)
		if y.VRAM > 0 {
			rate = of(float64(rate))
		}
		j.Ways = append(j.Ways, wayJSON{y.Name, rate, y.Hits, y.VRAM, y.RAM, y.ReadVRAM, y.ReadRAM, y.ReadDisk})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}
