package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// dense decodes the same shape without skipping, and with llama.cpp if it is given. sparse are the fastest trials of
// the sparse file, one for each budget.
func (m shape) dense(ctx context.Context, c *check, w *checkup.Report, machine *measure.Machine, sparse []trial) error {
	f, err := m.file(ctx, c, w, m.spec(c, false))
	if err != nil {
		return err
	}
	defer f.Close()
	w.Say("### dense")
	all := m.trials(ctx, c, f, model.Off, nil, machine)
	table(w, all)
	failed := failures(model.Off, all)
	if c.llama == "" {
		w.Say("llama.cpp was not given (--llama-bench): nothing is compared.")
		return failed
	}
	b, err := costOf(f, model.Off, nil)
	if err != nil {
		return err
	}
	p := peer{model: f.Path, llama: c.llama, tokens: c.tokens(), repetitions: c.repetitions()}
	return errors.Join(failed, p.compare(ctx, c, w, b, machine, all, sparse))
}

// peer is llama.cpp on a dense model.
type peer struct {
	llama, model        string
	tokens, repetitions int
}

// compare shows, for each budget, llama.cpp with the most layers that fit, and our trials. The formula's predictions
// for both are for the measured machine.
func (p *peer) compare(ctx context.Context, c *check, w *checkup.Report, b modelcost.Cost, machine *measure.Machine, dense, sparse []trial) error {
	layers, plans := make([]int, len(dense)), make([]placement.Plan, len(dense))
	for i := range dense {
		bytes := dense[i].bytes
		if i < len(sparse) {
			bytes = max(bytes, sparse[i].bytes)
		}
		solved, err := c.planner(machine, b, bytes, false, planner.Options{}).Solve()
		if err != nil {
			return err
		}
		if layers[i], plans[i], err = placement.MostWhole(b.Model, solved.Machine); err != nil {
			return err
		}
	}
	checkup.Progress("llama.cpp, layers on the GPU: %v", layers)
	rates, err := p.rates(ctx, layers)
	if err != nil {
		return err
	}
	var rows [][]string
	for i, d := range dense {
		theirs := rates[layers[i]]
		row := []string{d.budget, fmt.Sprint(layers[i]), fmt.Sprintf("%.1f", theirs), "", "", "", "", ""}
		if d.err == nil {
			row[3], row[4] = fmt.Sprintf("%.1f", d.rate), fmt.Sprintf("%.2f", d.rate/theirs)
		}
		if i < len(sparse) && sparse[i].err == nil {
			formula := plans[i].Seconds / sparse[i].plan.Seconds
			row[5], row[6] = fmt.Sprintf("%.1f", sparse[i].rate), fmt.Sprintf("%.2f", sparse[i].rate/theirs)
			row[7] = fmt.Sprintf("%.2f", formula)
		}
		rows = append(rows, row)
	}
	w.Say("### llama.cpp")
	w.Say("%s, as many layers on the GPU as the larger of the two files' budgets holds.", strings.Join(slices.Concat([]string{p.llama}, p.args(layers)), " "))
	w.Table([]string{"budget", "-ngl", "llama.cpp", "ours, dense", "over llama.cpp", "ours, sparse", "over llama.cpp", "by the formula"}, rows...)
	return nil
}

func (p *peer) args(layers []int) []string {
	var list []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(layers))) {
		list = append(list, strconv.Itoa(n))
	}
	return []string{"-m", p.model, "-p", "0", "-n", strconv.Itoa(p.tokens), "-r", strconv.Itoa(p.repetitions), "-ngl", strings.Join(list, ","), "-o", "json"}
}

// rates returns llama.cpp's tokens per second by layers on the GPU.
func (p *peer) rates(ctx context.Context, layers []int) (map[int]float64, error) {
	rows, err := benched(ctx, p.llama, p.args(layers)...)
	if err != nil {
		return nil, err
	}
	rates := map[int]float64{}
	for _, r := range rows {
		rates[r.Layers] = r.Rate
	}
	return rates, nil
}
