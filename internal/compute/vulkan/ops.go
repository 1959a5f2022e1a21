package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// perform records op by itself.
func (r *recorder) perform(op compute.Op) {
	switch o := op.(type) {
	case *compute.Embed:
		r.embed(o.Dst, o.Table)
	case *compute.AddPosition:
		r.addPosition(o.X, o.Table, o.Offset)
	case *compute.AddType:
		r.addType(o.X, o.Table)
	case *compute.RMSNorm:
		r.rmsNorm(o.Dst, o.X, o.W, o.Eps)
	case *compute.LayerNorm:
		r.layerNorm(o.Dst, o.X, o.W, o.B, o.Eps)
	case *compute.MatMul:
		r.matMul(o.X, o.Products)
	case *compute.MatMulByHead:
		r.matMulByHead(o)
	case *compute.RoPE:
		r.alone(o, o.X)
	case *compute.StoreKV:
		if o.Cache.Layers[o.Layer].Every > 0 {
			r.storeRows(o)
			return
		}
		r.alone(o, o.K)
	case *compute.LoadKeys:
		r.loadKeys(o.Cache, o.Layer, o.K)
	case *compute.Attend:
		r.attend(o.Out, o.Q, o.Cache, o.Layer, o.How)
	case *compute.Select:
		r.selectBlocks(o)
	case *compute.Add:
		r.add(o.Dst, o.X)
	case *compute.Scale:
		r.scale(o.X, o.Factor)
	case *compute.SoftCap:
		r.softCap(o.X, o.Limit)
	case *compute.Temper:
		r.temper(o.X, o.How)
	case *compute.GaussianTopK:
		r.gaussianTopK(o.X, o.Deviations)
	case *compute.Match:
		r.match(o.X, o.Like, o.Floor)
	case *compute.Slice:
		r.slice(o.Dst, o.X, o.From)
	case *compute.Multiply:
		r.scaleColumns(o.Dst, o.X, o.W)
	case *compute.Shift:
		r.shift(o.X, o.B)
	case *compute.AltUpPredict:
		r.altUpPredict(o.X, o.M, o.W)
	case *compute.AltUpCorrect:
		r.altUpCorrect(o.X, o.Y, o.M, o.W, o.Active)
	case *compute.Compress:
		r.compress(o)
	case *compute.AttendBlocks:
		r.attendBlocks(o)
	case *compute.ConnectionWeights:
		r.connectionWeights(o)
	case *compute.ReadStreams:
		r.readStreams(o)
	case *compute.ReadGated:
		r.readGated(o)
	case *compute.WriteStreams:
		r.writeStreams(o)
	case *compute.Recent:
		r.recent(o)
	case *compute.EmbedNGrams:
		r.embedNGrams(o)
	case *compute.MatchStreams:
		r.matchStreams(o)
	case *compute.Clamp:
		r.clamp(o.X, o.Low, o.High)
	case *compute.CopyColumns:
		r.copyColumns(o)
	case *compute.Activate:
		r.activate(o.Dst, o.Gate, o.Up, o.Act)
	case *compute.Gather:
		r.gather(o.Dst, o.X)
	case *compute.Insert:
		r.insert(o.X, o.First, o.Add)
	case *compute.Precede:
		r.precede(o.Dst, o.X)
	case *compute.Predict:
		r.predict(o.Set, o.X, o.Hidden, o.Logits, o.FC1, o.FC2)
	case *compute.SparseFFN:
		r.sparseFFN(o.Out, o.X, o.Set, o.Weights)
	case *compute.Route:
		r.route(o)
	case *compute.Experts:
		r.chosenExperts(o)
	case *compute.GateRows:
		r.gateRows(o)
	case *compute.Convolve:
		r.convolve(o)
	case *compute.Scan:
		r.scan(o)
	case *compute.Delta:
		r.delta(o)
	case *compute.AttendResiduals:
		r.attendResiduals(o)
	case *compute.WKV:
		r.wkv(o)
	default:
		panic("vulkan: no operation " + compute.Name(op))
	}
}

// alone is of an operation that a fusion records, even by itself: it has no rows then, or its shapes do not fit.
func (r *recorder) alone(op compute.Op, x compute.Tensor) {
	if x.Rows*x.Cols > 0 {
		panic("vulkan: " + compute.Name(op) + " of shapes that do not fit")
	}
}
