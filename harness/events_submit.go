package harness

import (
	"fmt"
	"strings"
	"time"
)

type jobSubmitted struct {
	Engine string `json:"engine"`
	ID     string `json:"job"`
	Shards int    `json:"shards"`
}

func (e jobSubmitted) String() string {
	return fmt.Sprintf("%d shards submitted to %s: job %s", e.Shards, e.Engine, e.ID)
}

type jobFound struct {
	Engine string `json:"engine"`
	ID     string `json:"job"`
}

func (e jobFound) String() string {
	return fmt.Sprintf("submitted before to %s: job %s", e.Engine, e.ID)
}

type jobFollowed struct {
	Shards   int            `json:"shards"`
	Finished int            `json:"shards_finished"`
	Running  int            `json:"shards_running"`
	Waiting  int            `json:"shards_waiting"`
	Done     int            `json:"images_done"`
	Images   int            `json:"images"`
	Robust   int            `json:"robust"`
	Left     *time.Duration `json:"seconds_left,omitzero"`
}

func (e jobFollowed) String() string {
	left := "? left"
	if e.Left != nil {
		left = roughly(*e.Left) + " left"
	}
	return fmt.Sprintf("shards: %d of %d done, %d run, %d wait; images: %d of %d done, %d robust so far; %s",
		e.Finished, e.Shards, e.Running, e.Waiting, e.Done, e.Images, e.Robust, left)
}

type engineSilent struct {
	Error string `json:"error"`
}

func (e engineSilent) String() string { return "the engine does not answer: " + e.Error }

type shardsFailed struct {
	Which []int `json:"which"`
}

func (e shardsFailed) String() string {
	return fmt.Sprintf("shards %s have ended unfinished", strings.Trim(fmt.Sprint(e.Which), "[]"))
}

type jobGoesOn struct {
	Engine string   `json:"engine"`
	IDs    []string `json:"jobs"`
	Cancel string   `json:"cancel"`
}

func (e jobGoesOn) String() string {
	return fmt.Sprintf("job %s of %s goes on; %s ends it", strings.Join(e.IDs, ", "), e.Engine, e.Cancel)
}
