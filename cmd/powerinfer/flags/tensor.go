package flags

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// expertTensors matches the names of all matrices of experts.
const expertTensors = `\.ffn_(up|down|gate|gate_up)_(ch)?exps`

// Tensors returns the flags that say where single tensors are stored, as in llama.cpp. They share a list, because for
// each tensor the first pattern on the command line that matches it counts.
func Tensors() []cli.Flag {
	list := &[]string{}
	return []cli.Flag{
		&cli.GenericFlag{
			Name: tensorFlag, Aliases: []string{"ot"}, Value: &patternFlag{list}, Sources: Env("OVERRIDE_TENSOR"),
			Usage: "put the tensors whose names match a pattern into a buffer: `PATTERN=BUFFER`, several separated by commas; a buffer is CPU, Vulkan0 and so on, by the numbers of --list-devices; the plan places the other tensors",
		},
		&cli.GenericFlag{
			Name: "cpu-moe", Aliases: []string{"cmoe"}, Value: &allExpertsFlag{list}, Sources: Env("CPU_MOE"),
			Usage: "keep all experts in RAM, computed by the processor",
		},
		&cli.GenericFlag{
			Name: "n-cpu-moe", Aliases: []string{"ncmoe"}, Value: &firstExpertsFlag{list}, Sources: Env("N_CPU_MOE"),
			Usage: "keep the experts of the first `N` layers in RAM",
		},
	}
}

const tensorFlag = "override-tensor"

// tensorPlaces returns what the flags of Tensors say, in their order.
func tensorPlaces(c *cli.Command) []string {
	list, _ := c.Value(tensorFlag).([]string)
	return list
}

// patternFlag is --override-tensor.
type patternFlag struct{ list *[]string }

func (f *patternFlag) Set(s string) error {
	*f.list = append(*f.list, s)
	return nil
}

func (f *patternFlag) Get() any { return *f.list }

func (f *patternFlag) String() string { return "" }

// allExpertsFlag is --cpu-moe, which takes no value.
type allExpertsFlag struct{ list *[]string }

func (f *allExpertsFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%.40q is neither true nor false", s)
	}
	if on {
		*f.list = append(*f.list, expertTensors+"="+modelcost.BufferCPU)
	}
	return nil
}

func (f *allExpertsFlag) Get() any { return *f.list }

func (f *allExpertsFlag) String() string { return "" }

// IsBoolFlag has cli give "true" where the flag stands alone.
func (f *allExpertsFlag) IsBoolFlag() bool { return true }

// mostLayers is more layers than a model has.
const mostLayers = 1 << 10

// firstExpertsFlag is --n-cpu-moe.
type firstExpertsFlag struct{ list *[]string }

func (f *firstExpertsFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return fmt.Errorf("%.40q is not a number of layers", s)
	}
	if n == 0 {
		return nil
	}
	var numbers []string
	for l := range min(n, mostLayers) {
		numbers = append(numbers, strconv.Itoa(l))
	}
	*f.list = append(*f.list, `blk\.(`+strings.Join(numbers, "|")+")"+expertTensors+"="+modelcost.BufferCPU)
	return nil
}

func (f *firstExpertsFlag) Get() any { return *f.list }

func (f *firstExpertsFlag) String() string { return "" }
