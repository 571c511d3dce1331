package open

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// openEnsemble opens an ensemble and its members.
func (o *Opener) openEnsemble(ctx context.Context, pool *ort.Pool, m *config.Model, images string) (
	n *control.Network, err error) {
	var members []*control.Network
	defer func() {
		if n == nil {
			for _, one := range members {
				one.Close()
			}
		}
	}()
	for i := range m.Members {
		one, err := o.NetworkOn(ctx, pool, &m.Members[i], o.imagesOf(m, images))
		if err != nil {
			return nil, err
		}
		members = append(members, one)
		if o.Config.Model(one.Name) == nil { // no suite scores it by itself
			delete(o.Record.Models, one.Name)
		}
	}
	if n, err = control.NewEnsemble(m.Name, members, m.Task.By); err != nil {
		n = nil
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	known, err := o.Describe(m)
	if err != nil {
		n.Close()
		return nil, err
	}
	known.Parameters, known.Segments, known.FLOPs = n.Parameters, 1, n.FLOPs()
	o.Record.Models[m.Name] = known
	return n, nil
}

// Describe describes a model for results without opening its network. An ensemble's hash is of its members'
// descriptions.
func (o *Opener) Describe(m *config.Model) (result.Model, error) {
	if len(m.Members) == 0 {
		file, err := ReadModel(o.Config.Files, m.Path)
		if err != nil {
			return result.Model{}, fmt.Errorf("model %s: %w", m.Name, err)
		}
		known := Identified(m, file.SHA256)
		_, known.Task, err = o.task(m)
		return known, err
	}
	var all []result.Network
	for i := range m.Members {
		known, err := o.Describe(&m.Members[i])
		if err != nil {
			return known, err
		}
		all = append(all, known.Network())
	}
	text, err := json.Marshal(all)
	known := Identified(m, fmt.Sprintf("%x", sha256.Sum256(text)))
	known.Task = &result.Task{Settings: m.Task.Settings}
	return known, err
}
