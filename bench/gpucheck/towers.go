package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// farRows is the largest distance of a picture's rows from the peer's that counts as rounding, as a share of their norm.
// GPUs multiply halves.
const farRows = 1e-2

// towers computes pictures of every kind of tower on the GPU, and compares their rows with llama.cpp's. Then it times a
// tower of a published size on GPU and processor.
func towers(ctx context.Context, c *check, w *checkup.Report) error {
	var failed []error
	var table [][]string
	for _, v := range visiontest.Cases() {
		if ctx.Err() != nil {
			w.Say("Cut off at the time limit.")
			break
		}
		if !tower.Has(v.Projector()) || c.tiny && v.Name != "internvl" {
			continue
		}
		worst, err := c.distance(ctx, w, v)
		if err != nil {
			err = fmt.Errorf("%s: %w", v.Name, err)
		} else if !(worst <= farRows) {
			err = fmt.Errorf("%s: rows are %.2g of their norm from llama.cpp's", v.Name, worst)
		}
		failed = append(failed, err)
		table = append(table, []string{v.Name, fmt.Sprintf("%.2g", worst)})
	}
	w.Table([]string{"tower", "largest distance of a picture's rows"}, table...)
	if !c.tiny && ctx.Err() == nil {
		failed = append(failed, c.largeTower(ctx, w))
	}
	return errors.Join(failed...)
}

// distance returns the largest distance of a picture's rows from llama.cpp's, or from the published model's where the
// two differ.
func (c *check) distance(ctx context.Context, w *checkup.Report, v visiontest.Case) (worst float64, err error) {
	peer, err := v.Peer()
	if err != nil {
		return 0, err
	}
	d, err := c.open()
	if err != nil {
		return 0, err
	}
	err = c.tower(ctx, w, v, d, func(t *vision.Tower) error {
		for _, p := range v.Pictures {
			rows, err := rowsOf(ctx, t, p.Image())
			if err != nil {
				return err
			}
			want := peer[p.Name].Rows
			if published := peer[p.Name].PublishedRows; published != nil {
				want = *published
			}
			worst = max(worst, visiontest.Summarize(rows).Distance(want))
		}
		return nil
	})
	return worst, err
}

// largeTower times a picture of 896 × 896 pixels in Gemma 3's tower.
func (c *check) largeTower(ctx context.Context, w *checkup.Report) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	host, err := cpu.New(cpu.Options{Threads: hw.DefaultThreads()})
	if err != nil {
		return errors.Join(err, d.Close())
	}
	v := visiontest.Large()
	var rows [2][]float32
	for i, dev := range []compute.Device{d, host} {
		err := c.tower(ctx, w, v, dev, func(t *vision.Tower) error {
			for _, when := range []string{"the first", "another"} {
				m := v.Pictures[0].Image()
				m.Pix[0] += byte(len(when)) // another picture, which nothing keeps
				begin := time.Now()
				var err error
				if rows[i], err = rowsOf(ctx, t, m); err != nil {
					return err
				}
				w.Say("%s, %s on %s: %.2f s.", v.Name, when, dev.Name(), time.Since(begin).Seconds())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	w.Say("The rows of GPU and processor are %.2g of their norm apart.", visiontest.Summarize(rows[0]).Distance(visiontest.Summarize(rows[1])))
	return nil
}

// tower opens the case's tower on dev, calls use, and closes both.
func (c *check) tower(ctx context.Context, w *checkup.Report, v visiontest.Case, dev compute.Device, use func(*vision.Tower) error) error {
	path, err := c.written(w, filepath.Base(v.Name)+".mmproj.gguf", v.WriteTower)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	f, err := gguf.Open(path)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	defer f.Close()
	t, err := vision.Open(ctx, f, dev, vision.Options{Limits: tower.Limits{Least: v.Least}})
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	return errors.Join(use(t), t.Close())
}

// rowsOf returns the rows of all views of a picture, one after another.
func rowsOf(ctx context.Context, t *vision.Tower, m *picture.Image) (rows []float32, err error) {
	parts, err := t.Show(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p.Rows == nil {
			continue
		}
		for _, v := range p.Rows.Vectors {
			rows = append(rows, v...)
		}
	}
	return rows, nil
}
