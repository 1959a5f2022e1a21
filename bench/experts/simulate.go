package main

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// shape is what of a model counts here; sizes are bytes.
type shape struct {
	Name          string
	Layers        int // with experts
	Experts, Used int
	Expert        int64 // one expert
	Dense         int64 // bytes of a layer: attention, norms, router, shared experts, keys and values
	Head          int64
}

// bytes returns what the model takes.
func (s *shape) bytes() int64 {
	return s.Head + int64(s.Layers)*(s.Dense+int64(s.Experts)*s.Expert)
}

// machine is a machine with a GPU.
type machine struct {
	Name string
	placement.Machine
	Bus    float64 // bytes per second from RAM to the GPU
	Stage  float64 // bytes per second at which experts are staged for it, while the processor computes
	Beside bool    // the GPU has a separate queue for copies, which are made while it computes
}

// result is what a policy gives on a trace.
type result struct {
	seconds float64 // per token, on average
	hits    float64 // share of uses with the expert on the GPU
	copied  float64 // bytes to the GPU for a token, on average
}

// setting is a model on a machine, with what is known about it before the trace begins.
type setting struct {
	shape
	on    machine
	known bool        // prior was measured on another text; else it is what plans expect of slots that follow a text
	prior [][]float64 // [layers][experts] frequencies
	order [][]int32   // [layers] experts, hottest of prior first
}

// newSetting returns a setting in which the frequencies of profile are known; of an empty one nothing is.
func newSetting(s shape, on machine, profile trace) *setting {
	c := &setting{shape: s, on: on, known: len(profile) > 0}
	for l := range s.Layers {
		f := modelcost.FollowedUses(s.Experts, s.Used)
		if c.known {
			f = profile.frequencies(l, s.Experts)
		}
		c.prior, c.order = append(c.prior, f), append(c.order, largest(f, s.Experts))
	}
	return c
}

// model describes the model to package placement, with the frequencies of prior.
func (c *setting) model() placement.Model {
	m := placement.Model{Head: c.Head}
	for l := range c.Layers {
		u := placement.Units{Size: c.Expert}
		for _, e := range c.order[l] {
			u.Sometimes = append(u.Sometimes, c.prior[l][e]*float64(c.Expert))
		}
		m.Layers = append(m.Layers, placement.Layer{Attention: c.Dense, Units: u})
	}
	return m
}

// placed returns what the planner chooses.
func (c *setting) placed() (placement.Plan, error) { return placement.Solve(c.model(), c.on.Machine) }

// ncmoe returns the best of llama.cpp's placements: everything except the experts on the GPU, and the experts of the
// last layers, too.
func (c *setting) ncmoe() (best placement.Plan, err error) {
	m, g := c.model(), c.on.GPUs[0]
	best.Seconds = math.Inf(1)
	for n := range c.Layers + 1 {
		places := make([]compute.Place, c.Layers+1)
		for l := range places {
			places[l] = compute.Place{Attention: true}
			if l >= n && l < c.Layers {
				places[l].Bound = c.Experts
			}
		}
		p, err := placement.Price(&m, &c.on.Machine, places)
		if err != nil {
			return p, err
		}
		if p.VRAM[0] <= g.Budget && p.Seconds < best.Seconds {
			best = p
		}
	}
	if math.IsInf(best.Seconds, 1) {
		return placement.Solve(m, placement.Machine{Stream: c.on.Stream, Rows: c.on.Rows, HandOff: c.on.HandOff})
	}
	return best, nil
}

// planned plays a trace on a plan with hot experts that do not move.
func (c *setting) planned(p *placement.Plan, t trace) (r result) {
	for i := range t {
		for l, u := range t[i] {
			hits := 0
			for _, e := range u {
				if slices.Contains(c.order[l][:p.Layers[l].Bound], e) {
					hits++
				}
			}
			r.add(c.layer(&p.Layers[l], hits, len(u)-hits, 0), hits)
		}
		r.seconds += p.Layers[c.Layers].Seconds
	}
	return r.mean(t)
}

// layer returns a layer's time with hits experts on the GPU and misses in RAM. taken is the part of RAM's bandwidth
// that copies take, in bytes per second.
func (c *setting) layer(y *placement.Priced, hits, misses int, taken float64) float64 {
	hot := 0.0
	if hits > 0 {
		hot = float64(hits) * float64(c.Expert) / c.on.GPUs[0].Read
	}
	return y.Dense + y.Wait + max(hot, float64(misses)*float64(c.Expert)/(c.on.Stream-taken))
}

// copying is an expert on its way to the GPU, as in package hybrid.
type copying struct {
	residency.Move
	stage, send float64 // bytes that are still to be staged, and then to be sent
}

