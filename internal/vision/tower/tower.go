// Package tower has a program for each kind of tower, a model that turns pictures into rows for a text model.
package tower

import (
	"maps"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// Program turns pictures into rows, which a text model reads in place of tokens' embeddings.
type Program interface {
	// Show returns what a prompt has in place of a picture: texts, such as the tokens around it, and views of it.
	Show(m *picture.Image) ([]Part, error)
	// Forward returns the rows of a view, as many as its Rows says, or its Order names. Views with the same number of
	// patches have the same operations. [rows, width]
	Forward(p *nn.Pass, v *View) compute.Tensor
	// Sizes returns how large views may become.
	Sizes() Sizes
}

// Part is a text or a view.
type Part struct {
	Text string // is split into tokens, special ones included; empty: there is a view
	View *View
}

// View is a picture, or a tile of one, in the form that a tower reads.
type View struct {
	Wide, High int              // patches
	Patches    [][]float32      // [n] the tower's input for each patch, in the order of its rows: pixels, and what the program appends
	Axes       [][]int32        // [axis][n] the patches' positions, for towers with rotations
	Bounds     []compute.Bounds // [n] see compute.Params, for towers with windows

	Rows         int       // rows for the text model
	Order        []int32   // [Rows] for each row, its number in Forward's result, or -1 for Break; nil: they are Forward's, in its order
	Break        []float32 // [width] the row between others
	Across, Down int       // the grid of Rows, if a text model distinguishes columns and lines (M-RoPE): Down lines of Across rows; 0: one after another
	Mutual       bool      // in the text model the view's rows all see each other
}

// Sizes bounds a tower's views.
type Sizes struct {
	Width   int  // numbers in a row for the text model
	Patches int  // patches of the largest view
	Rows    int  // rows of the largest view
	Axes    bool // the text model distinguishes rows' columns and lines (M-RoPE), see View.Across
	Mutual  bool // see View.Mutual
}

// Limits bound how many rows a text model is given for a picture, where the tower has a choice; 0: as files and
// families say.
type Limits struct {
	Least, Most int
	Step        int // rows of a view with View.Mutual, which the text model reads in one step; 0: any number
}

// programs are the programs by clip.projector_type.
var programs = map[string]func(*nn.Keys, *nn.Binder, Limits) Program{
	"gemma3":           newGemma3,
	"gemma4uv":         newGemma4Unified,
	"gemma4v":          newGemma4,
	"glm4v":            newGLM4V,
	"internvl":         newInternVL,
	"kimik25":          newKimiK25,
	"lfm2":             newLFM2,
	"llama4":           newLlama4,
	"pixtral":          newPixtral,
	"qwen2.5vl_merger": newQwen25,
	"qwen2vl_merger":   newQwen2,
	"qwen3vl_merger":   newQwen3,
}

// Names returns the kinds of towers that are programs, in the order of their names.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Has reports whether there is a program for a kind of tower.
func Has(kind string) bool { return programs[kind] != nil }

// Open binds a tower of a kind for which there is a program. Errors are k's and b's.
func Open(kind string, k *nn.Keys, b *nn.Binder, limits Limits) Program {
	return programs[kind](k, b, limits)
}
