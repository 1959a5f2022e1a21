package ref

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Do implements compute.Executor.
func (d *Device) Do(op compute.Op) { op.On(operations{d}) }

// operations are the device as compute.Operations.
type operations struct{ *Device }

func (d operations) Embed(o *compute.Embed)             { d.embed(o.Dst, o.Table) }
func (d operations) EmbedNGrams(o *compute.EmbedNGrams) { d.embedNGrams(o) }
func (d operations) AddPosition(o *compute.AddPosition) { d.addPosition(o.X, o.Table, o.Offset) }
func (d operations) AddType(o *compute.AddType)         { d.addType(o.X, o.Table) }
func (d operations) Gather(o *compute.Gather)           { d.gather(o.Dst, o.X) }
func (d operations) Insert(o *compute.Insert) {
	d.p.Insert(func(i int) []float32 { return row(o.X, i) }, o.First, o.Add)
}
func (d operations) Precede(o *compute.Precede)         { d.precede(o.Dst, o.X) }
func (d operations) Recent(o *compute.Recent)           { d.recent(o) }
func (d operations) CopyColumns(o *compute.CopyColumns) { d.copyColumns(o) }
func (d operations) Slice(o *compute.Slice)             { d.slice(o.Dst, o.X, o.From) }

func (d operations) RMSNorm(o *compute.RMSNorm)           { d.rmsNorm(o.Dst, o.X, o.W, o.Eps) }
func (d operations) LayerNorm(o *compute.LayerNorm)       { d.layerNorm(o.Dst, o.X, o.W, o.B, o.Eps) }
func (d operations) Match(o *compute.Match)               { d.match(o.X, o.Like, o.Floor) }
func (d operations) Add(o *compute.Add)                   { d.add(o.Dst, o.X) }
func (d operations) Scale(o *compute.Scale)               { d.scale(o.X, o.Factor) }
func (d operations) SoftCap(o *compute.SoftCap)           { d.softCap(o.X, o.Limit) }
func (d operations) Clamp(o *compute.Clamp)               { d.clamp(o.X, o.Low, o.High) }
func (d operations) Activate(o *compute.Activate)         { d.activate(o.Dst, o.Gate, o.Up, o.Act) }
func (d operations) GaussianTopK(o *compute.GaussianTopK) { d.gaussianTopK(o.X, o.Deviations) }
func (d operations) Multiply(o *compute.Multiply)         { d.scaleColumns(o.Dst, o.X, o.W) }
func (d operations) Shift(o *compute.Shift)               { d.shift(o.X, o.B) }

func (d operations) MatMul(o *compute.MatMul)             { d.matMul(o.X, o.Products) }
func (d operations) MatMulByHead(o *compute.MatMulByHead) { d.matMulByHead(o) }

func (d operations) RoPE(o *compute.RoPE)                 { d.rope(o.X, o.HeadDim, o.Rope) }
func (d operations) Temper(o *compute.Temper)             { d.temper(o.X, o.How) }
func (d operations) StoreKV(o *compute.StoreKV)           { d.storeKV(o.Cache, o.Layer, o.K, o.V) }
func (d operations) LoadKeys(o *compute.LoadKeys)         { d.loadKeys(o.Cache, o.Layer, o.K) }
func (d operations) Attend(o *compute.Attend)             { d.attend(o.Out, o.Q, o.Cache, o.Layer, o.How) }
func (d operations) AttendLatent(o *compute.AttendLatent) { d.attendLatent(o) }
func (d operations) Select(o *compute.Select)             { d.choose(o) }
func (d operations) Compress(o *compute.Compress)         { d.compress(o) }
func (d operations) AttendBlocks(o *compute.AttendBlocks) { d.attendBlocks(o) }

func (d operations) Convolve(o *compute.Convolve) { d.convolve(o) }
func (d operations) Scan(o *compute.Scan)         { d.scan(o) }
func (d operations) Delta(o *compute.Delta)       { d.delta(o) }
func (d operations) WKV(o *compute.WKV)           { d.wkv(o) }

func (d operations) Predict(o *compute.Predict) {
	d.predict(o.Set, o.X, o.Hidden, o.Logits, o.FC1, o.FC2)
}
func (d operations) SparseFFN(o *compute.SparseFFN) { d.sparseFFN(o.Out, o.X, o.Set, o.Weights) }
func (d operations) Route(o *compute.Route)         { d.route(o) }
func (d operations) Experts(o *compute.Experts)     { d.experts(o.Out, o.X, o.Choice, o.Weights) }
func (d operations) GateRows(o *compute.GateRows)   { d.gateRows(o) }

func (d operations) AttendResiduals(o *compute.AttendResiduals) { d.attendResiduals(o) }
func (d operations) AltUpPredict(o *compute.AltUpPredict)       { d.altUpPredict(o.X, o.M, o.W) }
func (d operations) AltUpCorrect(o *compute.AltUpCorrect) {
	d.altUpCorrect(o.X, o.Y, o.M, o.W, o.Active)
}
func (d operations) ConnectionWeights(o *compute.ConnectionWeights) { d.connectionWeights(o) }
func (d operations) ReadStreams(o *compute.ReadStreams)             { d.readStreams(o) }
func (d operations) ReadGated(o *compute.ReadGated)                 { d.readGated(o) }
func (d operations) WriteStreams(o *compute.WriteStreams)           { d.writeStreams(o) }
func (d operations) MatchStreams(o *compute.MatchStreams)           { d.matchStreams(o) }