// adaptive plays a trace with the policy that the engine goes by, from the plan's placement on. Experts are staged one
// after the other while tokens are computed, which takes bandwidth of RAM, and sent while the next token is computed,
// which takes some, too, or in pieces between tokens, which takes time.
func (c *setting) adaptive(p *placement.Plan, t trace, tuning residency.Tuning) (r result, err error) {
	var layers []residency.Layer
	for l := range c.Layers {
		y := residency.Layer{Experts: c.Experts, Slots: p.Layers[l].Bound, Bytes: c.Expert}
		if c.known {
			y.Prior = c.prior[l]
		}
		layers = append(layers, y)
	}
	speeds := residency.Speeds{RAM: c.on.Stream, GPU: c.on.GPUs[0].Read, Bus: c.on.Bus, Beside: c.on.Beside}
	policy, err := residency.New(layers, speeds, tuning)
	if err != nil {
		return r, err
	}
	for l := range layers {
		policy.Fill(l, c.order[l])
	}
	var under []copying
	token, moving := p.Seconds, 0.0 // seconds of the token before, and bytes that are sent while one is computed
	uses := make([]int32, c.Experts)
	for i := range t {
		taken := 0.0 // part of RAM's bandwidth that copies take, in bytes per second
		if moving > 0 {
			taken = moving / token
		}
		if len(under) > 0 {
			unstaged := 0.0
			for _, m := range under {
				unstaged += m.stage
			}
			taken += residency.Staged * min(c.on.Stage, unstaged/token)
		}
		token = p.Layers[c.Layers].Seconds
		for l, u := range t[i] {
			hits, slots := 0, policy.Slots(l)
			clear(uses)
			for _, e := range u {
				uses[e]++
				if slots[e] != residency.Absent {
					hits++
				}
			}
			token += c.layer(&p.Layers[l], hits, len(u)-hits, taken)
			r.add(0, hits)
			policy.Used(l, 1, uses)
		}
		stage(under, c.on.Stage*token)
		var sent, copied float64
		under, sent, copied = step(policy, under, min(float64(speeds.Piece(token)), c.on.Bus*token))
		if math.IsInf(c.on.Stage, 1) { // copies are over before the next token
			for len(under) > 0 {
				stage(under, c.on.Stage)
				var s, b float64
				under, s, b = step(policy, under, float64(speeds.Piece(token)))
				sent, copied = sent+s, copied+b
			}
		}
		r.seconds += token
		if moving = sent; !c.on.Beside {
			r.seconds, moving = r.seconds+sent/c.on.Bus, 0
		}
		r.copied += copied
	}
	return r.mean(t), nil
}

// stage stages up to this many bytes of copies, one copy after the other.
func stage(under []copying, bytes float64) {
	for i := range under {
		n := min(bytes, under[i].stage)
		under[i].stage -= n
		bytes -= n
	}
}

// step does what the engine does between two tokens: it sends at most piece bytes of the staged copies, takes earlier
// ones as arrived, and begins copies. It returns the copies under way, the bytes sent, and the bytes of the copies
// begun.
func step(policy *residency.Policy, under []copying, piece float64) (left []copying, sent, begun float64) {
	for i := range under {
		m := &under[i]
		if m.stage == 0 && m.send == 0 && piece > sent {
			policy.Done(m.Move)
			continue
		}
		if m.stage == 0 {
			n := min(m.send, piece-sent)
			if m.send == float64(m.Bytes) && n > 0 {
				policy.Sending(m.Move)
			}
			m.send -= n
			sent += n
		}
		left = append(left, *m)
	}
	for len(left) < residency.Copies {
		move, ok := policy.Next()
		if !ok {
			break
		}
		bytes := float64(move.Bytes)
		left, begun = append(left, copying{move, bytes, bytes}), begun+bytes
	}
	return left, sent, begun
}

// fetching plays a trace as offloading engines do: every layer has the same number of slots, and a missing expert is
// copied to the GPU before it computes, in place of the one with the least worth.
func (c *setting) fetching(t trace, worth func(last, count int) float64) (r result) {
	g := c.on.GPUs[0]
	room := (g.Budget - g.Overhead - c.Head - c.Dense*int64(c.Layers)) / int64(c.Layers) / c.Expert
	slots := int(min(max(room, int64(c.Used)), int64(c.Experts)))
	type cached struct{ last, count int }
	held := make([]map[int32]*cached, c.Layers)
	for l := range held {
		held[l] = map[int32]*cached{}
		for _, e := range c.order[l][:slots] {
			held[l][e] = &cached{last: -1}
		}
	}
	for i := range t {
		for l, u := range t[i] {
			hits, misses := 0, 0
			for _, e := range u {
				if held[l][e] != nil {
					hits++
				} else {
					misses++
					if len(held[l]) >= slots {
						out, least := int32(-1), math.Inf(1)
						for f, k := range held[l] {
							if slices.Contains(u, f) {
								continue
							}
							if w := worth(k.last, k.count); w < least || w == least && f < out {
								out, least = f, w
							}
						}
						delete(held[l], out)
					}
					held[l][e] = &cached{}
				}
				held[l][e].last = i
				held[l][e].count++
			}
			bytes := float64(c.Expert)
			wait := c.on.HandOff // the choice must reach the processor
			if slots == c.Experts {
				wait = 0
			}
			r.add(g.Launch+float64(c.Dense)/g.Read+float64(len(u))*bytes/g.Read+float64(misses)*bytes/c.on.Bus+wait, hits)
			r.copied += float64(misses) * bytes
		}
		r.seconds += float64(c.Head)/g.Read + c.on.HandOff // a token begins and ends in RAM
	}
	return r.mean(t)
}

// recently and often are what LRU and LFU go by.
func recently(last, _ int) float64 { return float64(last) }

func often(last, count int) float64 {
	return float64(count) + float64(last)*1e-9
}

func (r *result) add(seconds float64, hits int) {
	r.seconds += seconds
	r.hits += float64(hits)
}

// mean returns r, which holds sums over the trace, for a token.
func (r result) mean(t trace) result {
	tokens, uses := float64(len(t)), 0
	for i := range t {
		for _, u := range t[i] {
			uses += len(u)
		}
	}
	return result{seconds: r.seconds / tokens, hits: r.hits / float64(uses), copied: r.copied / tokens}
}
