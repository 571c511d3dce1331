package planted

import (
	"context"
	"errors"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/open"
)

// Model tests an attack on the only model of cfg, with the first images of its only data set that the model classifies
// correctly, so many at most.
func Model(ctx context.Context, cfg *config.Config, setup attacks.Setup, epsilon float64, most int,
	o Options) (all Outcome, err error) {
	u, err := open.Use(ctx, cfg, cfg.Models[0].Name, "", open.Options{})
	if err != nil {
		return all, err
	}
	defer u.Close()
	set, err := u.Scored(cfg.Datasets[0].Name)
	if err == nil {
		err = u.Fits(set.Dataset)
	}
	if err != nil {
		return all, err
	}
	n, err := u.Net.ForAttacks(!cfg.Runtime.Winograd || u.Net.Pool().Target(true).Row().Direct)
	if err != nil {
		return all, err
	}
	defer n.Close()
	recipe, err := setup.Make(epsilon, n.Classes())
	if err != nil {
		return all, err
	}
	recipe = recipe.On(n.Shape())
	for _, c := range recipe.Components {
		if err := c.Check(n.Classes(), n.Shape()); err != nil {
			return all, err
		}
	}
	p, err := n.Planted()
	if err != nil {
		return all, err
	}
	defer p.Close()
	var images []attacks.Image
	logits := make([]float32, n.Classes())
	for i := 0; i < set.Len() && len(images) < most; i++ {
		id, pixels, label, err := set.Image(i)
		if err == nil {
			err = n.Logits(ctx, pixels, logits)
		}
		if err != nil {
			return all, err
		}
		if attacks.Right(logits, label) {
			images = append(images, attacks.Image{ID: id, Pixels: pixels, Label: label})
		}
	}
	if len(images) == 0 {
		return all, errors.New("it is right on none of the images")
	}
	return Test(ctx, p, recipe, images, o)
}
