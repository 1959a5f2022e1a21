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
