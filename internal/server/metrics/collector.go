package metrics

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// samples go out with a model's labels.
type samples struct {
	out    exposition
	labels []label
}

func (s *samples) add(name, help, kind string, v float64, more ...string) {
	labels := slices.Clone(s.labels)
	for i := 0; i < len(more); i += 2 {
		labels = append(labels, label{more[i], more[i+1]})
	}
	s.out.add(name, help, kind, "", v, labels...)
}

func (s *samples) count(name, help string, v int64, more ...string) {
	s.add(name, help, isCounter, float64(v), more...)
}

func (s *samples) seconds(name, help string, d time.Duration, more ...string) {
	s.add(name, help, isCounter, d.Seconds(), more...)
}

func (s *samples) gauge(name, help string, v float64, more ...string) {
	s.add(name, help, isGauge, v, more...)
}

// collect adds models' counters and their engines' state, as they are now.
func (m *Metrics) collect(models server.Models, out exposition) {
	loaded := map[string]*server.Model{}
	for _, l := range models.List() {
		if l.Model != nil {
			loaded[l.Name] = l.Model
			m.Model(l.Name)
		}
	}
	m.mu.Lock()
	counters := maps.Clone(m.models)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		k, s := counters[name], &samples{out: out}
		for _, l := range m.labels {
			s.labels = append(s.labels, label{l, name})
		}
		now, before := k.scrape()
		s.totals(&now, &before)
		s.model(loaded[name])
	}
}

// totals sends what a model's texts took, and the speed since before, as llama-server does.
func (s *samples) totals(t, before *totals) {
	s.count("llamacpp:prompt_tokens_total", "Prompt tokens evaluated, without those found in the cache.", t.prompt)
	s.count("llamacpp:prompt_tokens_cached_total", "Prompt tokens found in the cache.", t.cached)
	s.seconds("llamacpp:prompt_seconds_total", "Time that prompts took.", t.promptTime)
	s.count("llamacpp:tokens_predicted_total", "Tokens generated.", t.predicted)
	s.seconds("llamacpp:tokens_predicted_seconds_total", "Time that generating tokens took.", t.predictedTime)
	s.count("llamacpp:n_tokens_max", "The longest sequence, prompt and text.", int64(t.longest))
	s.count("llamacpp:spec_decode_num_drafts_total", "Steps that checked guessed tokens.", t.drafts)
	s.count("llamacpp:spec_decode_num_draft_tokens_total", "Tokens that were guessed and checked.", t.drafted)
	s.count("llamacpp:spec_decode_num_accepted_tokens_total", "Guessed tokens that were the ones that came.", t.accepted)
	s.count("powerinfer:hot_draft_tokens_total", "Of the tokens that were guessed and checked, those guessed by the model's own hot neurons.", t.hotDrafted)
	s.count("powerinfer:hot_accepted_tokens_total", "Of these, the ones that came.", t.hotAccepted)
	s.count("powerinfer:mtp_draft_tokens_total", "Of the tokens that were guessed and checked, those guessed by the file's layer that predicts a further token.", t.furtherDrafted)
	s.count("powerinfer:mtp_accepted_tokens_total", "Of these, the ones that came.", t.furtherAccepted)
	s.gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens evaluated per second, since the last scrape.", rate(t.prompt-before.prompt, t.promptTime-before.promptTime))
	s.gauge("llamacpp:predicted_tokens_seconds", "Tokens generated per second and text, since the last scrape.", rate(t.timed-before.timed, t.predictedTime-before.predictedTime))
	for i, end := range endLabels {
		s.count("powerinfer_texts_total", "Texts that ended, by why.", t.ends[i], "end", end)
	}
}

func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// model sends the state of a model, or nothing if it is not loaded.
func (s *samples) model(m *server.Model) {
	if m == nil {
		return
	}
	running, waiting := m.Load()
	s.gauge("llamacpp:requests_processing", "Texts being generated.", float64(running))
	s.gauge("llamacpp:requests_deferred", "Texts that wait for a slot.", float64(waiting))
	s.gauge("powerinfer_requests_running", "Texts being generated.", float64(running))
	s.gauge("powerinfer_requests_waiting", "Texts that wait for a slot.", float64(waiting))
	e := m.Engine.Stats()
	s.count("llamacpp:n_decode_total", "Steps of the model.", e.Steps)
	s.gauge("llamacpp:n_busy_slots_per_decode", "Sequences in a step, on average.", float64(e.Sequences)/float64(max(e.Steps, 1)))
	s.engine(&e)
	s.neurons(m.Engine.Neurons(), e.Decoded+e.Read)
	s.work(m.Engine)
	s.slots(m.Engine.SlotUse())
	s.units(m.Engine.UnitUse())
}

