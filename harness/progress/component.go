package progress

import (
	"sync"
	"time"
)

// Work describes the work of a component of an attack, or of a certificate.
type Work struct {
	Images   int          // that it works on
	Standing int          // images of the cell that stand at first
	N        int          // images of the cell
	Passes   int64        // that its images take at most, together
	Made     func() int64 // passes that are made so far
}

// component is the progress of one component of an attack: the finished images, the standing images of all, and the
// fraction of its passes that are made.
type component struct {
	display
	Work
	id       ComponentID
	mu       sync.Mutex
	finished int
	standing int
	each     int64 // most passes for an image
	before   int64 // passes made before it began, which the journal holds
}

// Component shows a component at work. do calls image for each finished image, with how many stand then and how many
// passes it took (0: all).
func (p *Progress) Component(id ComponentID, w Work, do func(image func(standing, passes int)) error) error {
	c := &component{display: p.display(1000), Work: w, id: id, standing: w.Standing,
		each: w.Passes / int64(max(w.Images, 1)), before: w.Made()}
	done := make(chan struct{})
	var ended sync.WaitGroup
	if !p.silent() {
		ended.Go(func() {
			t := time.NewTicker(c.tick)
			defer t.Stop()
			for {
				select {
				case <-done:
					return
				case <-t.C:
					c.tell()
				}
			}
		})
	}
	err := do(c.image)
	close(done)
	ended.Wait()
	c.Stop()
	if err == nil {
		c.Report(ComponentFinished{id, c.Images, c.standing, c.N, time.Since(c.start)})
	}
	return err
}

func (c *component) image(standing, passes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.standing = min(c.standing, standing)
	c.finished++
	if passes > 0 {
		c.Passes -= c.each - int64(passes) // passes that the image no longer takes
	}
}

func (c *component) tell() {
	made := float64(c.Made() - c.before)
	c.mu.Lock()
	e := ComponentProgress{ComponentID: c.id, ImagesDone: c.finished, Images: c.Images, Robust: c.standing, N: c.N,
		Share: min(made/max(float64(c.Passes), 1), 1)}
	c.mu.Unlock()
	if e.Share > 0.01 {
		e.Left = new(time.Duration(float64(time.Since(c.start)) * (1 - e.Share) / e.Share))
	}
	if c.follow != nil {
		c.follow()
	}
	c.show(int64(e.Share*1000), e.short(), e)
}

// Follow sets a function that is called whenever a component at work is shown.
func (p *Progress) Follow(follow func()) { p.follow = follow }
