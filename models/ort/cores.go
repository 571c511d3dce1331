package ort

import (
	"context"
	"runtime"
)

// limitCores bounds the goroutines of [Pool.Work] that run Go code at once to the threads of
// all runs: a user who asks for one worker gets one core's worth of attacks beside it. The
// channel is nil where the machine has no more cores than that, and on a device.
func (p *Pool) limitCores() {
	if n := p.workers * p.threads; !p.cuda && n < runtime.GOMAXPROCS(0) {
		p.cores = make(chan struct{}, n)
	}
}

// Work runs fn in the calling goroutine once a core is free for it. The core is given up
// while fn waits in [Pool.Run] under the context that fn gets. fn must not wait for another
// goroutine's Work in any other way.
func (p *Pool) Work(ctx context.Context, fn func(ctx context.Context) error) error {
	if p.cores == nil {
		return fn(ctx)
	}
	p.cores <- struct{}{}
	defer func() { <-p.cores }()
	return fn(context.WithValue(ctx, p, true))
}

// yield gives up the core of a goroutine in Work. It returns what takes one again.
func (p *Pool) yield(ctx context.Context) (resume func()) {
	if p.cores == nil || ctx.Value(p) == nil {
		return func() {}
	}
	<-p.cores
	return func() { p.cores <- struct{}{} }
}