// slots sends what slots for experts on GPUs did.
func (s *samples) slots(u compute.SlotUse) {
	s.count("powerinfer_expert_uses_total", "Uses of experts in layers whose experts follow the text, by where the expert was.", u.Hits, "tier", "gpu")
	s.count("powerinfer_expert_uses_total", "Uses of experts in layers whose experts follow the text, by where the expert was.", u.Misses, "tier", "ram")
	s.count("powerinfer_experts_copied_total", "Experts that were copied to a GPU because the text used them.", u.Promotions)
	s.count("powerinfer_experts_copied_bytes_total", "Bytes that this took.", u.Bytes)
}

// units sends the use of experts, neurons or layers that stay on disk, and nothing if all are in memory.
func (s *samples) units(u compute.UnitUse) {
	if u.Units == 0 {
		return
	}
	const uses = "Uses of experts, neurons or layers that stay on disk, one a step, by where they were: kept in RAM, read ahead, or on disk."
	s.count("powerinfer_unit_uses_total", uses, u.Hits, "tier", "ram")
	s.count("powerinfer_unit_uses_total", uses, u.GuessesUsed, "tier", "ahead")
	s.count("powerinfer_unit_uses_total", uses, u.Misses, "tier", "disk")
	s.gauge("powerinfer_unit_hits_ratio", "Uses of these that were kept in RAM, of all.", float64(u.Hits)/float64(max(u.Uses(), 1)))
	s.count("powerinfer_unit_guesses_lost_total", "Experts or neurons that were read ahead and dropped before they were used.", u.GuessesLost)
	s.count("powerinfer_experts_left_out_total", "Uses of experts that were left out instead of read from disk, as --max-kld or --leave-out allows.", u.Left)
	s.count("powerinfer_disk_reads_total", "Reads from disk for steps.", u.Reads)
	s.count("powerinfer_disk_read_bytes_total", "Bytes that were read from disk for steps.", u.Bytes)
	s.seconds("powerinfer_disk_reading_seconds_total", "Time in which reads from disk were under way.", u.Busy)
	s.seconds("powerinfer_disk_waiting_seconds_total", "Time that steps waited for reads from disk.", u.Wait)
	const units = "Experts, neurons or layers that stay on disk, and those that RAM has room for."
	s.gauge("powerinfer_units", units, float64(u.Slots), "tier", "ram")
	s.gauge("powerinfer_units", units, float64(u.Units), "tier", "disk")
	const bytes = "Bytes of RAM for these, and those that all would take."
	s.gauge("powerinfer_unit_bytes", bytes, float64(u.Kept), "tier", "ram")
	s.gauge("powerinfer_unit_bytes", bytes, float64(u.OnDisk), "tier", "disk")
}

func (s *samples) engine(e *engine.Stats) {
	s.seconds("powerinfer_step_seconds_total", "Time that the model's steps took.", e.Time)
	s.count("powerinfer_step_tokens_total", "Tokens evaluated, one by one for running texts or as parts of prompts.", e.Decoded, "kind", "decode")
	s.count("powerinfer_step_tokens_total", "Tokens evaluated, one by one for running texts or as parts of prompts.", e.Read, "kind", "prompt")
	s.count("powerinfer_sequences_evicted_total", "Sequences that lost their pages to others and are evaluated again.", e.Evicted)
	s.gauge("powerinfer_kv_cache_usage_ratio", "Pages of the KV cache that sequences hold, of all.", float64(e.PagesHeld)/float64(max(e.Pages, 1)))
	free := e.Pages - e.PagesHeld - e.PagesKept
	const pages = "Pages of the KV cache: held by sequences, kept for their prefixes, free."
	s.gauge("powerinfer_kv_cache_pages", pages, float64(e.PagesHeld), "state", "held")
	s.gauge("powerinfer_kv_cache_pages", pages, float64(e.PagesKept), "state", "kept")
	s.gauge("powerinfer_kv_cache_pages", pages, float64(free), "state", "free")
	s.gauge("powerinfer_kv_cache_page_tokens", "Tokens of a page of the KV cache.", float64(e.PagePositions))
	s.gauge("powerinfer_cache_config_info", "The KV cache, as the model server protocol of the Gateway API wants it.", 1,
		"block_size", strconv.Itoa(e.PagePositions), "num_gpu_blocks", strconv.Itoa(e.Pages))
}

