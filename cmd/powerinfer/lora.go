package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// loraFlags name LoRA adapters.
func loraFlags() []cli.Flag {
	return about(modelSubject, []cli.Flag{
		&cli.StringSliceFlag{Name: "lora", Usage: "LoRA adapter in the GGUF `FILE`, or several with commas; may be repeated", Sources: env("LORA")},
		&cli.StringSliceFlag{Name: "lora-scaled", Usage: "LoRA adapter in a GGUF file, times a number: `FILE:SCALE`, or several with commas; may be repeated"},
	})
}

// readAdapters returns the adapters of --lora, and then those of --lora-scaled.
func readAdapters(c *cli.Command) ([]powerinfer.Adapter, error) {
	var list []powerinfer.Adapter
	for _, names := range c.StringSlice("lora") {
		for name := range strings.SplitSeq(names, ",") {
			list = append(list, powerinfer.Adapter{Path: name, Scale: 1})
		}
	}
	for _, names := range c.StringSlice("lora-scaled") {
		for one := range strings.SplitSeq(names, ",") {
			at := strings.LastIndexByte(one, ':')
			if at < 0 {
				return nil, fmt.Errorf("--lora-scaled %q is not FILE:SCALE", one)
			}
			scale, err := strconv.ParseFloat(one[at+1:], 32)
			if err != nil || math.IsNaN(scale) || math.IsInf(scale, 0) {
				return nil, fmt.Errorf("--lora-scaled %q is not FILE:SCALE with a number behind the last colon", one)
			}
			list = append(list, powerinfer.Adapter{Path: one[:at], Scale: float32(scale)})
		}
	}
	for _, a := range list {
		if a.Path == "" {
			return nil, fmt.Errorf("--lora names no file")
		}
	}
	return list, nil
}
