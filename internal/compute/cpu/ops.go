package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Do implements compute.Executor.
func (d *Device) Do(op compute.Op) {
	w := d.watch
	if w == nil || !w.On {
		d.do(op)
		return
	}
	begin := monotime.Now()
	d.do(op)
	w.Work.CPU[compute.PartOf(op)] += monotime.Since(begin)
}

func (d *Device) do(op compute.Op) {
	switch o := op.(type) {
	case *compute.Embed:
		d.embed(o.Dst, o.Table)
	case *compute.AddPosition:
		d.addPosition(o.X, o.Table, o.Offset)
	case *compute.AddType:
		d.addType(o.X, o.Table)
	case *compute.RMSNorm:
		d.rmsNorm(o.Dst, o.X, o.W, o.Eps)
	case *compute.LayerNorm:
		d.layerNorm(o.Dst, o.X, o.W, o.B, o.Eps)
	case *compute.MatMul:
		d.matMul(o.X, o.Products)
	case *compute.MatMulByHead:
		d.matMulByHead(o)
	case *compute.RoPE:
		d.rope(o.X, o.HeadDim, o.Rope)
	case *compute.StoreKV:
		d.storeKV(o.Cache, o.Layer, o.K, o.V)
	case *compute.LoadKeys:
		d.loadKeys(o.Cache, o.Layer, o.K)
	case *compute.Attend:
		d.attend(o.Out, o.Q, o.Cache, o.Layer, o.How)
	case *compute.AttendLatent:
		d.attendLatent(o)
	case *compute.Select:
		d.choose.run(o)
	case *compute.Add:
		d.add(o.Dst, o.X)
	case *compute.Scale:
		d.scale(o.X, o.Factor)
	case *compute.SoftCap:
		d.softCap(o.X, o.Limit)
	case *compute.Temper:
		d.temper(o.X, o.How)
	case *compute.GaussianTopK:
		d.gaussianTopK(o.X, o.Deviations)
	case *compute.Match:
		d.match(o.X, o.Like, o.Floor)
	case *compute.Slice:
		d.slice(o.Dst, o.X, o.From)
	case *compute.Multiply:
		d.scaleColumns(o.Dst, o.X, o.W)
	case *compute.Shift:
		d.shift(o.X, o.B)
	case *compute.AltUpPredict:
		d.altUpPredict(o.X, o.M, o.W)
	case *compute.AltUpCorrect:
		d.altUpCorrect(o.X, o.Y, o.M, o.W, o.Active)
	case *compute.Compress:
		d.compress(o)
	case *compute.AttendBlocks:
		d.attendBlocks(o)
	case *compute.ConnectionWeights:
		d.connectionWeights(o)
	case *compute.ReadStreams:
		d.readStreams(o)
	case *compute.ReadGated:
		d.readGated(o)
	case *compute.WriteStreams:
		d.writeStreams(o)
	case *compute.Recent:
		d.recent(o)
	case *compute.EmbedNGrams:
		d.embedNGrams(o)
	case *compute.MatchStreams:
		d.matchStreams(o)
	case *compute.Clamp:
		d.clamp(o.X, o.Low, o.High)
	case *compute.CopyColumns:
		d.copyColumns(o)
	case *compute.Activate:
		d.activate(o.Dst, o.Gate, o.Up, o.Act)
	case *compute.Gather:
		d.gather(o.Dst, o.X)
	case *compute.Insert:
		d.p.Insert(func(i int) []float32 { return row(o.X, i) }, o.First, o.Add)
	case *compute.Precede:
		d.precede(o.Dst, o.X)
	case *compute.Predict:
		d.predict(o.Set, o.X, o.Hidden, o.Logits, o.FC1, o.FC2)
	case *compute.SparseFFN:
		d.sparseFFN(o.Out, o.X, o.Set, o.Weights)
	case *compute.Route:
		d.route(o)
	case *compute.Experts:
		d.chosenExperts(o.Out, o.X, o.Choice, o.Weights)
	case *compute.GateRows:
		d.gateRows(o)
	case *compute.Convolve:
		d.convolution.run(o)
	case *compute.Scan:
		d.scans.run(o)
	case *compute.Delta:
		d.deltas.run(o)
	case *compute.AttendResiduals:
		d.attendResiduals(o)
	case *compute.WKV:
		d.wkvs.run(o)
	default:
		panic("cpu: no operation " + compute.Name(op))
	}
}
