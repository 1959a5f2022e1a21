package shaders

// What tiles of prompts' products are made of, by which matrix sizes are chosen when a device is opened.
const (
	TileLocal     = 256 // invocations of a workgroup of ordinary arithmetic
	SubgroupTile  = 32  // rows, and tokens, of a subgroup's smallest tile in cooperative.comp
	LeastStep     = 32  // columns that a workgroup stages at a time, at least
	PaddedColumns = 64  // longproduct.glsl: PADDED
)
