package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// plannedTower returns a sentence about the memory of the model's tower; empty if there is no tower.
func plannedTower(c *cli.Command, m *planner.Machine) (string, error) {
	if c.IsSet("describe") {
		return "", nil
	}
	tower, err := flags.ReadTower(c)
	if err != nil {
		return "", err
	}
	f, err := openModel(c)
	if err != nil {
		return "", err
	}
	defer f.Close()
	e := engine.Options{Limits: engine.Limits{Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size")}}
	need, found, err := session.NeedOfTower(f, &tower, e.PictureStep())
	if !found || err != nil {
		return "", err
	}
	text := "Pictures: " + need.String()
	if rate := m.Products(); rate > 0 {
		text += fmt.Sprintf(", for about %.1f s", float64(need.Products)/rate)
	}
	return text + ", if the processor computes it. A GPU does where it has room.", nil
}

func imageFlag() cli.Flag {
	return flags.About(flags.PictureSubject, []cli.Flag{
		&cli.StringSliceFlag{Name: "image", Usage: "show the model the picture in `FILE` (JPEG, PNG, GIF, WebP, BMP) with the text, before it or in the place of " + attachment.Mark + "; may be repeated, or a list with commas"},
	})[0]
}

// readImages returns the pictures of --image.
func readImages(c *cli.Command) (all []attachment.Picture, err error) {
	for _, list := range c.StringSlice("image") {
		names := strings.Split(list, ",")
		if _, err := os.Stat(list); err == nil { // a file name with commas
			names = []string{list}
		}
		for _, name := range names {
			p, err := attachment.Read(attachment.Home(name))
			if err != nil {
				return nil, fmt.Errorf("--image: %w", err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// withPictures returns the tokens of a text, with pictures in the places of its marks, or before the text if it has
// none. It sets g.Pictures.
func withPictures(m *powerinfer.Model, text string, pictures []attachment.Picture, g *powerinfer.Generation) ([]int32, error) {
	if !strings.Contains(text, attachment.Mark) {
		text = strings.Repeat(attachment.Mark, len(pictures)) + text
	}
	var images []*powerinfer.Picture
	for i := range pictures {
		line, err := pictures[i].Describe(m)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(screen.Err, line)
		images = append(images, pictures[i].Picture)
	}
	if _, err := attachment.Parts(text, pictures); err != nil {
		return nil, err
	}
	ids, places, err := m.TokenizeMarked(text, attachment.Mark, images, false)
	g.Pictures = places
	return ids, err
}
