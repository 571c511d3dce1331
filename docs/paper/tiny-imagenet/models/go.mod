// Networks alone: a module of its own, so that go install does not bring them.
module selfheal/docs/paper/tiny-imagenet/models

go 1.26
