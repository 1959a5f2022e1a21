package vulkan

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// The recorder's methods of compute.Operations record an operation by itself.

func (r *recorder) Embed(o *compute.Embed)             { r.embed(o.Dst, o.Table) }
func (r *recorder) EmbedNGrams(o *compute.EmbedNGrams) { r.embedNGrams(o) }
func (r *recorder) AddPosition(o *compute.AddPosition) { r.addPosition(o.X, o.Table, o.Offset) }
func (r *recorder) AddType(o *compute.AddType)         { r.addType(o.X, o.Table) }
func (r *recorder) Gather(o *compute.Gather)           { r.gather(o.Dst, o.X) }
func (r *recorder) Insert(o *compute.Insert)           { r.insert(o.X, o.First, o.Add) }
func (r *recorder) Precede(o *compute.Precede)         { r.precede(o.Dst, o.X) }
func (r *recorder) Recent(o *compute.Recent)           { r.recent(o) }
func (r *recorder) CopyColumns(o *compute.CopyColumns) { r.copyColumns(o) }
func (r *recorder) Slice(o *compute.Slice)             { r.slice(o.Dst, o.X, o.From) }

func (r *recorder) RMSNorm(o *compute.RMSNorm)           { r.rmsNorm(o.Dst, o.X, o.W, o.Eps) }
func (r *recorder) LayerNorm(o *compute.LayerNorm)       { r.layerNorm(o.Dst, o.X, o.W, o.B, o.Eps) }
func (r *recorder) Match(o *compute.Match)               { r.match(o.X, o.Like, o.Floor) }
func (r *recorder) Add(o *compute.Add)                   { r.add(o.Dst, o.X) }
func (r *recorder) Scale(o *compute.Scale)               { r.scale(o.X, o.Factor) }
func (r *recorder) SoftCap(o *compute.SoftCap)           { r.softCap(o.X, o.Limit) }
func (r *recorder) Clamp(o *compute.Clamp)               { r.clamp(o.X, o.Low, o.High) }
func (r *recorder) Activate(o *compute.Activate)         { r.activate(o.Dst, o.Gate, o.Up, o.Act) }
func (r *recorder) GaussianTopK(o *compute.GaussianTopK) { r.gaussianTopK(o.X, o.Deviations) }
func (r *recorder) Multiply(o *compute.Multiply)         { r.scaleColumns(o.Dst, o.X, o.W) }
func (r *recorder) Shift(o *compute.Shift)               { r.shift(o.X, o.B) }

func (r *recorder) MatMul(o *compute.MatMul)             { r.matMul(o.X, o.Products) }
func (r *recorder) MatMulByHead(o *compute.MatMulByHead) { r.matMulByHead(o) }

func (r *recorder) RoPE(o *compute.RoPE)     { r.alone(o, o.X) }
func (r *recorder) Temper(o *compute.Temper) { r.temper(o.X, o.How) }

func (r *recorder) StoreKV(o *compute.StoreKV) {
	if o.Cache.Layers[o.Layer].Every > 0 {
		r.storeRows(o)
		return
	}
	r.alone(o, o.K)
}

func (r *recorder) LoadKeys(o *compute.LoadKeys) { r.loadKeys(o.Cache, o.Layer, o.K) }
func (r *recorder) Attend(o *compute.Attend)     { r.attend(o.Out, o.Q, o.Cache, o.Layer, o.How) }

// AttendLatent fails: latent attention is other operations on a GPU, see compute.Device.ExpandsLatent.
func (r *recorder) AttendLatent(*compute.AttendLatent) {
	r.fail(errors.New("a GPU does not make keys and values of latent vectors"))
}

func (r *recorder) Select(o *compute.Select)             { r.selectBlocks(o) }
func (r *recorder) Compress(o *compute.Compress)         { r.compress(o) }
func (r *recorder) AttendBlocks(o *compute.AttendBlocks) { r.attendBlocks(o) }

func (r *recorder) Convolve(o *compute.Convolve) { r.convolve(o) }
func (r *recorder) Scan(o *compute.Scan)         { r.scan(o) }
func (r *recorder) Delta(o *compute.Delta)       { r.delta(o) }
func (r *recorder) WKV(o *compute.WKV)           { r.wkv(o) }

func (r *recorder) Predict(o *compute.Predict) {
	r.predict(o.Set, o.X, o.Hidden, o.Logits, o.FC1, o.FC2)
}
func (r *recorder) SparseFFN(o *compute.SparseFFN) { r.sparseFFN(o.Out, o.X, o.Set, o.Weights) }
func (r *recorder) Route(o *compute.Route)         { r.route(o) }
func (r *recorder) Experts(o *compute.Experts)     { r.chosenExperts(o, nil) }
func (r *recorder) GateRows(o *compute.GateRows)   { r.gateRows(o) }

func (r *recorder) AttendResiduals(o *compute.AttendResiduals) { r.attendResiduals(o) }
func (r *recorder) AltUpPredict(o *compute.AltUpPredict)       { r.altUpPredict(o.X, o.M, o.W) }
func (r *recorder) AltUpCorrect(o *compute.AltUpCorrect) {
	r.altUpCorrect(o.X, o.Y, o.M, o.W, o.Active)
}
func (r *recorder) ConnectionWeights(o *compute.ConnectionWeights) { r.connectionWeights(o) }
func (r *recorder) ReadStreams(o *compute.ReadStreams)             { r.readStreams(o) }
func (r *recorder) ReadGated(o *compute.ReadGated)                 { r.readGated(o) }
func (r *recorder) WriteStreams(o *compute.WriteStreams)           { r.writeStreams(o) }
func (r *recorder) MatchStreams(o *compute.MatchStreams)           { r.matchStreams(o) }

// alone is for an operation that a fusion records, even by itself: either it has no rows, or its shapes do not fit.
func (r *recorder) alone(op compute.Op, x compute.Tensor) {
	if x.Rows*x.Cols > 0 {
		panic("vulkan: " + compute.Name(op) + " of shapes that do not fit")
	}
}
