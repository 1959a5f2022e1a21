package shaders

// The tiles of cooperative.comp, by which matrix sizes are chosen when a device is opened.
const (
	TileLocal   = 256 // invocations of a workgroup
	NarrowTile  = 64  // rows, and tokens, of a workgroup's smallest tile
	StepColumns = 32  // halftile.glsl: STEP
)
