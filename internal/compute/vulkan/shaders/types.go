package shaders

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Supports reports whether shaders compute with type t. Forms of quants and scales that came later are not there yet.
func Supports(t quant.Type) bool {
	switch t {
	case quant.Q4_0, quant.Q4_1, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K:
		return true
	}
	return t.Float()
}

// supported lists the types that shaders compute with.
func supported() []quant.Type {
	return slices.DeleteFunc(quant.Types(), func(t quant.Type) bool { return !Supports(t) })
}

// TypesFile is the name of the source that Types writes.
const TypesFile = "types.glsl"

// Types returns the source of what shaders know about element types: their numbers and traits, from quant's table. TYPE is the number of
// the type that a pipeline is made for, so that all that depends on it is constant there.
func Types() []byte {
	var b strings.Builder
	fmt.Fprintln(&b, "// Code generated from package quant by compile. DO NOT EDIT.")
	fmt.Fprintln(&b, "\nlayout(constant_id = 2) const uint TYPE = 0;")
	fmt.Fprintln(&b)
	for _, t := range supported() {
		fmt.Fprintf(&b, "const uint %s = %d;\n", t, uint32(t))
	}
	fmt.Fprintln(&b, "\n// Forms of scales: quant.Scales says what they are.")
	for s, name := range scaleNames() {
		fmt.Fprintf(&b, "const uint %s = %d;\n", name, s)
	}
	fmt.Fprintln(&b, "\n// Traits of TYPE.")
	trait(&b, "uint", "BITS", func(t quant.Traits) int { return t.Bits })
	trait(&b, "int", "OFFSET", func(t quant.Traits) int { return t.Offset })
	trait(&b, "uint", "SCALES", func(t quant.Traits) int { return int(t.Scales) })
	trait(&b, "uint", "MINIMA", func(t quant.Traits) int {
		if t.Scales.Minima() {
			return 1
		}
		return 0
	})
	return []byte(b.String())
}

// scaleNames returns the forms' names, in order.
func scaleNames() []string {
	return []string{"NO_SCALES", "BLOCK_SCALE", "BLOCK_MIN", "SIX_BITS", "HALF_BLOCKS"}
}

// trait writes the constant name, which is of(traits) of the pipeline's type.
func trait(b *strings.Builder, typ, name string, of func(quant.Traits) int) {
	fmt.Fprintf(b, "const %s %s = ", typ, name)
	for _, t := range supported() {
		if v := of(t.Traits()); v != 0 {
			fmt.Fprintf(b, "TYPE == %s ? %d : ", t, v)
		}
	}
	fmt.Fprintln(b, "0;")
}