// neurons sends what feed-forward layers computed and read for the evaluated tokens.
func (s *samples) neurons(layers []model.NeuronUse, tokens int64) {
	var all, predicted, active, read, dense int64
	var ram struct{ predicted, active, read int64 } // the CPU's share
	for i := range layers {
		l := &layers[i]
		if l.Mode == model.Off {
			continue
		}
		all += l.Tokens * int64(l.Neurons)
		predicted += l.Predicted
		active += l.Active
		read += l.Bytes
		dense += l.Dense * l.Steps
		ram.predicted += l.PredictedRAM
		ram.active += l.ActiveRAM
		ram.read += l.RAM
	}
	if all == 0 {
		return
	}
	s.count("powerinfer_neurons_total", "Pairs of a token and a neuron of layers that are computed by neuron.", all, "kind", "all")
	s.count("powerinfer_neurons_total", "Pairs of a token and a neuron of layers that are computed by neuron.", predicted, "kind", "computed")
	s.count("powerinfer_neurons_total", "Pairs of a token and a neuron of layers that are computed by neuron.", active, "kind", "active")
	s.gauge("powerinfer_neurons_active_ratio", "Neurons that were active, of all that tokens passed.", float64(active)/float64(all))
	s.count("powerinfer_ffn_bytes_total", "Weights of feed-forward layers that were read, and that dense layers would have read.", read, "kind", "read")
	s.count("powerinfer_ffn_bytes_total", "Weights of feed-forward layers that were read, and that dense layers would have read.", dense, "kind", "dense")
	s.gauge("powerinfer_ffn_bytes_per_token", "Weights of feed-forward layers read for a token, on average.", float64(read)/float64(max(tokens, 1)))
	for _, t := range []struct {
		name                    string
		predicted, active, read int64
	}{{"gpu", predicted - ram.predicted, active - ram.active, read - ram.read}, {"ram", ram.predicted, ram.active, ram.read}} {
		const neurons = "Pairs of a token and a neuron, by where they were computed."
		s.count("powerinfer_tier_neurons_total", neurons, t.predicted, "tier", t.name, "kind", "computed")
		s.count("powerinfer_tier_neurons_total", neurons, t.active, "tier", t.name, "kind", "active")
		s.count("powerinfer_tier_ffn_bytes_total", "Weights of feed-forward layers that were read, by where.", t.read, "tier", t.name)
		s.gauge("powerinfer_tier_ffn_bytes_per_token", "Weights of feed-forward layers read for a token, on average, by where.",
			float64(t.read)/float64(max(tokens, 1)), "tier", t.name)
	}
	s.gauge("powerinfer_hot_hits_ratio", "Active neurons that a GPU had, of all active ones.", float64(active-ram.active)/float64(max(active, 1)))
}

// partLabels are the labels of compute's parts.
var partLabels = [compute.Parts]string{
	compute.PartAttention: "attention", compute.PartPredictor: "predictor", compute.PartNeurons: "neurons", compute.PartHead: "head", compute.PartRest: "other",
}

// work sends how long the processor and GPUs computed which parts of steps, and how long neither did.
func (s *samples) work(e *engine.Engine) {
	single, prompts := e.Spent()
	w := single.Work.Plus(prompts.Work, 1)
	const parts = "Time in which parts of the model's steps were computed; a GPU's by its own clock."
	for i, part := range partLabels {
		s.seconds("powerinfer_part_seconds_total", parts, w.CPU[i], "part", part, "processor", "cpu")
		s.seconds("powerinfer_part_seconds_total", parts, w.GPU[i], "part", part, "processor", "gpu")
	}
	s.seconds("powerinfer_overlap_seconds_total", "Time in which the processor and a GPU computed at the same time.", w.Together)
	waited := single.Time + prompts.Time - w.CPU.Sum() - w.GPU.Sum() + w.Together
	s.seconds("powerinfer_waiting_seconds_total", "Time of the model's steps in which neither the processor nor a GPU computed.", max(0, waited))
}
