package prepare

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/train"
)

// Stage is a part of the work.
type Stage string

// The stages. Loading happens before several of the others.
const (
	StageLoad     Stage = "loading"
	StageGenerate Stage = "generating text"
	StageProfile  Stage = "profiling"
	StageTrain    Stage = "training predictors"
	StageWrite    Stage = "writing"
	StageMeasure  Stage = "measuring"
)

// Estimate is how long a stage is expected to take.
type Estimate struct {
	Stage Stage
	Time  time.Duration
}

// What the estimate takes for granted: measured on the embedded and on 7B-shaped models.
const (
	trainEfficiency = 0.5   // of the rate of large products
	searchShare     = 1.0   // of the final training's time
	writeRate       = 400e6 // bytes/s
	usualEpochs     = 12
)

// estimate predicts the stages' times from steps that it measures.
func (r *observer) estimate(e *runner, samples int) ([]Estimate, error) {
	r.p.idle = true
	defer func() { r.p.idle = false }()
	ws := []window{{tokens: make([]int32, e.window)}} // any tokens
	var step time.Duration
	for range 2 { // the first reads weights in
		begin := time.Now()
		if err := e.run(ws); err != nil {
			return nil, err
		}
		step = time.Since(begin)
	}
	perToken := float64(step) / float64(e.window)
	var out []Estimate
	add := func(s Stage, d float64) { out = append(out, Estimate{s, time.Duration(d)}) }
	if r.texts.generate > 0 {
		one := []window{}
		for range maxSequences {
			one = append(one, window{tokens: make([]int32, 1)})
		}
		begin := time.Now()
		if err := e.run(one); err != nil {
			return nil, err
		}
		add(StageGenerate, float64(time.Since(begin))*float64(r.texts.generate)/maxSequences)
	}
	held := countTokens(r.texts.heldOut)
	add(StageProfile, perToken*float64(r.texts.calibrationTokens()+held))
	if r.o.profileOnly {
		return out, nil
	}
	if !r.o.NoPredictors {
		add(StageTrain, trainTime(r.c, r.o.Threads, samples))
	}
	var weights float64
	for _, x := range r.f.Tensors {
		weights += float64(len(x.Data))
	}
	add(StageWrite, weights/writeRate*float64(time.Second))
	if held > 0 && !r.o.NoPredictors {
		add(StageMeasure, 2*perToken*float64(held))
	}
	return out, nil
}

// trainTime is the time of all layers' trainings, from the rate of a product like theirs.
func trainTime(c model.Config, threads, samples int) float64 {
	workers := pool.New(threads)
	defer workers.Close()
	mul, err := gemm.NewMultiplier(workers, "")
	if err != nil {
		return 0
	}
	rank := max(rankStep, c.Embd/6)
	m, k, n := 512, c.Embd, min(c.FF, 4096)
	a, b, out := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	var took time.Duration
	for range 2 {
		begin := time.Now()
		mul.Mul(gemm.New(out, m, n), 1, gemm.New(a, m, k), gemm.New(b, k, n), false)
		took = time.Since(begin)
	}
	rate := 2 * float64(m) * float64(k) * float64(n) / float64(took)
	work := train.Work(samples, c.Embd, c.FF, rank, usualEpochs)
	return float64(c.Layers) * work * (1 + searchShare) / (rate * trainEfficiency)
}
