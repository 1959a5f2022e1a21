package vision

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
)

// Need is what a tower takes, before it is loaded.
type Need struct {
	Projector   string
	Weights     int64 // bytes
	Activations int64 // bytes, of the largest view, with its keys and values
	Products    int64 // multiplications and additions, each pair counted once, of the largest view
	Sizes       tower.Sizes
}

// NeedOf returns what the tower in f takes.
func NeedOf(f *gguf.File, o Options) (n Need, err error) {
	b := nn.NewOutline(f, plan())
	program, err := bind(f, b, o)
	if err != nil {
		return n, err
	}
	n.Projector, _ = kind(f)
	n.Sizes = program.Sizes()
	for _, t := range f.Tensors {
		if !hears(t.Name) {
			n.Weights += t.Bytes()
		}
	}
	count := counter{patches: int64(n.Sizes.Patches)}
	pool := nn.NewPool(nil, n.Sizes.Patches, 1)
	pass := nn.Pass{LastLayer: -1}
	pass.Pictures = true
	rehearse(program, &pass, pool, nn.Nothing{})
	rehearse(program, &pass, pool, &count) // once
	n.Products = count.products
	width, _ := pool.Widths()
	stored := storedBy(b.Parts())
	n.Activations = 4*int64(width)*count.patches + int64(pages(n.Sizes))*stored.PageBytes()
	return n, nil
}

func (n Need) String() string {
	return fmt.Sprintf("%s, %d MiB of weights, at most %d MiB more while it looks at a picture of %d tokens", n.Projector, n.Weights>>20, n.Activations>>20, n.Sizes.Rows)
}

// counter counts the multiplications of the operations that it is given, and does none.
type counter struct {
	compute.Unforeseeing
	patches  int64 // of the view that attention sees
	products int64
}

func (c *counter) Do(op compute.Op) {
	switch o := op.(type) {
	case *compute.MatMul:
		for _, p := range o.Products {
			if p.W != nil {
				c.products += int64(o.X.Rows) * int64(p.W.Rows) * int64(p.W.Cols)
			}
		}
	case *compute.Attend:
		c.products += int64(o.Q.Rows) * c.patches * int64(o.Q.Cols+o.Out.Cols)
	}
}

func (c *counter) Host(func() error) {}
