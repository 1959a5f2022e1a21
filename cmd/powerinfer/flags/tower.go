package flags

import (
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// Tower returns the flags of the vision tower.
func Tower() []cli.Flag {
	return About(PictureSubject, []cli.Flag{
		&cli.StringFlag{Name: "mmproj", Aliases: []string{"mm", "mmproj-url", "mmu"}, Usage: "GGUF `FILE` that shows pictures to the model, or its name at the Hugging Face hub; default: the one beside the model or in its repository, if there is one", Sources: Env("MMPROJ", "MMPROJ_URL")},
		&cli.BoolFlag{Name: "no-mmproj", Aliases: []string{"no-mmproj-auto"}, Usage: "load none", Sources: Env("NO_MMPROJ")},
		&cli.BoolFlag{Name: "no-mmproj-offload", Usage: "compute pictures on the processor, although a GPU could", Sources: Env("NO_MMPROJ_OFFLOAD")},
		&cli.IntFlag{Name: "image-min-tokens", Usage: "a picture has at least `N` tokens, if the model has a choice; smaller ones are enlarged", Sources: Env("IMAGE_MIN_TOKENS"), HideDefault: true},
		&cli.IntFlag{Name: "image-max-tokens", Usage: "a picture has at most `N` tokens, if the model has a choice; larger ones are reduced", Sources: Env("IMAGE_MAX_TOKENS"), HideDefault: true},
	})
}

// ReadTower reads the flags of Tower. Commands without them load no tower.
func ReadTower(c *cli.Command) (t powerinfer.Tower, err error) {
	if t.Off = !Has(c, "mmproj"); t.Off {
		return t, nil
	}
	t = powerinfer.Tower{Path: c.String("mmproj"), Off: c.Bool("no-mmproj"), OnProcessor: c.Bool("no-mmproj-offload"), Least: c.Int("image-min-tokens"), Most: c.Int("image-max-tokens")}
	if t.Least < 0 || t.Most < 0 {
		return t, errors.New("--image-min-tokens and --image-max-tokens take numbers of tokens; 0 is as the model was published")
	}
	return t, nil
}
