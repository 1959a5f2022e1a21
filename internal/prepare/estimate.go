package prepare

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
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
	StageNeurons  Stage = "writing neurons"
)

// Estimate is the expected time of a stage: between Least and Most, if the machine stays as busy as it is.
type Estimate struct {
	Stage       Stage
	Least, Most time.Duration
}

// How far the time of a stage may be from what a short trial says. Stages that stop when they are good enough vary
// most: training tries several ranks, ends when it no longer improves, and is repeated with a stricter target, like
// writing and measuring, if the file does not predict well enough.
const (
	leastShare  = 0.6
	mostShare   = 2.5
	mostTrained = 4.0
)

// Assumptions of the estimate, measured on the embedded and on 7B-shaped models.
const (
	writeRate    = 400e6 // bytes/s
	usualRank    = 8     // of the width, in parts
	leastUsual   = 64    // rank
	usualTrials  = 5
	trialSamples = 3 * 4096 // by a trial's epochs
	usualEpochs  = 12

	thresholdPoints = 7               // that a search measures
	predictorPoints = 1 + 2*mostSteps // of predictors' thresholds, at most
)

// estimate predicts the stages' times from steps that it measures.
func (r *observer) estimate(e *runner, samples int) ([]Estimate, error) {
	if r.p != nil { // a curve's measurement counts nothing
		r.p.pause(true)
		defer r.p.pause(false)
	}
	ws := []window{{tokens: make([]int32, e.window)}} // any tokens
	var step time.Duration
	for range 2 { // the first reads weights in
		begin := monotime.Now()
		if err := e.run(ws); err != nil {
			return nil, err
		}
		step = monotime.Since(begin)
	}
	perToken := float64(step) / float64(e.window)
	var out []Estimate
	add := func(s Stage, d float64) {
		most := mostShare
		if s == StageTrain {
			most = mostTrained
		}
		if repeats := !r.o.NoPredictors && len(r.texts.heldOut) > 0; repeats && (s == StageTrain || s == StageWrite || s == StageMeasure) {
			most *= maxRounds
		}
		out = append(out, Estimate{s, time.Duration(leastShare * d), time.Duration(most * d)})
	}
	if r.texts.generate > 0 {
		one := []window{}
		for range maxSequences {
			one = append(one, window{tokens: make([]int32, 1)})
		}
		begin := monotime.Now()
		if err := e.run(one); err != nil {
			return nil, err
		}
		add(StageGenerate, float64(monotime.Since(begin))*float64(r.texts.generate)/maxSequences)
	}
	held := countTokens(r.texts.heldOut)
	if r.o.profileOnly {
		add(StageProfile, perToken*float64(r.texts.calibrationTokens()))
		if r.o.Measure {
			add(StageMeasure, (1+skipShares)*perToken*float64(held))
		}
		return out, nil
	}
	if !r.o.Measure {
		add(StageProfile, perToken*float64(r.texts.calibrationTokens()+held))
	}
	if !r.o.NoPredictors {
		d, err := trainTime(r.c, r.o.Threads, samples)
		if err != nil {
			return nil, err
		}
		add(StageTrain, d)
	}
	var weights float64
	for _, x := range r.f.Tensors {
		weights += float64(len(x.Data))
	}
	add(StageWrite, weights/writeRate*float64(time.Second))
	if r.o.Neurons {
		add(StageNeurons, weights/writeRate*float64(time.Second))
	}
	if r.o.Thresholds {
		add(StageMeasure, (1+thresholdPoints)*perToken*float64(held))
	}
	if r.o.Measure {
		add(StageMeasure, (1+predictorPoints)*perToken*float64(held))
	}
	if held > 0 && !r.o.NoPredictors {
		add(StageMeasure, (2+predictorPoints)*perToken*float64(held))
	}
	return out, nil
}

// trainTime returns the time of all layers' trainings, from two short ones on noise of a layer's shape that differ by
// an epoch.
func trainTime(c model.Config, threads, samples int) (float64, error) {
	workers := pool.New(threads)
	defer workers.Close()
	noise := noiseSamples(c)
	rank := max(leastUsual, c.Embd/usualRank/rankStep*rankStep)
	var took [2]float64
	for i := range took {
		begin := monotime.Now()
		gate := func(row []float32, neuron int) float32 { row[neuron%len(row)] = 1; return 0 }
		o := train.Options{Rank: rank, Epochs: i + 1, Pool: workers, Gate: gate}
		if _, _, err := train.Train(context.Background(), noise, o); err != nil {
			return 0, err
		}
		took[i] = float64(monotime.Since(begin))
	}
	epoch := max(0, took[1]-took[0]) / noiseCount // a sample's
	start := max(0, took[0]-epoch*noiseCount)
	layer := usualTrials*(start+epoch*trialSamples) + start + epoch*usualEpochs*float64(samples)
	return float64(c.Layers) * layer, nil
}

// noiseCount is the number of samples that the estimate trains on.
const noiseCount = 1024

func noiseSamples(c model.Config) *train.Samples {
	s := &train.Samples{Embd: c.Embd, FF: c.FF, Start: []int64{0}}
	rng := rand.New(rand.NewPCG(0, 0))
	for i := range noiseCount {
		for range c.Embd {
			s.X = append(s.X, quant.F16FromF32(float32(1+rng.NormFloat64())))
		}
		for j := range c.FF {
			if rng.IntN(10) == 0 {
				s.Active, s.Mass = append(s.Active, uint16(j)), append(s.Mass, quant.BF16FromF32(1))
			}
		}
		s.Start, s.Document = append(s.Start, int64(len(s.Active))), append(s.Document, int32(i/16))
	}
	return s
}
