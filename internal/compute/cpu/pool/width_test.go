package pool

import (
	"testing"
	"time"
)

// machine is a clock on which regions take as long as speeds says, and a width that is told of them.
type machine struct {
	width
	clock  time.Duration
	took   map[int]time.Duration // a region's time by the number of threads
	alone  bool                  // no other process is busy: no thread is taken off its core
	trials int
}

func newMachine(threads int) *machine {
	m := &machine{}
	m.init(threads)
	m.now = func() time.Duration { return m.clock }
	m.follow(1)
	return m
}

// run has regions follow each other for the given time. Of three regions one is held up for half of its time unless the
// machine is alone or one thread is left.
func (m *machine) run(d time.Duration) {
	for end, n := m.clock+d, 0; m.clock < end; n++ {
		before := m.trial
		m.open()
		if m.trial && !before {
			m.trials++
		}
		took := m.took[int(m.threads.Load())]
		m.clock += took / 2
		if n%3 == 0 && !m.alone && m.threads.Load() > 1 {
			m.wait()
			m.preempted.Store(true)
		}
		m.clock += took / 2
		m.close()
		m.clock += 5 * time.Microsecond
	}
}

func TestWidthFollowsSpeed(t *testing.T) {
	const us = time.Microsecond
	m := newMachine(4)
	check := func(state string, want int) {
		t.Helper()
		if !m.trial && int(m.threads.Load()) != want {
			t.Errorf("%s: %d threads take part, not %d", state, m.threads.Load(), want)
		}
	}
	m.took = map[int]time.Duration{1: 400 * us, 2: 200 * us, 3: 134 * us, 4: 100 * us}
	m.alone = true
	m.run(10 * time.Second)
	check("alone", 4)
	if m.trials != 0 {
		t.Errorf("%d trials although no thread was taken off its core", m.trials)
	}
	m.alone = false
	m.run(20 * time.Second)
	check("beside others, all threads are fastest", 4)
	if m.trials < 5 || m.trials > 15 {
		t.Errorf("%d trials in 20 s; their distance should grow to 3.2 s", m.trials)
	}
	m.took[3], m.took[4] = 140*us, 200*us
	m.run(5 * time.Second)
	check("beside one busy process, three are fastest", 3)
	m.took[2], m.took[3] = 190*us, 210*us
	m.run(5 * time.Second)
	check("beside two busy processes, two are fastest", 2)
	m.took[1] = 150 * us
	m.run(5 * time.Second)
	check("beside busy processes everywhere, one is fastest", 1)
	m.took = map[int]time.Duration{1: 400 * us, 2: 200 * us, 3: 134 * us, 4: 100 * us}
	m.follow(0)
	m.run(time.Second)
	check("long regions", 4)
	m.follow(1)
	check("short ones again", 1)
	m.alone = true
	m.run(12 * time.Second)
	check("alone again", 4)
}

// TestYieldedTime has one of two threads left out of nearly all regions, as beside a busy process.
func TestYieldedTime(t *testing.T) {
	const us = time.Microsecond
	m := newMachine(2)
	m.took = map[int]time.Duration{1: 100 * us, 2: 200 * us}
	m.alone = true
	m.run(time.Second)
	if y := m.yielded.Load(); y != 0 {
		t.Errorf("%v were left to others although nobody was busy", time.Duration(y))
	}
	m.alone = false
	m.run(20 * time.Second)
	y := time.Duration(m.yielded.Load())
	if y < 15*time.Second || y > 20*time.Second {
		t.Errorf("%v of one thread were left to others in 20 s", y)
	}
}

// TestExpectedWidth has others probably keep two of four cores busy. Regions begin with two threads, and with more as
// soon as these prove faster.
func TestExpectedWidth(t *testing.T) {
	const us = time.Microsecond
	p := New(4)
	defer p.Close()
	p.Expect(2)
	m := newMachine(4)
	m.chosen = p.width.chosen
	m.follow(0)
	m.follow(1)
	m.took = map[int]time.Duration{1: 400 * us, 2: 200 * us, 3: 134 * us, 4: 100 * us}
	m.alone = true
	m.run(10 * time.Millisecond)
	if n := m.threads.Load(); n != 2 {
		t.Errorf("%d threads begin, want 2", n)
	}
	m.run(2 * time.Second)
	if n := m.threads.Load(); n != 4 {
		t.Errorf("%d threads take part after two calm seconds, want 4", n)
	}
}

