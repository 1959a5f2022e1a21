package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// arithmetics returns the ways to compute products of a prompt, which are timed against each other.
func arithmetics() []vulkan.Arithmetic {
	return []vulkan.Arithmetic{vulkan.Groups, vulkan.Matrices, vulkan.Integers, vulkan.Mixed, vulkan.Packed, vulkan.Ordered}
}

// prompts times products of many tokens in every arithmetic that the GPU has.
func prompts(ctx context.Context, c *check, w *checkup.Report) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	head := []string{"type", "kernel"}
	for _, a := range arithmetics() {
		head = append(head, a.String()+", TFLOP/s")
	}
	type one struct {
		of       quant.Type
		kern     kernel
		standard vulkan.Arithmetic
	}
	var all []one
	var why []string
	for _, t := range c.types() {
		if t == quant.F32 { // has one way
			continue
		}
		for _, kern := range c.promptKernels() {
			if !kern.of(t) || !c.only.MatchString(t.String()+" "+kern.name) {
				continue
			}
			a, failed := kern.arithmetic(d, t, c.dims())
			all = append(all, one{t, kern, a})
			if failed != nil {
				why = append(why, strings.ReplaceAll(failed.Error(), "\n", "; "))
			}
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	w.Say("Products and attention of %d tokens, in each way there is. A way that is not the device's own choice for a type computes it only here; packed halves are too rough to be chosen.", c.dims().prompt)
	slices.Sort(why)
	for _, line := range slices.Compact(why) {
		w.Say("%s.", line)
	}
	var failed []error
	var table [][]string
	for _, k := range all {
		if ctx.Err() != nil {
			break
		}
		row, err := c.ways(ctx, k.of, k.kern, k.standard)
		failed = append(failed, err)
		table = append(table, row)
	}
	if len(table) > 0 {
		w.Table(append(head, "fastest", "the choice"), table...)
	}
	if ctx.Err() != nil {
		w.Say("Cut off at the time limit.")
		return nil
	}
	return errors.Join(failed...)
}

// promptKernels returns the kernels that take a prompt's time.
func (c *check) promptKernels() (all []kernel) {
	s := c.dims()
	for _, kern := range c.kernels() {
		if kern.tokens > 1 {
			all = append(all, kern)
		}
	}
	return append(all, kernel{name: fmt.Sprintf("a sparse layer of %d tokens", s.prompt), tokens: s.prompt, copy: (*kit).sparse})
}

// ways times a kernel in every arithmetic.
func (c *check) ways(ctx context.Context, t quant.Type, kern kernel, standard vulkan.Arithmetic) ([]string, error) {
	row := []string{t.String(), kern.name}
	best, fastest := 0.0, "none"
	var failed []error
	for _, a := range arithmetics() {
		checkup.Progress("%s, %s, %s", t, kern.name, a)
		rate, err := c.way(ctx, t, kern, a)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s, %s, %s: %w", t, kern.name, a, err))
			row = append(row, err.Error())
		case rate == 0:
			row = append(row, "–")
		default:
			row = append(row, fmt.Sprintf("%.3g", rate/1e12))
			if a != vulkan.Packed && rate > best {
				best, fastest = rate, a.String()
			}
		}
	}
	return append(row, fastest, standard.String()), errors.Join(failed...)
}

// way returns a kernel's operations per second by one arithmetic; 0 where the GPU has not got it.
func (c *check) way(ctx context.Context, t quant.Type, kern kernel, a vulkan.Arithmetic) (rate float64, err error) {
	k, err := c.kit(t, kern.tokens, false, a)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.d.Close()) }()
	if can, _ := kern.arithmetic(k.d, t, c.dims()); can != a {
		return 0, nil
	}
	seconds, err := k.time(ctx, kern, c.dims(), c.wanted(kern.tokens), c.tiny)
	if err != nil {
		return 0, err
	}
	return k.flops / float64(k.copies) / seconds, nil
}
