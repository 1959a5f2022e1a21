package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// towerFlags say by what pictures are shown to the model.
func towerFlags() []cli.Flag {
	return about(pictureSubject, []cli.Flag{
		&cli.StringFlag{Name: "mmproj", Aliases: []string{"mm", "mmproj-url", "mmu"}, Usage: "GGUF `FILE` that shows pictures to the model, or its name at the Hugging Face hub; default: the one beside the model or in its repository, if there is one", Sources: env("MMPROJ", "MMPROJ_URL")},
		&cli.BoolFlag{Name: "no-mmproj", Aliases: []string{"no-mmproj-auto"}, Usage: "load none", Sources: env("NO_MMPROJ")},
		&cli.BoolFlag{Name: "no-mmproj-offload", Usage: "compute pictures on the processor, although a GPU could", Sources: env("NO_MMPROJ_OFFLOAD")},
		&cli.IntFlag{Name: "image-min-tokens", Usage: "a picture has at least `N` tokens, if the model has a choice; smaller ones are enlarged", Sources: env("IMAGE_MIN_TOKENS"), HideDefault: true},
		&cli.IntFlag{Name: "image-max-tokens", Usage: "a picture has at most `N` tokens, if the model has a choice; larger ones are reduced", Sources: env("IMAGE_MAX_TOKENS"), HideDefault: true},
	})
}

// readTower reads towerFlags. Commands without them load no tower.
func readTower(c *cli.Command, o *powerinfer.Options) error {
	if o.NoTower = !has(c, "mmproj"); o.NoTower {
		return nil
	}
	o.Tower, o.NoTower, o.TowerInRAM = c.String("mmproj"), c.Bool("no-mmproj"), c.Bool("no-mmproj-offload")
	o.LeastPictureTokens, o.MostPictureTokens = c.Int("image-min-tokens"), c.Int("image-max-tokens")
	if o.LeastPictureTokens < 0 || o.MostPictureTokens < 0 {
		return errors.New("--image-min-tokens and --image-max-tokens take numbers of tokens; 0 is as the model was published")
	}
	return nil
}

// looking shows how much of a prompt's pictures is computed, as Generation.Looking is told.
func looking() func(done, total int) {
	bar := progress.New("looking at the pictures", progress.Time)
	return func(done, total int) {
		if done == total {
			bar.Finish()
			return
		}
		bar.Count(done, total)
	}
}

// plannedTower returns a sentence about what the model's tower takes; empty: there is none.
func plannedTower(c *cli.Command, m *planner.Machine) (string, error) {
	if c.IsSet("describe") {
		return "", nil
	}
	var o powerinfer.Options
	if err := readTower(c, &o); err != nil {
		return "", err
	}
	f, err := openModel(c)
	if err != nil {
		return "", err
	}
	defer f.Close()
	e := engine.Options{Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size")}
	need, found, err := session.NeedOfTower(f, &session.Tower{Path: o.Tower, Off: o.NoTower, Least: o.LeastPictureTokens, Most: o.MostPictureTokens}, e.PictureStep())
	if !found || err != nil {
		return "", err
	}
	text := "Pictures: " + need.String()
	if rate := m.Products(); rate > 0 {
		text += fmt.Sprintf(", for about %.1f s", float64(need.Products)/rate)
	}
	return text + ", if the processor computes it. A GPU does where it has room.", nil
}

// fetchTower fetches the tower that --mmproj names at the hub.
func fetchTower(ctx context.Context, c *cli.Command) error {
	if !has(c, "mmproj") || c.String("mmproj") == "" {
		return nil
	}
	return useModel(ctx, c, c.String("mmproj"), "mmproj")
}
