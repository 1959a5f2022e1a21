package powerinfer_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/powerinfer-go/powerinfer"
)

// model is the path of a GGUF file; here it is the small one that the program embeds.
const model = "demo/tales-relu.gguf"

func Example() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{Devices: powerinfer.NoGPU})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	greedy := powerinfer.DefaultSampling()
	greedy.Temperature = 0
	fmt.Print("Once upon a time")
	for token, err := range m.Generate(ctx, "Once upon a time", powerinfer.Generation{Max: 12, Sampling: &greedy}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: Once upon a time there was a man who had a daughter, and she was
}

func ExampleModel_Tokenize() {
	m, err := powerinfer.Open(context.Background(), model, powerinfer.Options{Devices: powerinfer.NoGPU})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	tokens := m.Tokenize("Once upon a time", false, false)
	fmt.Println(len(tokens), m.Detokenize(tokens))
	// Output: 4 Once upon a time
}

func ExampleModel_Generate_schema() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{Devices: powerinfer.NoGPU})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	answer := powerinfer.Generation{Schema: `{"enum": ["yes", "no"]}`}
	text := ""
	for token, err := range m.Generate(ctx, "Was the wolf good?", answer) {
		if err != nil {
			log.Fatal(err)
		}
		text += token.Text
	}
	fmt.Println(text == `"yes"` || text == `"no"`)
	// Output: true
}

func ExampleModel_Neurons() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{Devices: powerinfer.NoGPU, Sparse: powerinfer.SparseExact})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for _, err := range m.Generate(ctx, "Once upon a time", powerinfer.Generation{Max: 20}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	var active, all int64
	for _, layer := range m.Neurons() {
		active += layer.Active
		all += layer.Tokens * int64(layer.Neurons)
	}
	fmt.Println("under 15 % of the neurons were active:", float64(active) < 0.15*float64(all))
	// Output: under 15 % of the neurons were active: true
}

func ExampleContextError() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{Devices: powerinfer.NoGPU, Context: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	_, err = m.Start(ctx, make([]int32, 100), powerinfer.Generation{})
	var long *powerinfer.ContextError
	if errors.As(err, &long) {
		fmt.Println(long.Tokens, long.Context)
	}
	// Output: 100 64
}