// TestWidthBesideOthers plays the figures of a process that shares a core with a thread of the pool, as measured on Linux
// 6.18. The lowest priority takes the core 27 times a second for 0.6 ms, which is no reason for a trial. The same
// priority, or another session, takes it for half of the time.
func TestWidthBesideOthers(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		name        string
		every, held time.Duration
		trial       bool
	}{{"nice 19", 37 * ms, 600 * us, false}, {"equal", 5 * ms, 2500 * us, true}} {
		m := newMachine(2)
		m.alone = true
		m.took = map[int]time.Duration{1: 200 * us, 2: 100 * us}
		for m.clock < 5*time.Second && m.trials == 0 {
			m.run(c.every - c.held)
			m.open()
			m.wait()
			m.preempted.Store(true)
			m.clock += c.held
			m.close()
		}
		if began := m.trials > 0; began != c.trial {
			t.Errorf("beside a process that is %s: a trial is %v, want %v", c.name, began, c.trial)
		}
	}
}

// TestWidthAfterStop stops the process in the middle of a region, as a debugger does, and has it idle after a worker noted
// that a region was held up which had just ended. Neither is a reason for a trial, also not once a second.
func TestWidthAfterStop(t *testing.T) {
	for name, stop := range map[string]func(m *machine){
		"stopped": func(m *machine) {
			m.open()
			m.wait()
			m.clock += time.Minute
			m.preempted.Store(true)
			m.close()
		},
		"idle": func(m *machine) {
			m.wait()
			m.clock += time.Minute
			m.open()
			m.preempted.Store(true)
			m.close()
		},
	} {
		m := newMachine(2)
		m.alone = true
		m.took = map[int]time.Duration{1: 200 * time.Microsecond, 2: 100 * time.Microsecond}
		for range 3 {
			m.run(time.Second)
			stop(m)
		}
		m.run(time.Second)
		if m.trials != 0 {
			t.Errorf("%s: %d trials", name, m.trials)
		}
	}
}

// TestTrialStopped stops the process in the middle of a trial, which then says nothing.
func TestTrialStopped(t *testing.T) {
	m := newMachine(2)
	m.took = map[int]time.Duration{1: 102 * time.Microsecond, 2: 100 * time.Microsecond} // too alike to try two again with success
	for m.trials < 3 {
		for !m.trial {
			m.run(time.Millisecond)
		}
		m.open()
		m.clock += time.Minute
		m.close()
		for m.trial {
			m.run(time.Millisecond)
		}
	}
	if n := m.threads.Load(); n != 2 {
		t.Errorf("%d threads take part, want 2", n)
	}
}

// TestWidthForgetsAlarms covers alarms that came while no trial could begin: after a quiet time they are no reason for one.
func TestWidthForgetsAlarms(t *testing.T) {
	m := newMachine(2)
	m.alone = true
	m.took = map[int]time.Duration{1: 200 * time.Microsecond, 2: 100 * time.Microsecond}
	m.alarms, m.retry = 2*alarmLimit, pauseFirst
	m.clock = time.Hour
	m.run(time.Second)
	if m.trials != 0 {
		t.Errorf("%d trials", m.trials)
	}
}

// TestThreadsComeAndGo has trials follow each other until one thread is left, and then until all take part again.
// Meanwhile regions must run every chunk once.
func TestThreadsComeAndGo(t *testing.T) {
	p := New(4)
	defer p.Close()
	p.width.follow(1) // Begin would not where there are fewer than four processors
	marks := make([]int, 10)
	round := 0
	until := func(threads int, alarms time.Duration, turn func() time.Duration) {
		for p.Active() != threads {
			p.width.alarms, p.width.alarm, p.width.retry = alarms, p.width.now(), 0
			if p.width.trial {
				p.width.time, p.width.regions = turn(), trialRegions
			}
			round++
			region(t, p, len(marks), marks, round)
		}
	}
	until(1, 2*alarmLimit, func() time.Duration { return trialTime * time.Duration(p.Active()) })
	until(4, 0, func() time.Duration { return trialTime * time.Duration(5-p.Active()) })
}
