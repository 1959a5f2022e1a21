package kernel

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// rareType are the kernels of a rare type: row writes n superblocks of a packed row as a panel's, and pair writes those
// of two rows as a strip's. avx2 and vnni compute one token's products with consecutive rows; nil: panels do.
type rareType struct {
	row        func(dst, w *byte, n uintptr)
	pair       func(dst, first, second *byte, n, soon, soonSecond uintptr)
	avx2, vnni streamer
}

func rareTypes() map[quant.Type]rareType {
	return map[quant.Type]rareType{
		quant.Q4_1:        {expandQ41AVX2, expandPairQ41, farQ41AVX2, farQ41VNNI},
		quant.Q5_0:        {expandQ50AVX2, expandPairQ50, farQ50AVX2, farQ50VNNI},
		quant.Q5_1:        {expandQ51AVX2, expandPairQ51, farQ51AVX2, farQ51VNNI},
		quant.Q2_K:        {expandQ2KAVX2, expandPairQ2K, farQ2KAVX2, farQ2KVNNI},
		quant.Q3_K:        {expandQ3KAVX2, expandPairQ3K, farQ3KAVX2, farQ3KVNNI},
		quant.IQ2_XXS:     {expandIQ2XXSAVX2, expandPairIQ2XXS, farIQ2XXSAVX2, farIQ2XXSVNNI},
		quant.IQ2_XS:      {expandIQ2XSAVX2, expandPairIQ2XS, farIQ2XSAVX2, farIQ2XSVNNI},
		quant.IQ2_S:       {expandIQ2XSAVX2, expandPairIQ2XS, farIQ2XSAVX2, farIQ2XSVNNI},
		quant.IQ3_XXS:     {expandIQ3XXSAVX2, expandPairIQ3XXS, farIQ3XXSAVX2, farIQ3XXSVNNI},
		quant.IQ3_S:       {expandIQ3SAVX2, expandPairIQ3S, farIQ3SAVX2, farIQ3SVNNI},
		quant.IQ1_S:       {expandIQ1SAVX2, expandPairIQ1S, farIQ1SAVX2, farIQ1SVNNI},
		quant.IQ1_M:       {expandIQ1MAVX2, expandPairIQ1M, farIQ1MAVX2, farIQ1MVNNI},
		quant.IQ4_NL:      {expandIQ4NLAVX2, expandPairIQ4NL, farIQ4NLAVX2, farIQ4NLVNNI},
		quant.IQ4_XS:      {expandIQ4XSAVX2, expandPairIQ4XS, farIQ4XSAVX2, farIQ4XSVNNI},
		quant.TQ1_0:       {expandTQ10AVX2, expandPairTQ10, farTQ10AVX2, farTQ10VNNI},
		quant.TQ2_0:       {expandTQ10AVX2, expandPairTQ10, farTQ10AVX2, farTQ10VNNI},
		quant.Q1_0:        {expandQ10AVX2, expandPairQ10, farQ10AVX2, farQ10VNNI},
		quant.Q2_0:        {expandQ10AVX2, expandPairQ10, farQ10AVX2, farQ10VNNI},
		quant.NVFP4:       {expandNVFP4AVX2, expandPairNVFP4, nil, nil},
		quant.NVFP4Scaled: {expandNVFP4AVX2, expandPairNVFP4, nil, nil},
	}
}

// expandAVX2 gives rare types their expanders and the products of their forms.
func (k *Kernels) expandAVX2() {
	forms := [layout.Forms]tiles{
		layout.Blocks:       {each: block{4, 1, panelBlocksAVX24x1}, panel: block{2, 3, panelBlocksAVX22x3}},
		layout.BlockMinima:  {each: block{4, 1, panelQ5KAVX24x1}, panel: block{2, 3, panelQ5KAVX22x3}},
		layout.Halves:       {each: block{4, 1, panelHalvesAVX24x1}, panel: block{2, 3, panelHalvesAVX22x3}},
		layout.HalfMinima:   {each: block{4, 1, panelHalfMinimaAVX24x1}, panel: block{2, 3, panelHalfMinimaAVX22x3}},
		layout.SmallScales:  {each: block{4, 1, panelSmallScalesAVX24x1}, panel: block{2, 3, panelSmallScalesAVX22x3}},
		layout.SignedBlocks: {each: block{4, 1, panelQ80AVX24x1}, panel: block{2, 3, panelQ80AVX22x3}},
	}
	for t, e := range rareTypes() {
		m := forms[layout.FormOf(t)]
		m.expand = e.row
		k.types[t] = m
		k.takeStream(t, "far-avx2", e.avx2)
	}
}

// expandVNNI gives rare types the products in 512-bit vectors.
func (k *Kernels) expandVNNI() {
	forms := [layout.Forms]strip{
		layout.Blocks:       {rows: 6, from: stripTokens, four: stripBlocksVNNI6x4, one: stripBlocksVNNI6x1},
		layout.BlockMinima:  {rows: 6, from: stripTokens, four: stripQ5KVNNI6x4, one: stripQ5KVNNI6x1},
		layout.Halves:       {rows: 4, from: stripTokens, four: stripHalvesVNNI4x4, one: stripHalvesVNNI4x1},
		layout.HalfMinima:   {rows: 4, from: stripTokens, four: stripHalfMinimaVNNI4x4, one: stripHalfMinimaVNNI4x1},
		layout.SmallScales:  {rows: 4, from: stripTokens, four: stripSmallScalesVNNI4x4, one: stripSmallScalesVNNI4x1},
		layout.SignedBlocks: {rows: 6, from: stripTokens, four: stripQ80VNNI6x4, one: stripQ80VNNI6x1},
	}
	for t, e := range rareTypes() {
		strip := forms[layout.FormOf(t)]
		one := strip.one
		k.types[t] = tiles{strip: strip, expandPair: e.pair, each: block{
			strip.rows, 1,
			func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part uintptr) {
				one(out, outStride, w, rowBytes, x, xStride, n, acc, part, 1, nil, 0)
			},
		}}
		k.takeStream(t, "far-vnni", e.vnni)
	}
}

// takeStream gives type t its only kernel of one token and consecutive rows, if it has one.
func (k *Kernels) takeStream(t quant.Type, name string, s streamer) {
	if s != nil {
		k.take(t, Consecutive, []way{{name: name, stream: s}}, all(name))
	}
}
