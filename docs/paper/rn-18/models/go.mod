// Networks alone: a module of its own, so that go install does not bring them.
module selfheal/docs/paper/rn-18/models

go 1.26
