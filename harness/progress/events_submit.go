package progress

import (
	"fmt"
	"strings"
	"time"
)

// JobSubmitted is reported when submit has given shards to the engine.
type JobSubmitted struct {
	Engine string `json:"engine"`
	ID     string `json:"job"`
	Shards int    `json:"shards"`
}

func (e JobSubmitted) String() string {
	return fmt.Sprintf("%d shards submitted to %s: job %s", e.Shards, e.Engine, e.ID)
}

// JobFound is reported when they were given to it before.
type JobFound struct {
	Engine string `json:"engine"`
	ID     string `json:"job"`
}

func (e JobFound) String() string {
	return fmt.Sprintf("submitted before to %s: job %s", e.Engine, e.ID)
}

// JobFollowed is reported when how the shards go, every 15 seconds.
type JobFollowed struct {
	Shards   int            `json:"shards"`
	Finished int            `json:"shards_finished"`
	Running  int            `json:"shards_running"`
	Waiting  int            `json:"shards_waiting"`
	Done     int            `json:"images_done"`
	Images   int            `json:"images"`
	Robust   int            `json:"robust"`
	Left     *time.Duration `json:"seconds_left,omitzero"`
}

func (e JobFollowed) String() string {
	left := "? left"
	if e.Left != nil {
		left = roughly(*e.Left) + " left"
	}
	return fmt.Sprintf("shards: %d of %d done, %d run, %d wait; images: %d of %d done, %d robust so far; %s",
		e.Finished, e.Shards, e.Running, e.Waiting, e.Done, e.Images, e.Robust, left)
}

// EngineSilent is reported when the engine did not answer; it is asked again.
type EngineSilent struct {
	Error string `json:"error"`
}

func (e EngineSilent) String() string { return "the engine does not answer: " + e.Error }

// ShardsFailed is reported when shards have ended unfinished: they are submitted again.
type ShardsFailed struct {
	Which []int `json:"which"`
}

func (e ShardsFailed) String() string {
	return fmt.Sprintf("shards %s have ended unfinished", strings.Trim(fmt.Sprint(e.Which), "[]"))
}

// JobGoesOn is reported when a signal has ended the following, not the job.
type JobGoesOn struct {
	Engine string   `json:"engine"`
	IDs    []string `json:"jobs"`
	Cancel string   `json:"cancel"`
}

func (e JobGoesOn) String() string {
	return fmt.Sprintf("job %s of %s goes on; %s ends it", strings.Join(e.IDs, ", "), e.Engine, e.Cancel)
}
