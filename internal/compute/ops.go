package compute

// calls holds one operation of each kind, which Verbs fills in again for each call: so a call allocates nothing.
type calls struct {
	Executor
	embed       Embed
	addPosition AddPosition
	addType     AddType
	rmsNorm     RMSNorm
	layerNorm   LayerNorm
	matMul      MatMul
	byHead      MatMulByHead
	rope        RoPE
	storeKV     StoreKV
	loadKeys    LoadKeys
	attend      Attend
	latent      AttendLatent
	choose      Select
	add         Add
	scale       Scale
	softCap     SoftCap
	clamp       Clamp
	copyColumns CopyColumns
	activate    Activate
	temper      Temper
	topK        GaussianTopK
	match       Match
	slice       Slice
	multiply    Multiply
	shift       Shift
	altUp       AltUpPredict
	correct     AltUpCorrect
	gather      Gather
	precede     Precede
	insert      Insert
	predict     Predict
	sparseFFN   SparseFFN
	route       Route
	experts     Experts
	gateRows    GateRows
	convolve    Convolve
	scan        Scan
	delta       Delta
	residuals   AttendResiduals
	wkv         WKV

	connections  ConnectionWeights
	readStreams  ReadStreams
	readGated    ReadGated
	writeStreams WriteStreams

	recent       Recent
	embedNGrams  EmbedNGrams
	matchStreams MatchStreams

	compress     Compress
	attendBlocks AttendBlocks
}

// Operations has every operation as a method. Each device implements it, so that one that lacks an operation does not
// compile. A method may keep nothing of its operation, which its caller uses again.
type Operations interface {
	// Rows of tables and of activations.
	Embed(o *Embed)
	EmbedNGrams(o *EmbedNGrams)
	AddPosition(o *AddPosition)
	AddType(o *AddType)
	Gather(o *Gather)
	Insert(o *Insert)
	Precede(o *Precede)
	Recent(o *Recent)
	CopyColumns(o *CopyColumns)
	Slice(o *Slice)

	// Norms, and operations on single elements.
	RMSNorm(o *RMSNorm)
	LayerNorm(o *LayerNorm)
	Match(o *Match)
	Add(o *Add)
	Scale(o *Scale)
	SoftCap(o *SoftCap)
	Clamp(o *Clamp)
	Activate(o *Activate)
	GaussianTopK(o *GaussianTopK)
	Multiply(o *Multiply)
	Shift(o *Shift)

	// Products with weights.
	MatMul(o *MatMul)
	MatMulByHead(o *MatMulByHead)

	// Attention, and its keys and values.
	RoPE(o *RoPE)
	Temper(o *Temper)
	StoreKV(o *StoreKV)
	LoadKeys(o *LoadKeys)
	Attend(o *Attend)
	AttendLatent(o *AttendLatent)
	Select(o *Select)
	Compress(o *Compress)
	AttendBlocks(o *AttendBlocks)

	// Recurrent layers.
	Convolve(o *Convolve)
	Scan(o *Scan)
	Delta(o *Delta)
	WKV(o *WKV)

	// Feed-forward layers by neuron and by expert.
	Predict(o *Predict)
	SparseFFN(o *SparseFFN)
	Route(o *Route)
	Experts(o *Experts)
	GateRows(o *GateRows)

	// Residuals of several streams.
	AttendResiduals(o *AttendResiduals)
	AltUpPredict(o *AltUpPredict)
	AltUpCorrect(o *AltUpCorrect)
	ConnectionWeights(o *ConnectionWeights)
	ReadStreams(o *ReadStreams)
	ReadGated(o *ReadGated)
	WriteStreams(o *WriteStreams)
	MatchStreams(o *MatchStreams)
}

func (o *Embed) On(d Operations)       { d.Embed(o) }
func (o *EmbedNGrams) On(d Operations) { d.EmbedNGrams(o) }
func (o *AddPosition) On(d Operations) { d.AddPosition(o) }
func (o *AddType) On(d Operations)     { d.AddType(o) }
func (o *Gather) On(d Operations)      { d.Gather(o) }
func (o *Insert) On(d Operations)      { d.Insert(o) }
func (o *Precede) On(d Operations)     { d.Precede(o) }
func (o *Recent) On(d Operations)      { d.Recent(o) }
func (o *CopyColumns) On(d Operations) { d.CopyColumns(o) }
func (o *Slice) On(d Operations)       { d.Slice(o) }

func (o *RMSNorm) On(d Operations)      { d.RMSNorm(o) }
func (o *LayerNorm) On(d Operations)    { d.LayerNorm(o) }
func (o *Match) On(d Operations)        { d.Match(o) }
func (o *Add) On(d Operations)          { d.Add(o) }
func (o *Scale) On(d Operations)        { d.Scale(o) }
func (o *SoftCap) On(d Operations)      { d.SoftCap(o) }
func (o *Clamp) On(d Operations)        { d.Clamp(o) }
func (o *Activate) On(d Operations)     { d.Activate(o) }
func (o *GaussianTopK) On(d Operations) { d.GaussianTopK(o) }
func (o *Multiply) On(d Operations)     { d.Multiply(o) }
func (o *Shift) On(d Operations)        { d.Shift(o) }

func (o *MatMul) On(d Operations)       { d.MatMul(o) }
func (o *MatMulByHead) On(d Operations) { d.MatMulByHead(o) }

func (o *RoPE) On(d Operations)         { d.RoPE(o) }
func (o *Temper) On(d Operations)       { d.Temper(o) }
func (o *StoreKV) On(d Operations)      { d.StoreKV(o) }
func (o *LoadKeys) On(d Operations)     { d.LoadKeys(o) }
func (o *Attend) On(d Operations)       { d.Attend(o) }
func (o *AttendLatent) On(d Operations) { d.AttendLatent(o) }
func (o *Select) On(d Operations)       { d.Select(o) }
func (o *Compress) On(d Operations)     { d.Compress(o) }
func (o *AttendBlocks) On(d Operations) { d.AttendBlocks(o) }

func (o *Convolve) On(d Operations) { d.Convolve(o) }
func (o *Scan) On(d Operations)     { d.Scan(o) }
func (o *Delta) On(d Operations)    { d.Delta(o) }
func (o *WKV) On(d Operations)      { d.WKV(o) }

func (o *Predict) On(d Operations)   { d.Predict(o) }
func (o *SparseFFN) On(d Operations) { d.SparseFFN(o) }
func (o *Route) On(d Operations)     { d.Route(o) }
func (o *Experts) On(d Operations)   { d.Experts(o) }
func (o *GateRows) On(d Operations)  { d.GateRows(o) }

func (o *AttendResiduals) On(d Operations)   { d.AttendResiduals(o) }
func (o *AltUpPredict) On(d Operations)      { d.AltUpPredict(o) }
func (o *AltUpCorrect) On(d Operations)      { d.AltUpCorrect(o) }
func (o *ConnectionWeights) On(d Operations) { d.ConnectionWeights(o) }
func (o *ReadStreams) On(d Operations)       { d.ReadStreams(o) }
func (o *ReadGated) On(d Operations)         { d.ReadGated(o) }
func (o *WriteStreams) On(d Operations)      { d.WriteStreams(o) }
func (o *MatchStreams) On(d Operations)      { d.MatchStreams(o) }
